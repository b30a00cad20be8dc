//! Making segments: races, full systems, limits.

mod common;

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use common::{Spot, fork, growing, of, reap};
use heapwright_shared::{Access, Error, Place, PolicyKind, Settings, SharedHeap, SmallBlocks, Strangers};

#[test]
fn of_many_creators_exactly_one_wins() {
    for _ in 0..20 {
        let spot = Spot::new("race");
        let children: Vec<i32> = (0..6)
            .map(|_| {
                fork(|| match SharedHeap::create(&spot, &Settings::default()) {
                    Ok(heap) => heap.allocate(100).is_ok(),
                    Err(Error::Exists { .. }) => {
                        // A process that is too late finds a segment that is complete.
                        SharedHeap::open(&spot).unwrap().check().unwrap();
                        false
                    }
                    Err(error) => panic!("{error}"),
                })
            })
            .collect();
        let winners = children.into_iter().map(reap).filter(|&code| code == 0).count();
        assert_eq!(winners, 1);
        assert_eq!(spot.open().blocks().unwrap().iter().filter(|block| block.owner.is_some()).count(), 1);
    }
}

#[test]
fn open_or_create_always_gives_the_same_segment() {
    let spot = Spot::new("either");
    let children: Vec<i32> = (0..6)
        .map(|_| fork(|| SharedHeap::open_or_create(&spot, &Settings::default()).unwrap().allocate(64).is_ok()))
        .collect();
    assert!(children.into_iter().all(|child| reap(child) == 0));
    assert_eq!(spot.open().counters().unwrap().mallocs, 6);
}

#[test]
fn sizes_that_no_segment_has_are_bad_settings() {
    let spot = Spot::new("sizes");
    let refused = |settings: &Settings| match SharedHeap::create(&spot, settings) {
        Err(Error::BadSettings { why }) => why,
        other => panic!("{settings:?}: {other:?}"),
    };
    assert!(refused(&of(PolicyKind::Best, 0)).contains("at least one byte"));
    assert!(refused(&of(PolicyKind::First, 1 << 45)).contains("2^36 granules"));
    for beyond in [(1 << 46) + 1, 1 << 47, 1 << 63, usize::MAX] {
        assert!(refused(&of(PolicyKind::Best, beyond)).contains("64 TiB"));
        assert!(refused(&growing(PolicyKind::Best, 1 << 20, beyond)).contains("64 TiB"));
    }
    let refused = SharedHeap::create(&spot, &of(PolicyKind::Best, 1 << 45)).unwrap_err();
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    assert_eq!(spot.create(&growing(PolicyKind::Best, 1, (1 << 32) - 1)).max_size(), 1 << 32);
}

#[test]
fn a_segment_without_a_name_lives_on() {
    let spot = Spot::new("unlinked");
    let (here, there) = (spot.create(&Settings::default()), spot.open());
    SharedHeap::unlink(&spot).unwrap();
    assert_eq!(SharedHeap::unlink(&spot), Err(Error::NotFound { place: (*spot).clone() }));
    let block = here.allocate(100).unwrap();
    there.deallocate(block).unwrap();
    assert_eq!(SharedHeap::open(&spot).unwrap_err(), Error::NotFound { place: (*spot).clone() });
}

#[test]
fn files_are_as_good_as_objects() {
    let path = std::env::temp_dir().join(format!("heapwright-test-file-{}", std::process::id()));
    let place = Place::new(&path).unwrap();
    let heap = SharedHeap::create(&place, &growing(PolicyKind::First, 1 << 16, 1 << 22)).unwrap();
    let block = heap.allocate(1 << 20).unwrap();
    // SAFETY: within the block.
    unsafe { heap.pointer(block).add((1 << 20) - 1).write(9) };
    heap.set_root("last", block).unwrap();
    heap.close().unwrap();
    let heap = SharedHeap::open(&place).unwrap();
    assert_eq!(heap.root("last"), Ok(Some(block)));
    // SAFETY: as above.
    assert_eq!(unsafe { heap.pointer(block).add((1 << 20) - 1).read() }, 9);
    heap.check().unwrap();
    SharedHeap::unlink(&place).unwrap();
}

/// A copy keeps the contents even if it is sparse.
#[test]
fn copies_can_be_used() {
    let (spot, copy) = (Spot::new("original"), Spot::new("copy"));
    let heap = spot.create(&growing(PolicyKind::Best, 1 << 18, 1 << 20));
    let block = heap.allocate(1000).unwrap();
    heap.set_root("block", block).unwrap();
    heap.close().unwrap();
    let made = std::process::Command::new("cp").arg("--sparse=always").args([spot.path(), copy.path()]).status();
    assert!(made.unwrap().success());
    let heap = copy.open();
    assert_eq!(heap.root("block"), Ok(Some(block)));
    while heap.allocate(5000).is_ok() {}
    heap.check().unwrap();
}

/// A file system of 1 MiB, mounted for one test in a namespace of its own, if the system allows that.
fn in_small_file_system(what: &str, work: impl FnOnce(&str) -> bool) -> Option<i32> {
    let directory = PathBuf::from(format!("/tmp/heapwright-{what}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let target = CString::new(directory.to_str().unwrap()).unwrap();
    let child = fork(|| {
        // SAFETY: system calls on strings; what they change, changes for this child only.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    c"none".as_ptr(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
                && libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=1m".as_ptr().cast()) == 0
        };
        if !mounted {
            // SAFETY: ends the child.
            unsafe { libc::_exit(77) };
        }
        work(directory.to_str().unwrap())
    });
    let code = reap(child);
    fs::remove_dir(&directory).unwrap();
    (code != 77).then_some(code)
}

#[test]
fn a_full_system_is_an_error_and_no_signal() {
    let code = in_small_file_system("full", |directory| {
        let place = Place::new(format!("{directory}/heap")).unwrap();
        let refused = SharedHeap::create(&place, &of(PolicyKind::Best, 4 << 20)).unwrap_err();
        assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
        let heap = SharedHeap::create(&place, &growing(PolicyKind::Best, 1 << 16, 64 << 20)).unwrap();
        let mut blocks = 0;
        let refused = loop {
            match heap.allocate(10_000) {
                // SAFETY: within the block.
                Ok(block) => unsafe { heap.pointer(block).write_bytes(1, 10_000) },
                Err(error) => break error,
            }
            blocks += 1;
        };
        assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
        assert!(blocks > 60, "{blocks}");
        heap.check().unwrap();
        heap.close().unwrap();
        SharedHeap::open(&place).unwrap().check().is_ok()
    });
    assert!(code.is_none_or(|code| code == 0), "{code:?}");
}

/// What of it is backed is less than what is read to put it in order.
#[test]
fn a_sparse_copy_of_an_abandoned_heap_on_a_full_system_is_an_error_and_no_signal() {
    let spot = Spot::new("abandoned");
    let settings = Settings { granule: 16, small: SmallBlocks::Slabs, ..growing(PolicyKind::Good, 8 << 20, 16 << 20) };
    let child = fork(|| {
        let heap = spot.create(&settings);
        (0..100).for_each(|at| drop(heap.allocate(100 + at * 20)));
        // SAFETY: ends the child as if it was killed.
        unsafe { libc::_exit(0) }
    });
    assert_eq!(reap(child), 0);
    let code = in_small_file_system("sparse", |directory| {
        let (copy, filler) = (format!("{directory}/copy"), format!("{directory}/filler"));
        let place = Place::new(&copy).unwrap();
        for left in (0..900).step_by(16) {
            let _ = (fs::remove_file(&copy), fs::remove_file(&filler));
            let mut cp = std::process::Command::new("cp");
            assert!(cp.arg("--sparse=always").args([spot.path().to_str().unwrap(), &copy]).status().unwrap().success());
            let room = (1 << 20) - fs::metadata(&copy).unwrap().blocks() * 512;
            let filled = room.saturating_sub(left << 10);
            fs::write(&filler, vec![1; filled as usize]).unwrap();
            for attempt in 0..2 {
                let child = fork(|| {
                    let refused = match attempt {
                        0 => SharedHeap::open(&place).unwrap_err(),
                        _ => SharedHeap::repair(&place, &Access::default(), Strangers::Respect).unwrap_err(),
                    };
                    assert!(matches!(refused, Error::NoSpace { .. }), "{left} KiB left: {refused}");
                    true
                });
                assert_eq!(reap(child), 0, "{left} KiB left, attempt {attempt}");
            }
        }
        true
    });
    assert!(code.is_none_or(|code| code == 0), "{code:?}");
    spot.open().check().unwrap();
}

/// What is needed beside the data would have fit.
#[test]
fn a_growth_that_is_refused_takes_no_memory() {
    let code = in_small_file_system("growth", |directory| {
        let place = Place::new(format!("{directory}/heap")).unwrap();
        let settings = Settings { granule: 16, ..growing(PolicyKind::Best, 1 << 16, 64 << 20) };
        let heap = SharedHeap::create(&place, &settings).unwrap();
        let taken = || fs::metadata(place.path()).unwrap().blocks();
        let before = taken();
        assert!(matches!(heap.grow(4 << 20), Err(Error::NoSpace { .. })));
        assert_eq!(taken(), before);
        heap.check().unwrap();
        heap.allocate(400_000).is_ok()
    });
    assert!(code.is_none_or(|code| code == 0), "{code:?}");
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_signal() {
    let spot = Spot::new("limit");
    let child = fork(|| {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: lowers a limit of this child.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        matches!(SharedHeap::create(&spot, &of(PolicyKind::Best, 2 << 20)), Err(Error::System { .. }))
    });
    assert_eq!(reap(child), 0);
}
