//! Transparent huge pages: where there are to be none, where one is asked for, and that it is split before parts of it
//! are purged. Otherwise these parts would count as gone, while the system keeps their memory.

use core::ops::Range;
use core::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

use crate::call::errno::errno_kept;
use crate::call::page_size::page_size;
use crate::memory::pages::{map, unmap};
use crate::memory::platform::platform;
use crate::time::clock::nanoseconds_of;

/// The length of the huge pages that are asked for, in bytes: that of huge pages where pages have 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;

/// Huge pages by their numbers: their addresses divided by their length, less [`FIRST`]. Those of 256 GiB have one.
struct Set([AtomicU64; Set::WORDS]);

impl Set {
    const WORDS: usize = (256 << 30) / HUGE_PAGE / 64;

    fn insert(&self, number: usize) {
        self.0[number / 64].fetch_or(1 << (number % 64), Relaxed);
    }

    /// Returns whether it contained the number.
    fn remove(&self, number: usize) -> bool {
        self.0[number / 64].fetch_and(!(1 << (number % 64)), Relaxed) & 1 << (number % 64) != 0
    }

    fn contains(&self, number: usize) -> bool {
        self.0[number / 64].load(Relaxed) & 1 << (number % 64) != 0
    }
}

/// What is known of the huge pages that were asked for.
struct Known {
    /// Those that are whole as far as is known.
    whole: Set,
    /// Those that may not have been split when parts of them were purged: a child of a fork may have used them, too.
    shared: Set,
}

/// Mapped when the first huge page is asked for: few programs have any. Null before.
static KNOWN: AtomicPtr<Known> = AtomicPtr::new(null_mut());

/// Returns what is known, if a huge page was asked for.
fn known() -> Option<&'static Known> {
    // SAFETY: what is stored is never unmapped.
    unsafe { KNOWN.load(Acquire).as_ref() }
}

/// Returns what is known; `None` when there is no memory to remember it in.
fn make_known() -> Option<&'static Known> {
    if let Some(known) = known() {
        return Some(known);
    }
    let length = size_of::<Known>().next_multiple_of(page_size());
    let made = map(length).ok()?;
    // Words of zero are empty sets.
    if KNOWN.compare_exchange(null_mut(), made.as_ptr().cast(), AcqRel, Relaxed).is_err() {
        // Another thread came first.
        // SAFETY: the mapping is new, and nothing else knows it.
        let _ = unsafe { unmap(made, length) };
    }
    known()
}

/// The address, divided by their length, of the one with number 0.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// One more than the greatest number of those that were asked for; 0 if none were.
static END: AtomicUsize = AtomicUsize::new(0);

static HAS_FORKED: AtomicBool = AtomicBool::new(false);

/// Where [`split_some_huge_pages`] goes on.
static NEXT: AtomicUsize = AtomicUsize::new(0);

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
/// `None`, and nothing happens, for addresses that are not within 256 GiB above `base`, which is the same for every
/// call, and where there is no memory to remember a huge page in.
///
/// # Safety
/// `touched` is a multiple of [`HUGE_PAGE`]. The byte there belongs to the caller, and is 0 or not needed;
/// it is 0 afterwards. What else of the range is mapped is private anonymous memory of this process, and purged by
/// functions of this crate only.
pub unsafe fn back_by_huge_page(base: usize, touched: NonNull<u8>) -> Option<u64> {
    let range = touched.addr().get()..touched.addr().get() + HUGE_PAGE;
    FIRST.store(base / HUGE_PAGE, Relaxed);
    let number = (range.start / HUGE_PAGE).checked_sub(base / HUGE_PAGE)?;
    if number / 64 >= Set::WORDS {
        return None;
    }
    // Before it exists: another thread may purge a part of it at once.
    make_known()?.whole.insert(number);
    END.fetch_max(number + 1, Relaxed);
    let before = nanoseconds_of(libc::CLOCK_THREAD_CPUTIME_ID);
    advise(range.clone(), libc::MADV_HUGEPAGE);
    // SAFETY: the byte is the caller's.
    unsafe { touched.write_volatile(0) };
    let after = nanoseconds_of(libc::CLOCK_THREAD_CPUTIME_ID);
    forbid_huge_pages(range);
    Some(after.saturating_sub(before))
}

/// Splits the huge pages of which a part is about to be purged. Takes some 300 microseconds for each, once.
#[inline]
pub(crate) fn split_before_purge(start: NonNull<u8>, length: usize) {
    if END.load(Relaxed) != 0 {
        split_parts(start.addr().get()..start.addr().get() + length);
    }
}

#[cold]
fn split_parts(purged: Range<usize>) {
    let Some(known) = known() else { return };
    let (first, end) = (FIRST.load(Relaxed), END.load(Relaxed));
    let numbers = purged.start / HUGE_PAGE..purged.end.div_ceil(HUGE_PAGE);
    for number in numbers.start.max(first)..numbers.end.min(first + end) {
        let (start, number) = (number * HUGE_PAGE, number - first);
        if purged.start <= start && start + HUGE_PAGE <= purged.end {
            // It goes as a whole.
            known.whole.remove(number);
            known.shared.remove(number);
        } else if known.whole.remove(number) {
            split(start);
            if HAS_FORKED.load(Relaxed) {
                known.shared.insert(number);
            }
        }
    }
}

/// Splits the huge page at an address. Nothing happens before Linux 5.4, and while a child of a fork uses it, too.
fn split(start: usize) {
    let (start, part) = (with_exposed_provenance_mut(start), HUGE_PAGE - page_size());
    // Advice for a part of a huge page splits it: here that the program will not need that part soon.
    // SAFETY: the advice changes no contents, whatever is mapped there.
    errno_kept(|| unsafe { libc::madvise(start, part, libc::MADV_COLD) });
}

/// Records that the process is about to fork: from then on, huge pages may not be split at the first try, because a
/// child uses them, too.
pub(crate) fn record_fork() {
    HAS_FORKED.store(true, Relaxed);
}

/// Splits a few huge pages of which parts were purged while a child of a fork may have used them; later calls go on.
/// Bounded.
pub fn split_some_huge_pages() {
    /// Huge pages, each of which takes some 20 microseconds once it is split.
    const MOST: usize = 4;
    let end = END.load(Relaxed);
    let Some(known) = known().filter(|_| HAS_FORKED.load(Relaxed)) else { return };
    if end == 0 {
        return;
    }
    let first = NEXT.load(Relaxed) % end;
    let mut next = first;
    for number in (first..end).filter(|&number| known.shared.contains(number)).take(MOST) {
        split_number(number);
        next = number + 1;
    }
    NEXT.store(if next == first { 0 } else { next }, Relaxed);
}

/// Splits all such huge pages.
pub fn split_all_huge_pages() {
    if let Some(known) = known() {
        (0..END.load(Relaxed)).filter(|&number| known.shared.contains(number)).for_each(split_number);
    }
}

fn split_number(number: usize) {
    split((FIRST.load(Relaxed) + number) * HUGE_PAGE);
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
