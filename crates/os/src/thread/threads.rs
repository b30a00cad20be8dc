//! Whether the process has a single thread, in which case atomic operations are not needed.

use core::ptr::NonNull;

use crate::code::arch::single_threaded_flag;

/// Whether no other thread of this process can run. `false` when that is not known.
///
/// The result holds until the calling thread itself starts a thread.
#[inline(always)]
#[must_use]
pub fn is_single_threaded() -> bool {
    match single_threaded_flag() {
        // SAFETY: the address is that of the C library's flag, a byte that lives as long as the process. It is written
        // only by threads that start threads, and this one is not doing that.
        Some(flag) => unsafe { flag.read_volatile() != 0 },
        None => false,
    }
}

/// What [`is_single_threaded`] looks at, found once: for what is asked often.
#[derive(Clone, Copy, Debug)]
pub struct SingleThreaded {
    /// The C library's flag, or a byte that is always 0.
    flag: NonNull<u8>,
}

impl SingleThreaded {
    /// Finds the flag.
    #[must_use]
    pub fn find() -> SingleThreaded {
        static UNKNOWN: u8 = 0;
        SingleThreaded { flag: single_threaded_flag().unwrap_or(NonNull::from(&UNKNOWN)) }
    }

    /// As [`is_single_threaded`].
    #[inline(always)]
    #[must_use]
    pub fn holds(self) -> bool {
        // SAFETY: as in `is_single_threaded`; the other byte is never written.
        unsafe { self.flag.read_volatile() != 0 }
    }
}
