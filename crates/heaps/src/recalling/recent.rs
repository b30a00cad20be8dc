//! The blocks that were placed last, and the frees that are put off.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::Reuse;

/// The most blocks that are remembered, a power of two: programs seldom nest temporary blocks deeper.
const DEPTH: usize = 4;

/// After so many placements without a repeat, most are not remembered: of `PERIOD` placements the first `TRIES` are.
const TRIES: u32 = 64;
const PERIOD: u32 = 1024;

/// A block, and what its placement did.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) block: NonNull<u8>,
    pub(super) layout: Layout,
    pub(super) reuse: Reuse,
    /// The size that the free names that is put off, if it names one.
    pub(super) named: Option<usize>,
}

/// The blocks that were placed last, in this order, with no other operation of the heap between two of them.
///
/// The blocks from `first` to `live` are in use. Those from there to `end` were freed by the program, the last one first,
/// and are still used blocks of the heap. So at any time the holes that the program knows of are those before the
/// placement of the block at `live`. The three numbers never decrease by more than is known, and count modulo [`DEPTH`].
pub(super) struct Recent {
    placed: [Placed; DEPTH],
    first: usize,
    live: usize,
    end: usize,
    /// Placements since the last free that was taken back.
    in_vain: u32,
}

// SAFETY: the addresses are only compared and handed out; the heap that remembers them owns the memory at them.
unsafe impl Send for Placed {}

impl Recent {
    pub(super) const fn new() -> Recent {
        let (block, layout) = (NonNull::dangling(), Layout::new::<()>());
        let none = Placed { block, layout, reuse: Reuse::NONE, named: None };
        Recent { placed: [none; DEPTH], first: 0, live: 0, end: 0, in_vain: 0 }
    }

    /// Takes back the free that was put off last, if it was that of a block for this request.
    #[inline(always)]
    pub(super) fn take(&mut self, layout: Layout) -> Option<&Placed> {
        let placed = &self.placed[self.live % DEPTH];
        let is_same = self.live != self.end && placed.layout == layout;
        if !is_same {
            return None;
        }
        self.live += 1;
        self.in_vain = 0;
        Some(placed)
    }

    /// Puts off the free of a block, if it is the last one of those in use, and has the size that the free names.
    #[inline(always)]
    pub(super) fn give(&mut self, block: NonNull<u8>, named: Option<usize>) -> bool {
        let last = self.live.wrapping_sub(1);
        let placed = &mut self.placed[last % DEPTH];
        let is_last =
            self.live != self.first && placed.block == block && named.is_none_or(|named| named == placed.layout.size());
        if is_last {
            placed.named = named;
            self.live = last;
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
        self.has_put_off().then(|| {
            self.end -= 1;
            self.placed[self.end % DEPTH]
        })
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
        self.placed[self.end % DEPTH] = placed;
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
