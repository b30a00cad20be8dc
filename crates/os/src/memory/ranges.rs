//! Purging of pages, also of many ranges by one system call.

use core::ptr::NonNull;

use crate::call::errno::errno_kept;
use crate::call::refused::{Refused, granted, refuse_call_if_told};
use crate::memory::huge_pages::split_before_purge;
use crate::memory::pages::calls_are_filtered;
use crate::memory::platform::platform;

/// Whole OS pages. The layout is that of the system's vectors (`struct iovec`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PageRange {
    /// The first byte, at a multiple of the page size.
    pub start: NonNull<u8>,
    /// The length in bytes, a multiple of the page size.
    pub length: usize,
}

/// The calling process, for `process_madvise` (Linux 6.14).
const THIS_PROCESS: libc::c_int = -10_001;

/// The fewest ranges for which it is worth while.
const FEW: usize = 2;

/// Purges `length` bytes at `start`: gives their memory back to the system but keeps the addresses, which read as zeros
/// afterwards.
///
/// # Errors
/// [`Refused`] when the pages are locked in memory, or the system only says that it purges. Nothing has changed then.
///
/// # Safety
/// Start and length are multiples of the page size. The range is private anonymous memory that the caller owns, and its
/// contents are not needed any more.
pub unsafe fn purge(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    refuse_call_if_told()?;
    let purging = platform().purging();
    if purging.is_known_to_pretend() {
        return Err(Refused);
    }
    split_before_purge(start, length);
    // SAFETY: the range is page-aligned memory of the caller's whose contents are not needed, as this function
    // requires.
    granted(errno_kept(|| unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_DONTNEED) }))?;
    if purging.is_pretended() { Err(Refused) } else { Ok(()) }
}

/// Returns whether [`purge_all`] purges by one system call, as far as is known.
#[must_use]
pub fn purges_by_vectors() -> bool {
    platform().purge_by_vectors().is_worth_a_call()
}

/// Purges ranges as [`purge`] does, and calls `purged` with the index of each one that is.
///
/// By one system call where the system has it and no filter of system calls is in force (sandboxes do not expect that
/// call from a program, and some kill for it), so that the other threads of the process are interrupted once: with
/// another thread running, a page takes a quarter of the time.
///
/// # Safety
/// As [`purge`], for each range.
pub unsafe fn purge_all(ranges: &[PageRange], mut purged: impl FnMut(usize)) {
    // SAFETY: the ranges are those of the caller, who does not need their contents.
    unsafe {
        let done = if ranges.len() < FEW { 0 } else { purge_by_vectors(ranges) };
        purge_rest(ranges, done, &mut purged);
    }
}

/// Purges one by one what lies behind the first `done` bytes of the ranges, and calls `purged` for each range.
///
/// # Safety
/// As [`purge_all`].
unsafe fn purge_rest(ranges: &[PageRange], mut done: usize, purged: &mut dyn FnMut(usize)) {
    for (index, range) in ranges.iter().enumerate() {
        let is_done = done >= range.length;
        done = done.saturating_sub(range.length);
        // SAFETY: as this function requires.
        if is_done || unsafe { purge(range.start, range.length) }.is_ok() {
            purged(index);
        }
    }
}

/// Purges ranges in their order until one fails; returns the bytes that were purged.
///
/// # Safety
/// As [`purge_all`].
unsafe fn purge_by_vectors(ranges: &[PageRange]) -> usize {
    let (calls, purging) = (platform().purge_by_vectors(), platform().purging());
    if !calls.is_worth_a_call()
        || purging.is_known_to_pretend()
        || refuse_call_if_told().is_err()
        || calls_are_filtered()
    {
        return 0;
    }
    let mut bytes = 0;
    ranges.iter().for_each(|range| split_before_purge(range.start, range.length));
    errno_kept(|| {
        calls.call(|| {
            // SAFETY: a range has the layout of a vector, and its pages are the caller's, whose contents are not
            // needed.
            let advised = unsafe {
                libc::syscall(
                    libc::SYS_process_madvise,
                    THIS_PROCESS,
                    ranges.as_ptr(),
                    ranges.len(),
                    libc::MADV_DONTNEED,
                    0,
                )
            };
            bytes = usize::try_from(advised).unwrap_or(0);
            if advised < 0 { -1 } else { 0 }
        })
    });
    if bytes != 0 && purging.is_pretended() { 0 } else { bytes }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::call::page_size::page_size;
    use crate::memory::pages::map;

    /// Every second page of a mapping.
    fn every_second(pages: usize) -> (NonNull<u8>, Vec<PageRange>) {
        let length = page_size();
        let base = map(pages * length).unwrap();
        // SAFETY: the pages are new.
        unsafe {
            base.write_bytes(7, pages * length);
            (base, (0..pages / 2).map(|pair| PageRange { start: base.add(2 * pair * length), length }).collect())
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the call is the system's")]
    fn ranges_are_purged_and_what_is_between_them_stays() {
        for by_vectors in [false, true] {
            let (base, ranges) = every_second(64);
            let mut done = Vec::new();
            // SAFETY: the pages are this test's.
            unsafe {
                let bytes = if by_vectors { purge_by_vectors(&ranges) } else { 0 };
                let has_call = purges_by_vectors() && !calls_are_filtered();
                assert_eq!(bytes, if by_vectors && has_call { 32 * page_size() } else { 0 });
                purge_rest(&ranges, bytes, &mut |index| done.push(index));
                assert_eq!(done, (0..32).collect::<Vec<_>>());
                for page in 0..64 {
                    let byte = base.add(page * page_size()).read();
                    assert_eq!(byte, if page % 2 == 0 { 0 } else { 7 }, "page {page}");
                }
            }
        }
    }
}
