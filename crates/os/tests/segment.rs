//! Files as memory that processes share: how they come to be, what is refused, and that space is promised or denied.

mod common;

use std::ffi::CString;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use common::{AMPLE, Child, Directory, await_word, shared_page, sleep_for_ever};
use heapwright_os::{FileError, Segment, SegmentFile, effective_user, unlink};

const MIB: usize = 1 << 20;

/// The callers have backed the range, and nothing else uses it.
fn fill(segment: &Segment, from: usize, to: usize, value: u8) {
    assert!(from <= to && to <= segment.length());
    // SAFETY: the range lies in the mapping and is backed.
    unsafe { segment.base().add(from).write_bytes(value, to - from) };
}

fn is_filled(segment: &Segment, from: usize, to: usize, value: u8) -> bool {
    // SAFETY: the callers have backed the range, which lies in the mapping, and is not written to meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(segment.base().as_ptr().add(from), to - from) };
    bytes.iter().all(|&byte| byte == value)
}

fn error<T>(result: Result<T, FileError>) -> FileError {
    result.err().expect("should have been refused")
}

#[test]
fn a_segment_has_a_name_once_it_is_published() {
    let directory = Directory::new("publish");
    let path = directory.file("segment");
    let mut made = Segment::create_unnamed(&directory.c_path(), 0o600, 3 * MIB).unwrap();
    made.back(0, 5000).unwrap();
    fill(&made, 0, 5000, 7);
    assert_eq!(directory.names().len(), 0);
    assert_eq!(error(SegmentFile::open(&path)), FileError::NotFound);
    made.publish(&path).unwrap();
    assert_eq!(directory.names(), ["segment"]);

    let file = SegmentFile::open(&path).unwrap();
    assert_eq!(file.status().unwrap(), made.file().status().unwrap());
    let again = file.map(3 * MIB).unwrap();
    assert!(again.base() != made.base() && again.length() == 3 * MIB);
    fill(&made, 4999, 5000, 8);
    assert!(is_filled(&again, 0, 4999, 7) && is_filled(&again, 4999, 5000, 8));

    unlink(&path).unwrap();
    assert_eq!(error(unlink(&path)), FileError::NotFound);
    assert!(is_filled(&again, 0, 4999, 7));
}

#[test]
fn a_name_is_given_once() {
    let directory = Directory::new("twice");
    let path = directory.file("segment");
    let mut first = Segment::create_unnamed(&directory.c_path(), 0o600, 4096).unwrap();
    let mut second = Segment::create_unnamed(&directory.c_path(), 0o600, 8192).unwrap();
    first.publish(&path).unwrap();
    assert_eq!(second.publish(&path), Err(FileError::Exists));
    assert_eq!(SegmentFile::open(&path).unwrap().status().unwrap().length, 4096);
    symlink("nowhere", directory.path().join("link")).unwrap();
    assert_eq!(second.publish(&directory.file("link")), Err(FileError::Exists));
    assert_eq!(second.publish(&directory.file("missing/segment")), Err(FileError::NotFound));
    second.publish(&directory.file("other")).unwrap();
}

#[test]
fn a_creator_that_is_killed_leaves_nothing() {
    let (page, directory) = (shared_page(), Directory::new("killed"));
    let path = directory.c_path();
    let child = Child::run(|| {
        let segment = Segment::create_unnamed(&path, 0o600, MIB);
        expect!(segment.is_ok_and(|segment| segment.back(0, MIB).is_ok()));
        page.words[0].store(1, std::sync::atomic::Ordering::Release);
        sleep_for_ever()
    });
    assert_eq!(await_word(&page.words[0]), 1);
    child.kill();
    assert_eq!(directory.names().len(), 0);
}

#[test]
fn only_regular_files_are_opened_and_nothing_is_waited_for() {
    let directory = Directory::new("not-a-file");
    std::fs::write(directory.path().join("file"), "text").unwrap();
    symlink("file", directory.path().join("link")).unwrap();
    symlink("loop", directory.path().join("loop")).unwrap();
    let _socket = UnixListener::bind(directory.path().join("socket")).unwrap();
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { libc::mkfifo(directory.file("fifo").as_ptr(), 0o600) }, 0);
    let start = Instant::now();
    for path in ["", "link", "loop", "socket", "fifo"].map(|name| directory.file(name)) {
        assert_eq!(error(SegmentFile::open(&path)), FileError::NotAFile, "{path:?}");
        assert_eq!(error(SegmentFile::open_read_only(&path)), FileError::NotAFile, "{path:?}");
    }
    assert_eq!(error(SegmentFile::open(c"/dev/null")), FileError::NotAFile);
    assert_eq!(error(SegmentFile::open(&directory.file("file/below"))), FileError::NotFound);
    assert_eq!(error(SegmentFile::open(&directory.file("missing"))), FileError::NotFound);
    assert_eq!(error(Segment::create_unnamed(&directory.file("file"), 0o600, 1)), FileError::NotFound);
    assert!(start.elapsed() < AMPLE);
}

#[test]
fn a_segment_has_the_mode_that_was_asked_for() {
    let directory = Directory::new("mode");
    let path = directory.c_path();
    let child = Child::run(|| {
        // SAFETY: the mask is the child's own.
        unsafe { libc::umask(0o777) };
        for mode in [0o600, 0o666, 0o640, 0] {
            let Ok(segment) = Segment::create_unnamed(&path, mode, 1) else { return Err(line!()) };
            let Ok(status) = segment.file().status() else { return Err(line!()) };
            expect!((status.mode, status.owner) == (mode, effective_user()));
        }
        Ok(())
    });
    assert!(child.wait());
}

#[test]
fn a_segment_is_sparse_until_it_is_backed() {
    let segment = Segment::create_unnamed(c"/dev/shm", 0o600, 64 * MIB).unwrap();
    let allocated = || segment.file().status().unwrap().allocated;
    assert_eq!((segment.file().status().unwrap().length, allocated()), (64 << 20, 0));
    let mut bytes = [1; 100];
    assert_eq!(segment.file().read_at(MIB as u64, &mut bytes), Ok(100));
    assert_eq!((bytes, allocated()), ([0; 100], 0));
    segment.back(MIB, 2 * MIB).unwrap();
    segment.back(2 * MIB - 1, 2 * MIB).unwrap();
    segment.back(5 * MIB, 5 * MIB).unwrap();
    assert_eq!(allocated(), MIB as u64);
    assert_eq!(segment.back(0, 64 * MIB + 1), Err(FileError::TooLong));
}

#[test]
fn backing_again_changes_nothing() {
    let segment = Segment::create_unnamed(c"/dev/shm", 0o600, MIB).unwrap();
    segment.back(0, 8192).unwrap();
    fill(&segment, 0, 8192, 3);
    segment.back(0, 8192).unwrap();
    segment.back(100, 20_000).unwrap();
    assert!(is_filled(&segment, 0, 8192, 3));
}

#[test]
fn reading_stops_at_the_end() {
    let directory = Directory::new("read");
    std::fs::write(directory.path().join("file"), "0123456789").unwrap();
    let file = SegmentFile::open_read_only(&directory.file("file")).unwrap();
    let mut buffer = [b'-'; 6];
    assert_eq!((file.read_at(2, &mut buffer), &buffer), (Ok(6), b"234567"));
    assert_eq!((file.read_at(7, &mut buffer), &buffer), (Ok(3), b"789567"));
    assert_eq!(file.read_at(10, &mut buffer), Ok(0));
    assert_eq!(file.read_at(1 << 62, &mut buffer), Ok(0));
    assert_eq!(file.read_at(u64::MAX - 2, &mut buffer), Ok(0));
    assert_eq!(file.read_at(0, &mut []), Ok(0));
    assert_eq!(error(file.map(4096)), FileError::Denied);
}

#[test]
fn a_limit_on_files_is_an_error_and_not_a_signal() {
    let child = Child::run(|| {
        let limit = libc::rlimit { rlim_cur: MIB as u64, rlim_max: MIB as u64 };
        // SAFETY: the limit is the child's own.
        expect!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) } == 0);
        expect!(Segment::create_unnamed(c"/dev/shm", 0o600, MIB).is_ok());
        expect!(Segment::create_unnamed(c"/dev/shm", 0o600, MIB + 1).is_err_and(|error| error == FileError::TooLong));
        Ok(())
    });
    assert!(child.wait());
    assert_eq!(error(Segment::create_unnamed(c"/dev/shm", 0o600, usize::MAX)), FileError::TooLong);
}

#[test]
fn a_limit_on_addresses_is_an_error() {
    let child = Child::run(|| {
        let limit = libc::rlimit { rlim_cur: 1 << 36, rlim_max: 1 << 36 };
        // SAFETY: the limit is the child's own.
        expect!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } == 0);
        let result = Segment::create_unnamed(c"/dev/shm", 0o600, 1 << 40);
        expect!(result.is_err_and(|error| error == FileError::NoMemory));
        Ok(())
    });
    assert!(child.wait());
}

/// A file system of one MiB that only the calling child sees.
fn mount_small(directory: &CString) -> bool {
    let options = c"size=1m";
    // SAFETY: all arguments are C strings or null.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"tmpfs".as_ptr(), directory.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

#[test]
fn a_full_file_system_is_an_error_and_not_a_signal() {
    let (page, directory) = (shared_page(), Directory::new("full"));
    let path = directory.c_path();
    let child = Child::run(|| {
        if !mount_small(&path) {
            page.words[0].store(1, std::sync::atomic::Ordering::Relaxed);
            return Ok(());
        }
        let Ok(segment) = Segment::create_unnamed(&path, 0o600, 16 * MIB) else { return Err(line!()) };
        expect!(segment.back(0, MIB / 2) == Ok(()));
        fill(&segment, 0, MIB / 2, 9);
        expect!(segment.back(MIB / 2, 16 * MIB) == Err(FileError::NoSpace));
        expect!(is_filled(&segment, 0, MIB / 2, 9));
        expect!(segment.back(MIB / 2, MIB / 2 + 4096) == Ok(()));
        fill(&segment, MIB / 2, MIB / 2 + 4096, 9);
        Ok(())
    });
    assert!(child.wait());
    if page.words[0].load(std::sync::atomic::Ordering::Relaxed) == 1 {
        eprintln!("skipped a_full_file_system_is_an_error_and_not_a_signal: needs the right to mount");
    }
}

/// In a root directory without `/proc`, the descriptor is linked by its number.
#[test]
fn a_segment_can_be_published_without_proc() {
    let (page, directory) = (shared_page(), Directory::new("no-proc"));
    let root = directory.c_path();
    let child = Child::run(|| {
        // SAFETY: the path is a C string.
        if unsafe { libc::chroot(root.as_ptr()) } != 0 {
            page.words[0].store(1, std::sync::atomic::Ordering::Relaxed);
            return Ok(());
        }
        let Ok(mut segment) = Segment::create_unnamed(c"/", 0o600, 4096) else { return Err(line!()) };
        expect!(segment.publish(c"/segment") == Ok(()));
        expect!(segment.publish(c"/segment") == Err(FileError::Exists));
        Ok(())
    });
    assert!(child.wait());
    if page.words[0].load(std::sync::atomic::Ordering::Relaxed) == 1 {
        eprintln!("skipped a_segment_can_be_published_without_proc: needs the right to change the root");
    } else {
        assert_eq!(directory.names(), ["segment"]);
    }
}

/// A program closes all descriptors and opens the same file again, which gets the same number.
#[test]
fn a_file_does_not_close_the_descriptor_of_a_later_opening() {
    let directory = Directory::new("reopened");
    let path = directory.file("segment");
    Segment::create_unnamed(&directory.c_path(), 0o600, MIB).unwrap().publish(&path).unwrap();
    let child = Child::run(|| {
        let Ok(first) = SegmentFile::open(&path) else { return Err(line!()) };
        // SAFETY: the child uses none of them but the file's.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        let Ok(second) = SegmentFile::open(&path) else { return Err(line!()) };
        expect!(second.next_data(0) == Ok(None));
        expect!(first.status() == Err(FileError::Replaced));
        drop(first);
        expect!(second.status().is_ok());
        Ok(())
    });
    assert!(child.wait());
}

#[test]
fn errors_say_what_is_the_matter() {
    assert!(FileError::NotFound.to_string().contains("no such file"));
    let other = FileError::Other(libc::ENAMETOOLONG).to_string();
    assert_eq!(other, "the path or a name in it is too long (ENAMETOOLONG, error 36 of the system)");
    assert_eq!(FileError::of(4095).to_string(), "error 4095 of the system");
    let long = CString::new(vec![b'a'; 300]).unwrap();
    assert_eq!(error(SegmentFile::open(&long)), FileError::Other(libc::ENAMETOOLONG));
}
