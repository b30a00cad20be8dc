//! The memory of a growing heap: which part of its address space is committed, and which part has ever been used.

use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, clear, page_size};

use super::settings::Backing;

/// The frontier moves in steps, so that it is crossed rarely: of this many bytes in a short heap, of a 32nd of a longer
/// one, up to [`LONGEST_STEP`].
const STEP: usize = 64 << 10;
const LONGEST_STEP: usize = 1 << 20;

/// A heap shorter than this is faulted in page by page.
const POPULATE_FROM: usize = 1 << 20;

/// The largest alignment of a region's base. Engines other than buddies align blocks to more: they count it from
/// address 0.
const MAX_ALIGN: usize = 1 << 30;

/// Invariant: `frontier <= committed <= the reservation's length`; what is committed is the reservation's extent.
pub(super) struct Region {
    space: Reservation,
    /// No block has ever reached above this offset: the memory there is untouched and zero.
    frontier: usize,
    backing: Backing,
}

impl Region {
    /// Claims `capacity` bytes of addresses, and `tables` bytes (whole pages) in front of them for tables.
    pub(super) fn claim(capacity: usize, tables: usize, backing: Backing) -> Result<(Region, Reservation), Refused> {
        let align = (1 << (capacity / 64).max(1).ilog2()).clamp(page_size(), MAX_ALIGN);
        let start = tables.checked_next_multiple_of(align).ok_or(Refused)?;
        let mut tables = Reservation::claim(start.checked_add(capacity).ok_or(Refused)?, align)?;
        let space = tables.split_off(start)?;
        Ok((Region { space, frontier: 0, backing }, tables))
    }

    #[inline(always)]
    pub(super) fn base(&self) -> NonNull<u8> {
        self.space.base()
    }

    /// Returns the bytes of addresses, whole pages.
    pub(super) fn length(&self) -> usize {
        self.space.length()
    }

    pub(super) fn committed(&self) -> usize {
        self.space.extent()
    }

    #[inline(always)]
    pub(super) fn frontier(&self) -> usize {
        self.frontier
    }

    #[inline(always)]
    pub(super) fn pointer(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.space.length());
        // SAFETY: engines return offsets below their capacity, which is at most this region's length.
        unsafe { self.base().add(offset) }
    }

    /// Moves the frontier up to `end`, which is committed, or a little further.
    #[cold]
    #[inline(never)]
    pub(super) fn reach(&mut self, end: usize) {
        if end <= self.frontier {
            return;
        }
        let step = (self.frontier / 32).clamp(STEP, LONGEST_STEP) & !(STEP - 1);
        let frontier = end.saturating_add(step - STEP).next_multiple_of(STEP).min(self.committed());
        if self.backing == Backing::Ahead && end - self.frontier <= step {
            self.populate_if_written(frontier);
        }
        self.frontier = frontier;
    }

    /// If the program wrote to the step below the frontier, it will write to the next one too: backing that step as a
    /// whole is cheaper than its page faults. Long blocks are excluded, because they may stay untouched.
    fn populate_if_written(&mut self, end: usize) {
        if self.frontier >= POPULATE_FROM && self.space.seems_written(self.frontier - STEP) {
            self.space.populate(self.frontier, end);
        }
    }

    /// Commits the first `end` bytes.
    pub(super) fn commit(&mut self, end: usize) -> Result<(), Refused> {
        self.space.extend(end)
    }

    /// Undoes a commit beyond `end`, which the frontier has not passed.
    pub(super) fn uncommit(&mut self, end: usize) {
        // SAFETY: nothing above the frontier was ever used. If the system refuses, more stays committed than is needed.
        let _ = unsafe { self.space.retract(end.max(self.frontier)) };
    }

    /// Gives back the memory and the addresses behind `end`; returns how many bytes were accessible there.
    ///
    /// # Safety
    /// No block reaches above `end`.
    pub(super) unsafe fn retract(&mut self, end: usize) -> usize {
        let before = self.committed();
        // SAFETY: what lies above `end` is not used, as this function requires.
        if unsafe { self.space.retract(end) }.is_err() {
            return 0;
        }
        self.frontier = self.frontier.min(self.committed());
        before - self.committed()
    }

    /// Makes the bytes `from..to` zero.
    ///
    /// # Safety
    /// The range is committed, and its contents are not needed.
    pub(super) unsafe fn clear(&mut self, from: usize, to: usize) {
        // SAFETY: the range is committed memory of this region, whose contents are not needed, as this function
        // requires.
        unsafe { clear(self.pointer(from), to - from) };
    }
}
