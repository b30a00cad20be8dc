//! A spin lock, for programs without an operating system.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time may use. Not reentrant, and not for interrupt handlers: one that interrupts the
/// lock's holder would spin for ever.
pub(crate) struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to one thread at a time, and the value may be used from any thread (`Send`).
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `work` on the value while this thread holds the lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.held.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
        let _guard = Guard(&self.held);
        // SAFETY: the exchange found `held` false, so that this thread holds the lock and no other reference to the
        // value exists until it is released.
        work(unsafe { &mut *self.value.get() })
    }
}

/// Releases the lock when dropped, also when the work panics.
struct Guard<'l>(&'l AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
