//! Segments for tests, whose names go when the test ends.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

use heapwright_shared::{Error, Place, PolicyKind, Settings, SharedHeap};

/// A place that nobody else uses, unlinked when dropped.
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

impl Drop for Spot {
    fn drop(&mut self) {
        match SharedHeap::unlink(&self.0) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => panic!("{error}"),
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
