//! Whether advice about memory does what it says. Emulators of another processor answer advice that they do not know
//! with success and do nothing: qemu's user-mode emulation for guards, and before version 7.1 for all advice.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::call::errno::errno_kept;
use crate::call::page_size::page_size;

/// Advice that discards the contents of pages, and what is known of it.
pub(crate) struct Discarding {
    /// Two in a row: the second undoes what the first does besides.
    advice: [i32; 2],
    known: AtomicU8,
}

const NOTHING: u8 = 0;
const REAL: u8 = 1;
const PRETENDED: u8 = 2;

impl Discarding {
    pub(crate) const fn new(first: i32, second: i32) -> Discarding {
        Discarding { advice: [first, second], known: AtomicU8::new(NOTHING) }
    }

    /// Whether it is known to do nothing and succeed.
    #[inline]
    pub(crate) fn is_known_to_pretend(&self) -> bool {
        self.known.load(Ordering::Relaxed) == PRETENDED
    }

    /// Whether it does nothing and succeeds. It is tried once, on a page of its own; as long as that is not possible,
    /// the system is believed. To be asked when the system has granted it elsewhere: where it refuses it, as for locked
    /// memory, each question would be tried again.
    #[inline]
    pub(crate) fn is_pretended(&self) -> bool {
        self.known.load(Ordering::Relaxed) != REAL && self.is_found_pretended()
    }

    #[cold]
    fn is_found_pretended(&self) -> bool {
        if self.known.load(Ordering::Relaxed) == NOTHING
            && let Some(found) = errno_kept(|| self.try_on_a_page())
        {
            self.known.store(found, Ordering::Relaxed);
        }
        self.known.load(Ordering::Relaxed) == PRETENDED
    }

    /// Returns what is found; `None` where there is no page, or the advice is refused, as for locked memory.
    fn try_on_a_page(&self) -> Option<u8> {
        let length = page_size();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping takes no memory that is in use.
        let page = unsafe { libc::mmap(core::ptr::null_mut(), length, access, kind, -1, 0) };
        let page = NonNull::new(page.cast::<u8>()).filter(|page| page.as_ptr().cast() != libc::MAP_FAILED)?;
        // SAFETY: the page is this function's, writable, and readable again after both pieces of advice; volatile,
        // because what changes it is not seen by the compiler.
        unsafe {
            page.write_volatile(1);
            let is_granted = self.advice.iter().all(|&advice| libc::madvise(page.as_ptr().cast(), length, advice) == 0);
            let found = is_granted.then(|| if page.read_volatile() == 0 { REAL } else { PRETENDED });
            libc::munmap(page.as_ptr().cast(), length);
            found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "the call is the system's")]
    fn advice_that_does_nothing_is_found_out() {
        let purging = Discarding::new(libc::MADV_DONTNEED, libc::MADV_DONTNEED);
        assert!(!purging.is_pretended() && !purging.is_pretended());
        let nothing = Discarding::new(libc::MADV_NORMAL, libc::MADV_NORMAL);
        assert!(!nothing.is_known_to_pretend());
        assert!(nothing.is_pretended() && nothing.is_pretended() && nothing.is_known_to_pretend());
        // What is refused is not known.
        let refused = Discarding::new(-1, -1);
        assert!(!refused.is_pretended());
        assert_eq!(refused.known.load(Ordering::Relaxed), NOTHING);
    }
}
