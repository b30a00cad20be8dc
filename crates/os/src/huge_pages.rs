//! Transparent huge pages: where there are to be none, and where one is asked for.

use core::ops::Range;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use crate::clock::nanoseconds_of;
use crate::errno::errno_kept;
use crate::pages::page_size;
use crate::platform::platform;

/// Returns the length of a huge page in bytes.
#[inline]
#[must_use]
pub fn huge_page_size() -> usize {
    // A huge page has as many pages as a page has entries of a page table, of 8 bytes each.
    page_size() / 8 * page_size()
}

/// Backs a huge page's length of memory from `touched` on by a huge page, if the system has one, otherwise the page at
/// `touched`; returns the processor time of that in nanoseconds. The memory has no other huge pages afterwards: what is
/// purged of it is not backed again by one of the system's accord.
///
/// # Safety
/// `touched` is a multiple of the length of a huge page. The byte there belongs to the caller, and is 0 or not needed;
/// it is 0 afterwards. What else of the range is mapped is private anonymous memory of this process.
pub unsafe fn back_by_huge_page(touched: NonNull<u8>) -> u64 {
    let range = touched.addr().get()..touched.addr().get() + huge_page_size();
    let before = nanoseconds_of(libc::CLOCK_THREAD_CPUTIME_ID);
    advise(range.clone(), libc::MADV_HUGEPAGE);
    // SAFETY: the byte is the caller's.
    unsafe { touched.write_volatile(0) };
    let after = nanoseconds_of(libc::CLOCK_THREAD_CPUTIME_ID);
    forbid_huge_pages(range);
    after.saturating_sub(before)
}

/// Splits the huge page at `start`, a multiple of its length, if parts of it were purged: the system keeps their memory
/// otherwise until it is short of it. Takes some 300 microseconds. Only a hint, and nothing before Linux 5.4. Contents
/// stay as they are, whatever is mapped there.
pub fn split_huge_page(start: usize) {
    let (start, part) = (with_exposed_provenance_mut(start), huge_page_size() - page_size());
    // Advice for a part of a huge page splits it: here that the program will not need that part soon.
    // SAFETY: the advice changes no contents, whatever is mapped there.
    errno_kept(|| unsafe { libc::madvise(start, part, libc::MADV_COLD) });
}

/// Asks for no huge pages in what was added to the accessible part of a table, or in all of it if that was not done. A
/// table that is too short for a huge page gets none in any case, and costs no call.
pub(crate) fn keep_pages_small(before: Range<usize>, after: Range<usize>) {
    let huge = huge_page_size();
    let has_room = |part: &Range<usize>| {
        part.start.checked_next_multiple_of(huge).is_some_and(|first| first.saturating_add(huge) <= part.end)
    };
    if has_room(&after) {
        let added = if after.start < before.start { after.start..before.start } else { before.end..after.end };
        forbid_huge_pages(if has_room(&before) { added } else { after });
    }
}

/// Asks for no huge pages in a range of addresses. Only a hint; the huge pages that are there stay.
#[cold]
pub fn forbid_huge_pages(range: Range<usize>) {
    advise(range, libc::MADV_NOHUGEPAGE);
}

fn advise(range: Range<usize>, advice: i32) {
    let start = with_exposed_provenance_mut(range.start);
    // SAFETY: the advice changes no contents, whatever is mapped there.
    let advise = || unsafe { libc::madvise(start, range.len(), advice) };
    errno_kept(|| platform().page_advice().call(advise));
}
