//! Segments for tests, whose names go when the test ends.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::fs;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use heapwright_shared::{Access, Error, Offset, Place, PolicyKind, Settings, SharedHeap};

/// Where the lock lies in a segment.
pub const LOCK: u64 = 128;

/// A place that nothing else uses, unlinked when dropped.
pub struct Spot(Place);

impl Spot {
    pub fn new(what: &str) -> Spot {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Spot(Place::new(format!("heapwright-test-{what}-{}-{number}", std::process::id())).unwrap())
    }

    pub fn create(&self, settings: &Settings) -> SharedHeap {
        SharedHeap::create(self, settings).unwrap()
    }

    pub fn open(&self) -> SharedHeap {
        SharedHeap::open(self).unwrap()
    }
}

impl Deref for Spot {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

/// Resizes a block that no other thread uses.
pub fn resize(heap: &SharedHeap, block: Offset, bytes: usize) -> Result<Offset, Error> {
    // SAFETY: no other thread uses the blocks of these tests.
    unsafe { heap.resize(block, bytes) }
}

/// Allocates a block that a word of this test shows.
pub fn allocate_into(
    heap: &SharedHeap,
    word: Offset<Option<Offset>>,
    bytes: usize,
    fill: impl FnOnce(NonNull<u8>, Option<Offset>),
) -> Result<Offset, Error> {
    // SAFETY: words of these tests serve as such only, and their blocks stay.
    unsafe { heap.allocate_into(word, bytes, fill) }
}

/// Frees the block that a word of this test shows.
pub fn free_from(
    heap: &SharedHeap,
    word: Offset<Option<Offset>>,
    next: impl FnOnce(NonNull<u8>) -> Option<Offset>,
) -> Result<Option<Offset>, Error> {
    // SAFETY: as above.
    unsafe { heap.free_from(word, next) }
}

/// Resizes the block that a word shows, which no other thread uses.
pub fn resize_into(heap: &SharedHeap, word: Offset<Option<Offset>>, bytes: usize) -> Result<Offset, Error> {
    // SAFETY: as above.
    unsafe { heap.resize_into(word, bytes) }
}

impl Drop for Spot {
    fn drop(&mut self) {
        match fs::remove_file(self.0.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

pub fn of(policy: PolicyKind, size: usize) -> Settings {
    Settings { size, policy, ..Settings::default() }
}

pub fn growing(policy: PolicyKind, size: usize, most: usize) -> Settings {
    Settings { max_size: Some(most), ..of(policy, size) }
}

/// Runs `work` in a child of a fork, which ends with 0 if it returns `true` and is not unwound into the test.
pub fn fork(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs only `work` and ends.
    match unsafe { libc::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(!done)) }
        }
        child => {
            assert!(child > 0);
            child
        }
    }
}

/// Waits for the end of a child and says how it ended: its exit code, or minus the signal.
pub fn reap(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status is a local variable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

pub fn kill(child: i32) {
    // SAFETY: a child of ours that was not waited for.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
}

pub fn hasty() -> Access {
    Access { patience: Duration::from_millis(50), ..Access::default() }
}

pub fn word_at(place: &Place, at: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open(place.path()).unwrap().read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}

/// One word in memory that children share.
pub fn shared_word() -> &'static AtomicU64 {
    // SAFETY: a new mapping, which is never unmapped, and zero is a value of the word.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<AtomicU64>()
    }
}

pub fn await_at_least(word: &AtomicU64, value: u64) {
    while word.load(Ordering::Acquire) < value {
        std::thread::sleep(Duration::from_micros(100));
    }
}

pub fn end(child: i32) {
    kill(child);
    assert_eq!(reap(child), -libc::SIGKILL);
}

pub fn stop(child: i32) {
    let mut status = 0;
    // SAFETY: a child of ours; waits until it has stopped.
    unsafe {
        libc::kill(child, libc::SIGSTOP);
        assert_eq!(libc::waitpid(child, &mut status, libc::WUNTRACED), child);
    }
    assert!(libc::WIFSTOPPED(status));
}

pub fn go_on(child: i32) {
    // SAFETY: a child of ours.
    unsafe { libc::kill(child, libc::SIGCONT) };
}

/// Stops a child that works on the segment until it is stopped while it holds the lock.
pub fn stop_while_it_holds_the_lock(child: i32, place: &Place) {
    for _ in 0..2000 {
        std::thread::sleep(Duration::from_millis(1));
        stop(child);
        if word_at(place, LOCK) != 0 {
            return;
        }
        go_on(child);
    }
    panic!("the child was never stopped while it held the lock");
}

pub fn work_for_ever(heap: &SharedHeap) -> bool {
    loop {
        let block = heap.allocate(100).unwrap();
        heap.deallocate(block).unwrap();
    }
}
