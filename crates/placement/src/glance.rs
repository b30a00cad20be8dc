//! A view of a heap in a copy of the first parts of its metadata: its state, its counters and its block map.
//!
//! For readers outside the process, perhaps while the heap is in use, which need not copy all of its metadata.

use core::ops::Range;

use crate::counters::Counters;
use crate::engine::{Block, BlockState};
use crate::error::RulesError;
use crate::rules::{PolicyKind, Statistics};
use crate::state::State;
use crate::store::{COUNTER_CELLS, STATE_CELLS};

/// The head of a heap's metadata, which also locates the block map.
///
/// Nothing here trusts the bytes: whatever they are, results lie within the heap's capacity and walks end. In a copy
/// that was made while the heap was in use, a block may appear twice as long or half as long as it is, but the blocks
/// always form a partition.
///
/// ```
/// use heapwright_placement::{AnyEngine, Engine, Glance, PolicyKind, Rules};
/// let rules = Rules::default();
/// let mut metadata = vec![0u64; AnyEngine::metadata_cells(PolicyKind::First, 1 << 16, &rules).unwrap()];
/// let mut heap = AnyEngine::create(PolicyKind::First, &mut metadata, 1 << 16, &rules).unwrap();
/// heap.allocate(100, 16).unwrap();
/// let blocks: Vec<_> = heap.blocks().collect();
///
/// let glance = Glance::of(&metadata).unwrap();
/// assert_eq!(glance.counters().unwrap().mallocs, 1);
/// assert!(glance.blocks(&metadata[glance.map()]).eq(blocks));
/// ```
#[derive(Clone)]
pub struct Glance {
    state: State,
    policy: PolicyKind,
    counters: Option<Counters>,
}

impl Glance {
    /// The most cells of 8 bytes at the metadata's start that are read.
    pub const HEAD: usize = STATE_CELLS + COUNTER_CELLS;

    /// Decodes the first [`Glance::HEAD`] cells of a heap's metadata. The slice may be longer, or shorter for a heap
    /// without counters.
    ///
    /// # Errors
    /// [`RulesError::MetadataTooShort`] when there are too few; [`RulesError::NotAHeap`] when they do not begin like a
    /// heap of this version.
    pub fn of(head: &[u64]) -> Result<Glance, RulesError> {
        let (first, rest) = head.split_first_chunk::<STATE_CELLS>().ok_or(RulesError::MetadataTooShort)?;
        // SAFETY: the array has as many cells as a state, is aligned to 8 bytes, and a state consists of integers, for
        // which any bytes are valid.
        let state = unsafe { first.as_ptr().cast::<State>().read() };
        let policy = state.policy().ok_or(RulesError::NotAHeap)?;
        let counters = match state.statistics() {
            Statistics::Off => None,
            Statistics::Kept => {
                let cells = rest.first_chunk::<COUNTER_CELLS>().ok_or(RulesError::MetadataTooShort)?;
                // SAFETY: the array has as many cells as the counters, is aligned to 8 bytes, and counters are
                // integers, for which any bytes are valid.
                Some(unsafe { cells.as_ptr().cast::<Counters>().read() })
            }
        };
        Ok(Glance { state, policy, counters })
    }

    /// Returns the policy that places blocks.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// Returns the smallest unit of placement, in bytes.
    #[must_use]
    pub fn granule(&self) -> usize {
        1 << self.state.shift()
    }

    /// Returns the bytes from the region's start to the heap's end.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.state.end << self.state.shift()
    }

    /// Returns the bytes from the region's start to the free tail (for buddies, to the heap's end).
    #[must_use]
    pub fn top(&self) -> usize {
        self.state.top << self.state.shift()
    }

    /// Returns the counters, or `None` when the heap was created without statistics.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.counters
    }

    /// Returns which cells of the metadata are the map of the blocks below [`Glance::top`]: 16 bytes per 64 granules.
    #[must_use]
    pub fn map(&self) -> Range<usize> {
        let first = match self.state.statistics() {
            Statistics::Kept => Self::HEAD,
            Statistics::Off => STATE_CELLS,
        };
        first..first + 2 * (self.state.top / 64 + 1)
    }

    /// Returns all blocks in address order, used and free, from `map`, a copy of the cells [`Glance::map`]. If the copy
    /// is shorter, the rest of the heap is one used block.
    ///
    /// Time: proportional to the map.
    pub fn blocks<'c>(&self, map: &'c [u64]) -> impl Iterator<Item = Block> + use<'c> {
        let State { end, top, .. } = self.state;
        Walk { pairs: map.as_chunks().0, at: 0, top, end, shift: self.state.shift() }
    }
}

/// A walk of a copied map; positions are in granules.
struct Walk<'c> {
    pairs: &'c [[u64; 2]],
    at: usize,
    top: usize,
    end: usize,
    shift: u32,
}

impl Walk<'_> {
    /// Returns the first start above the present one, at most `top`.
    fn next_start(&self) -> usize {
        let from = self.at + 1;
        let mut mask = u64::MAX << (from % 64);
        for (word, [starts, _]) in self.pairs.iter().enumerate().skip(from / 64) {
            let found = starts & mask;
            if found != 0 {
                return (word * 64 + found.trailing_zeros() as usize).min(self.top);
            }
            if word * 64 > self.top {
                break;
            }
            mask = u64::MAX;
        }
        self.top
    }

    fn is_hole(&self) -> bool {
        self.pairs.get(self.at / 64).is_some_and(|[_, holes]| holes >> (self.at % 64) & 1 == 1)
    }
}

impl Iterator for Walk<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let start = self.at;
        if start >= self.end {
            return None;
        }
        let (next, free) = if start >= self.top { (self.end, true) } else { (self.next_start(), self.is_hole()) };
        self.at = next;
        let state = if free { BlockState::Free } else { BlockState::Used };
        Some(Block { offset: start << self.shift, size: (next - start) << self.shift, state })
    }
}
