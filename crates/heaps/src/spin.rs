//! A lock for programs without an operating system: whoever waits, spins.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time may use. Not reentrant, and not for interrupt handlers: one that interrupts the
/// holder would spin for ever.
pub(crate) struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `work` on the value once no other thread uses it.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.held.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
        let _held = Held(&self.held);
        // SAFETY: `held` was false, so nobody else uses the value until it is false again.
        work(unsafe { &mut *self.value.get() })
    }
}

/// Frees the lock, also when the work panics.
struct Held<'l>(&'l AtomicBool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
