//! Whether the process has a single thread, in which case atomic operations are not needed.

use crate::arch::single_threaded_flag;

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
