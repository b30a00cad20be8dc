//! The length of an OS page.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Returns the length of an OS page in bytes, a power of two.
#[inline]
#[must_use]
pub fn page_size() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => ask(&KNOWN),
        size => size,
    }
}

/// Asks the system for the length of a page and stores it.
#[cold]
#[inline(never)]
fn ask(known: &AtomicUsize) -> usize {
    // Not sysconf, which makes 128 KiB of the C library's tables resident in small programs.
    // SAFETY: the call has no preconditions.
    let asked = unsafe { libc::getauxval(libc::AT_PAGESZ) };
    let size = usize::try_from(asked).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096);
    known.store(size, Ordering::Relaxed);
    size
}

/// Returns `bytes` rounded up to whole OS pages, at least one; `None` when that exceeds the size of an object.
#[inline]
#[must_use]
pub fn round_to_pages(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(page_size()).filter(|&length| isize::try_from(length).is_ok())
}
