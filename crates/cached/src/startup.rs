//! Initialisation.

use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::Refused;

use crate::{fork, harden};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::platform::at_fork;

/// Initialises the heap unless that has been done, and leaves it to the caller to call
/// [`before_fork`](crate::before_fork), [`after_fork`](crate::after_fork) and
/// [`after_fork_in_child`](crate::after_fork_in_child).
///
/// The first allocation of a process that has not called this function initialises the heap and registers these as fork
/// handlers.
///
/// # Errors
/// [`Refused`] when there is no address space.
pub fn start() -> Result<(), Refused> {
    ARENA.init(harden::init)
}

/// Initialises the heap for a program that has not called [`start`]. Before that the mode is not set. `None` when
/// there is no address space.
#[inline]
pub(crate) fn ready() -> Option<()> {
    if ARENA.is_ready() { Some(()) } else { begin() }
}

#[cold]
#[inline(never)]
fn begin() -> Option<()> {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    harden::read_environment();
    // One thread registers the handlers. Registering may allocate: then that call initialises the heap.
    if !IS_REGISTERED.swap(true, Ordering::Relaxed) && at_fork(fork::HANDLERS).is_err() {
        IS_REGISTERED.store(false, Ordering::Relaxed);
        return None;
    }
    start().ok()
}
