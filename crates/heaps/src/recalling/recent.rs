//! The blocks that were placed last, and the frees that are put off.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::Reuse;

/// The most blocks that are remembered: programs seldom nest temporary blocks deeper.
const DEPTH: u64 = 4;

/// After `TRIES` placements without a repeat, only the first `TRIES` of each `PERIOD` placements are remembered.
const TRIES: u32 = 64;
const PERIOD: u32 = 1024;

/// A block, and what its placement did.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) block: NonNull<u8>,
    pub(super) layout: Layout,
    pub(super) reuse: Reuse,
    /// Whether the free that is put off names the block's size.
    pub(super) is_freed_by_size: bool,
}

// SAFETY: the address is only compared and handed out; the heap that remembers it owns the memory there.
unsafe impl Send for Placed {}

/// The blocks that were placed last, in this order, with no other operation of the heap between two of them.
///
/// Placements are numbered from 0. Those from `first` to `live` are of blocks in use. Those from there to `end` were
/// freed by the program, the last one first, and are still used blocks of the heap. So at any time the holes that the
/// program knows of are those before placement `live`.
///
/// Invariant: `first <= live <= end <= first + DEPTH`.
pub(super) struct Recent {
    placed: [Placed; DEPTH as usize],
    first: u64,
    live: u64,
    end: u64,
    /// Placements since the last free that was taken back.
    in_vain: u32,
}

impl Recent {
    pub(super) const fn new() -> Recent {
        let (block, layout) = (NonNull::dangling(), Layout::new::<()>());
        let none = Placed { block, layout, reuse: Reuse::NONE, is_freed_by_size: false };
        Recent { placed: [none; DEPTH as usize], first: 0, live: 0, end: 0, in_vain: 0 }
    }

    #[inline(always)]
    fn at(&mut self, number: u64) -> &mut Placed {
        &mut self.placed[(number % DEPTH) as usize]
    }

    /// Takes back the free that was put off last, if it was that of a block for this request.
    #[inline(always)]
    pub(super) fn take(&mut self, layout: Layout) -> Option<Placed> {
        if self.live == self.end || self.at(self.live).layout != layout {
            return None;
        }
        let placed = *self.at(self.live);
        self.live += 1;
        self.in_vain = 0;
        Some(placed)
    }

    /// Puts off the free of a block, if it is the last one of those in use. If the free names a layout, the block was
    /// allocated for its size, and for its alignment or less.
    #[inline(always)]
    pub(super) fn give(&mut self, block: NonNull<u8>, named: Option<Layout>) -> bool {
        if self.live == self.first {
            return false;
        }
        let placed = self.at(self.live - 1);
        let Placed { layout, .. } = *placed;
        let is_for = |named: Layout| named.size() == layout.size() && named.align() >= layout.align();
        let is_last = placed.block == block && named.is_none_or(is_for);
        if is_last {
            placed.is_freed_by_size = named.is_some();
            self.live -= 1;
        }
        is_last
    }

    /// Returns whether a free was put off.
    #[inline(always)]
    pub(super) fn has_put_off(&self) -> bool {
        self.live != self.end
    }

    /// Removes and returns the next block whose free was put off.
    pub(super) fn next_put_off(&mut self) -> Option<Placed> {
        if !self.has_put_off() {
            return None;
        }
        self.end -= 1;
        Some(*self.at(self.end))
    }

    /// Counts a placement, and returns whether it is worth remembering: programs that free in no order pay little.
    #[inline(always)]
    pub(super) fn is_attentive(&mut self) -> bool {
        let in_vain = self.in_vain;
        self.in_vain = in_vain.wrapping_add(1);
        in_vain % PERIOD < TRIES
    }

    /// Remembers a block that was just placed; no free is put off.
    #[inline(always)]
    pub(super) fn note(&mut self, placed: Placed) {
        *self.at(self.end) = placed;
        self.end += 1;
        self.live = self.end;
        self.first = self.first.max(self.end.saturating_sub(DEPTH));
    }

    /// Forgets all blocks, after another operation of the heap than a placement. No free is put off.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.first = self.end;
    }
}
