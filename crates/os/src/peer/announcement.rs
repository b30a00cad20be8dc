//! How processes that share a file find out about each other's deaths, whatever their namespaces.
//!
//! A process announces itself by a lock on one byte of the file far behind its end, whose place is the process's
//! identity. The lock belongs to an open file description that only a mapping keeps open: there is no descriptor that
//! the process could close, and children of a `fork` do not get the mapping. The system therefore removes the lock when
//! the process's memory goes, that is when none of its threads will run another instruction, or when it replaces its
//! program.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::call::errno::errno_kept;
use crate::call::page_size::page_size;
use crate::call::waiting::sleep_for_a_millisecond;
use crate::file::own_file::with_own_path;
use crate::file::segment_file::SegmentFile;
use crate::peer::identity::{Identity, Life};
use crate::thread::forks::fork_count;

/// Where the bytes of processes begin: behind any file's end.
const FIRST_BYTE: u64 = 1 << 60;

/// The announcement of this process in a file; withdrawn when dropped.
#[derive(Debug, Default)]
pub struct Announcement {
    /// The address of the mapping, or 0.
    page: AtomicUsize,
    /// The [`Identity::word`] that is announced.
    word: AtomicU64,
    /// The count of forks under which it was mapped: children do not have it.
    forks: AtomicU64,
    /// The count of forks under which a thread makes the announcement, or 0. Another count is that of a parent.
    busy: AtomicU64,
}

impl Announcement {
    /// Announces `me`, a process's identity with [`Identity::announced`], in `file`, which `path` leads to, or did
    /// once. Returns the identity by which others find the process, which is that of an earlier call if there was one.
    /// `None` if they do not: it needs `/proc`, or that `path` still leads to the file; and a file system and a kernel
    /// that have such locks (Linux 3.15), which is tried out.
    ///
    /// In the child of a fork it announces the child, whatever it did in the parent.
    pub fn make(&self, file: &SegmentFile, path: &CStr, me: Identity) -> Option<Identity> {
        let forks = fork_count();
        errno_kept(|| {
            self.enter(forks);
            let made = self.make_once(file, path, me, forks);
            self.busy.store(0, Ordering::Release);
            made
        })
    }

    fn make_once(&self, file: &SegmentFile, path: &CStr, me: Identity, forks: u64) -> Option<Identity> {
        if self.page.load(Ordering::Relaxed) != 0 && self.forks.load(Ordering::Relaxed) == forks {
            return Some(Identity::from_word(self.word.load(Ordering::Relaxed)));
        }
        let announcements = file.announcements();
        // The file is closed here: the mapping keeps it open.
        let page = hold(&announcements.open_description(path)?, me)?;
        if announcements.life_of(me) != Some(Life::Alive) {
            unmap(page);
            return None;
        }
        self.word.store(me.word(), Ordering::Relaxed);
        self.forks.store(forks, Ordering::Relaxed);
        self.page.store(page, Ordering::Relaxed);
        Some(me)
    }

    /// Waits until no other thread of this process makes the announcement.
    fn enter(&self, forks: u64) {
        loop {
            let found = self.busy.load(Ordering::Relaxed);
            let is_free = found != forks;
            if is_free && self.busy.compare_exchange(found, forks, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            sleep_for_a_millisecond();
        }
    }
}

/// Unmaps the page of an announcement, which this process mapped.
fn unmap(page: usize) {
    let address = core::ptr::with_exposed_provenance_mut(page);
    // SAFETY: no thread accesses the page, and callers unmap it once.
    errno_kept(|| unsafe { libc::munmap(address, page_size()) });
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let page = *self.page.get_mut();
        // The child of a fork did not get the mapping. Something else may be there.
        if page != 0 && *self.forks.get_mut() == fork_count() {
            unmap(page);
        }
    }
}

/// Locks the byte of `me` in an open file, and maps a page of it that keeps it open. Returns the page's address.
fn hold(file: &SegmentFile, me: Identity) -> Option<usize> {
    let mut byte = byte_of(me, libc::F_RDLCK);
    // SAFETY: the lock is a local variable. A new mapping at an address of the system's choice changes no existing
    // memory; it is not accessible.
    unsafe {
        if libc::fcntl(file.descriptor, libc::F_OFD_SETLK, &raw mut byte) != 0 {
            return None;
        }
        let page = libc::mmap(null_mut(), page_size(), libc::PROT_NONE, libc::MAP_SHARED, file.descriptor, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, page_size(), libc::MADV_DONTFORK) != 0 {
            libc::munmap(page, page_size());
            return None;
        }
        Some(page.expose_provenance())
    }
}

/// The lock on the byte that stands for a process.
fn byte_of(process: Identity, kind: i32) -> libc::flock {
    // SAFETY: a lock consists of integers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    // Process numbers have 22 bits.
    lock.l_start = (FIRST_BYTE | u64::from(process.birth) << 22 | u64::from(process.pid) & 0x3f_ffff) as _;
    lock.l_len = 1;
    lock
}

/// The announcements in a file, as a process that has it open can look them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcements {
    descriptor: i32,
    /// The device and the inode of the file.
    identity: (u64, u64),
}

impl SegmentFile {
    /// The announcements in this file.
    #[must_use]
    pub fn announcements(&self) -> Announcements {
        Announcements { descriptor: self.descriptor, identity: self.identity }
    }

    /// Opens the file once more, for reading: with a position of its own. `None` where there is no `/proc`, and `path`
    /// does not lead to the file.
    #[must_use]
    pub fn open_beside(&self, path: &CStr) -> Option<SegmentFile> {
        self.announcements().open_description(path)
    }
}

impl Announcements {
    /// The announcements in the file that a descriptor is open for, as long as it is. `None` if it is for none.
    #[must_use]
    pub fn of(descriptor: i32) -> Option<Announcements> {
        let identity = errno_kept(|| file_of(descriptor))?;
        Some(Announcements { descriptor, identity })
    }

    /// Whether `process`, which announced itself, lives; `None` where that cannot be found out: the process has closed
    /// the file's descriptor, for instance, or uses its number for another file.
    pub(crate) fn life_of(&self, process: Identity) -> Option<Life> {
        // A lock for writing, of the open file and not of a process, conflicts with every announcement.
        let mut byte = byte_of(process, libc::F_WRLCK);
        if !self.is_open() {
            return None;
        }
        // SAFETY: the lock is a local variable, and the call changes nothing else, whatever the descriptor is.
        let asked = unsafe { libc::fcntl(self.descriptor, libc::F_OFD_GETLK, &raw mut byte) };
        if asked != 0 || !self.is_open() {
            return None;
        }
        Some(if byte.l_type == libc::F_UNLCK as i16 { Life::Dead } else { Life::Alive })
    }

    /// Whether the descriptor is still that of the file.
    fn is_open(&self) -> bool {
        file_of(self.descriptor) == Some(self.identity)
    }

    /// Opens the file once more, as a description of its own.
    fn open_description(&self, path: &CStr) -> Option<SegmentFile> {
        let through = with_own_path(format_args!("fd/{}", self.descriptor), SegmentFile::open_through);
        let opened = through.or_else(|_| SegmentFile::open_read_only(path));
        opened.ok().filter(|file| file.identity == self.identity)
    }
}

/// The device and the inode of the file that a descriptor is open for.
fn file_of(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and is valid for the call's write.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::fstat(descriptor, &mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}
