//! The memory of a growing heap: what of its address space is committed, and what of that has ever been used.

use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, page_size};

/// The frontier moves in steps of this many bytes, so that it is crossed rarely.
const STEP: usize = 64 << 10;

/// Commits are at least this long, and at least an eighth of what is committed already: few calls to the system, and
/// still a refusal where a request is absurd.
const LEAST_COMMIT: usize = 1 << 20;

/// What is committed above is better backed by huge pages: a program that uses so much saves most of its page faults,
/// and what huge pages leave unused is little beside it.
const HUGE_FROM: usize = 32 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// Zeroing this many bytes costs more than having the system do it when they are touched.
const LARGE: usize = 1 << 20;

/// The longest alignment that the addresses of a region are good for.
pub(super) const MAX_ALIGN: usize = 1 << 30;

/// Invariant: `frontier <= committed <= the reservation's length`.
pub(super) struct Region {
    space: Reservation,
    committed: usize,
    /// No block has ever reached above: what lies there is untouched, thus zero.
    frontier: usize,
}

impl Region {
    /// Reserves `capacity` bytes.
    pub(super) fn reserve(capacity: usize) -> Result<Region, Refused> {
        let align = (capacity / 64).clamp(page_size(), MAX_ALIGN);
        Ok(Region { space: Reservation::reserve(capacity, align)?, committed: 0, frontier: 0 })
    }

    #[inline(always)]
    pub(super) fn base(&self) -> NonNull<u8> {
        self.space.base()
    }

    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    #[inline(always)]
    pub(super) fn frontier(&self) -> usize {
        self.frontier
    }

    #[inline(always)]
    pub(super) fn pointer(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.space.length());
        // SAFETY: engines hand out offsets below their capacity, which is this region's length.
        unsafe { self.base().add(offset) }
    }

    /// The offset of `pointer`; an offset outside the region when it does not point into it.
    #[inline(always)]
    pub(super) fn offset(&self, pointer: NonNull<u8>) -> usize {
        pointer.addr().get().wrapping_sub(self.base().addr().get())
    }

    /// Moves the frontier up to `end` or a little further, committing what is not.
    #[cold]
    #[inline(never)]
    pub(super) fn reach(&mut self, end: usize) -> Result<(), Refused> {
        if end <= self.frontier {
            return Ok(());
        }
        let frontier = end.next_multiple_of(STEP).min(self.space.length());
        if frontier > self.committed {
            self.commit(frontier)?;
        }
        self.frontier = frontier;
        Ok(())
    }

    /// Commits up to `wanted` and, if the system has it, ahead of it.
    fn commit(&mut self, wanted: usize) -> Result<(), Refused> {
        let ahead = self.committed + (self.committed / 8).max(LEAST_COMMIT);
        // A huge page must not straddle the end of what is committed when it is first touched.
        let step = if ahead > HUGE_FROM { HUGE_PAGE } else { STEP };
        let generous = ahead.max(wanted).next_multiple_of(step).min(self.space.length());
        if generous <= wanted || self.extend(generous).is_err() {
            self.extend(wanted)?;
        }
        Ok(())
    }

    fn extend(&mut self, end: usize) -> Result<(), Refused> {
        self.space.commit(self.committed, end)?;
        if end > HUGE_FROM {
            self.space.prefer_huge_pages(self.committed.max(HUGE_FROM), end);
        }
        self.committed = end;
        Ok(())
    }

    /// Gives the memory of the whole pages `from..to` back; returns how many bytes that were.
    ///
    /// # Safety
    /// Nobody needs the contents of the range.
    pub(super) unsafe fn purge(&mut self, from: usize, to: usize) -> usize {
        // SAFETY: the caller's promise.
        match unsafe { self.space.purge(from, to) } {
            Ok(()) => to - from,
            Err(Refused) => 0,
        }
    }

    /// Makes the bytes `from..to` zero; of many, those on whole pages by giving the pages back.
    ///
    /// # Safety
    /// The range is committed, and nobody needs its contents.
    pub(super) unsafe fn zero(&mut self, from: usize, to: usize) {
        let page = page_size();
        let (first, last) = (from.next_multiple_of(page), to & !(page - 1));
        // SAFETY: the caller's promise; `first..last` lies within `from..to` when that is longer than two pages.
        unsafe {
            if to - from >= LARGE.max(2 * page) && self.purge(first, last) != 0 {
                self.pointer(from).write_bytes(0, first - from);
                self.pointer(from).add(last - from).write_bytes(0, to - last);
            } else {
                self.pointer(from).write_bytes(0, to - from);
            }
        }
    }
}
