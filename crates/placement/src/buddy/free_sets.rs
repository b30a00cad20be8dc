//! The free blocks of a buddy heap: for each order, the set of their places.
//!
//! To split a long block and to join all of it again passes through many orders that have no other free block. Such a
//! split is noted as a whole: the high halves that it left are in no set until their order has a second free block, or
//! another long block is split.
//!
//! Invariants: if the noted split left the only free block of an order, the order's set is empty, on all levels; the
//! block that was split began at a multiple of its length, which is more than that of any half.

use crate::bit_tree::{self, BitTree};
use crate::bits::lowest;
use crate::cells::Cells;
use crate::heap::Section;
use crate::parts::{Parts, Reach};

/// Cells [`FREE`], [`SPLIT`] and [`SPLIT_START`], then for each order where its set lies, then the sets, of places in
/// units of their blocks' length. A short region has no cells for a split.
pub(crate) struct FreeSets<'m> {
    cells: Cells<'m, u64>,
    granules: usize,
}

const ORDERS: usize = crate::rules::MAX_GRANULES.ilog2() as usize + 1;

/// A bit per order that has a free block.
const FREE: usize = 0;

/// A bit per order whose only free block is a high half that the noted split left.
const SPLIT: usize = 1;

/// The start of the block that was split, in granules.
const SPLIT_START: usize = 2;

/// A region of fewer granules has no long splits to note.
const NOTED_FROM: usize = 64;

/// The halves of a split through fewer orders go to their sets at once: others will soon be freed beside them.
const LONG_SPLIT: u32 = 3;

fn orders_of(granules: usize) -> usize {
    granules.ilog2() as usize + 1
}

/// Returns the cell that says where the first order's set lies.
#[inline(always)]
fn first_base(granules: usize) -> usize {
    if granules < NOTED_FROM { 1 } else { 3 }
}

/// Returns how many cells lie before the sets.
fn cells_before_sets(granules: usize) -> usize {
    first_base(granules) + orders_of(granules)
}

/// Returns where the set of each order lies.
fn bases(granules: usize) -> impl Iterator<Item = usize> {
    (0..orders_of(granules)).scan(cells_before_sets(granules), move |base, order| {
        let here = *base;
        *base += bit_tree::cells_for(granules >> order);
        Some(here)
    })
}

/// Returns the bits of the orders `from..to`.
fn orders(from: u32, to: u32) -> u64 {
    (1 << to) - (1 << from)
}

impl<'m> Section<'m> for FreeSets<'m> {
    fn cells_for(granules: usize) -> usize {
        let sets = (0..orders_of(granules)).map(|order| bit_tree::cells_for(granules >> order));
        cells_before_sets(granules) + sets.sum::<usize>()
    }

    fn add_parts(parts: &mut Parts<'_>, granules: usize, Reach { end, .. }: Reach) {
        parts.add_whole(cells_before_sets(granules));
        for order in 0..orders_of(granules) {
            // The buddy of the last block may lie behind the end.
            bit_tree::add_parts(parts, granules >> order, (end >> order) + 2);
        }
    }

    fn new(mut cells: Cells<'m, u64>, granules: usize) -> Self {
        const { assert!(ORDERS < 64) };
        for (order, base) in bases(granules).enumerate() {
            cells.set(first_base(granules) + order, base as u64);
        }
        FreeSets { cells, granules }
    }
}

/// What a set had of what was to be removed.
enum Removed {
    /// Nothing.
    Not,
    /// It was removed, and the set is empty.
    Last,
    /// It was removed, and there are others.
    One,
}

impl FreeSets<'_> {
    #[inline(always)]
    fn set(&self, order: u32) -> BitTree {
        BitTree::new(self.cells.get(first_base(self.granules) + order as usize) as usize, self.granules >> order)
    }

    /// Returns the orders whose only free block is left of the noted split.
    #[inline(always)]
    fn split(&self) -> u64 {
        if self.granules < NOTED_FROM { 0 } else { self.cells.get(SPLIT) }
    }

    /// Returns the free block of `order` that the noted split left, if it is the only one.
    #[inline(always)]
    fn split_half(&self, order: u32) -> Option<usize> {
        let is_left = self.split() >> order & 1 == 1;
        is_left.then(|| self.cells.get(SPLIT_START) as usize | 1 << order)
    }

    /// Returns the least order that is at least `order` and has a free block.
    #[inline(always)]
    pub(crate) fn smallest_order_from(&self, order: u32) -> Option<u32> {
        let orders = self.cells.get(FREE).checked_shr(order)?;
        (orders != 0).then(|| order + lowest(orders) as u32)
    }

    /// Returns the start of the lowest free block of `order`.
    #[inline(always)]
    pub(crate) fn lowest(&self, order: u32) -> Option<usize> {
        self.split_half(order).or_else(|| self.set(order).first(&self.cells).map(|place| place << order))
    }

    #[inline(always)]
    pub(crate) fn contains(&self, order: u32, start: usize) -> bool {
        match self.split_half(order) {
            Some(half) => half == start,
            None => self.set(order).contains(&self.cells, start >> order),
        }
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, order: u32, start: usize) {
        if let Some(half) = self.split_half(order) {
            self.settle(order, half);
        }
        self.set(order).insert(&mut self.cells, start >> order);
        self.cells.set(FREE, self.cells.get(FREE) | 1 << order);
    }

    /// Puts a half that the noted split left into its set.
    #[inline(always)]
    fn settle(&mut self, order: u32, half: usize) {
        self.cells.set(SPLIT, self.split() & !(1 << order));
        self.set(order).insert(&mut self.cells, half >> order);
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, order: u32, start: usize) {
        let (free, split, bit) = (self.cells.get(FREE), self.split(), 1 << order);
        if split & bit != 0 {
            self.cells.set(SPLIT, split & !bit);
            self.cells.set(FREE, free & !bit);
        } else if self.set(order).remove(&mut self.cells, start >> order) {
            self.cells.set(FREE, free & !bit);
        }
    }

    /// Inserts the high halves that remain when a block at `start` is halved from order `from` down to order `to`.
    #[inline(always)]
    pub(crate) fn insert_high_halves(&mut self, start: usize, from: u32, to: u32) {
        let (free, halved) = (self.cells.get(FREE), orders(to, from));
        if free & halved != 0 || from - to < LONG_SPLIT || self.granules < NOTED_FROM {
            (to..from).for_each(|order| self.insert(order, start | 1 << order));
            return;
        }
        if self.split() != 0 {
            self.settle_all();
        }
        self.cells.set(FREE, free | halved);
        self.cells.set(SPLIT, halved);
        self.cells.set(SPLIT_START, start as u64);
    }

    /// Puts what the noted split left into the sets.
    #[inline(never)]
    fn settle_all(&mut self) {
        for order in 0..orders_of(self.granules) as u32 {
            if let Some(half) = self.split_half(order) {
                self.settle(order, half);
            }
        }
    }

    /// Removes the free buddy of the block of order `from` at `start`, that of the pair, and so on as long as they are
    /// free and within the region; returns the order of the joined block.
    #[inline(always)]
    pub(crate) fn remove_buddies(&mut self, start: usize, from: u32) -> u32 {
        let (free, split) = (self.cells.get(FREE), self.split());
        let (mut whole, mut order, mut not_empty) = (start, from, 0u64);
        while free >> order & 1 == 1 {
            let left = (split >> order).trailing_ones();
            if left != 0 {
                // The halves above are those of the same block.
                if whole != self.cells.get(SPLIT_START) as usize {
                    break;
                }
                order += left;
                continue;
            }
            match self.remove_from_set(order, whole ^ 1 << order) {
                Removed::Not => break,
                Removed::Last => {}
                Removed::One => not_empty |= 1 << order,
            }
            whole &= !(1 << order);
            order += 1;
        }
        let joined = orders(from, order);
        self.cells.set(FREE, free & !joined | not_empty);
        if split & joined != 0 {
            self.cells.set(SPLIT, split & !joined);
        }
        order
    }

    /// Removes the block at `start`, which may lie behind the region, from the set of `order`.
    #[inline(always)]
    fn remove_from_set(&mut self, order: u32, start: usize) -> Removed {
        let (set, place) = (self.set(order), start >> order);
        if place >= self.granules >> order || !set.contains(&self.cells, place) {
            Removed::Not
        } else if set.remove(&mut self.cells, place) {
            Removed::Last
        } else {
            Removed::One
        }
    }

    /// Checks that the sets lie where they should, so that they may be read.
    pub(crate) fn are_in_place(&self) -> bool {
        bases(self.granules)
            .enumerate()
            .all(|(order, base)| self.cells.get(first_base(self.granules) + order) == base as u64)
    }

    /// Checks, for a heap that reaches to granule `reach` and all of whose holes are contained, that each order has
    /// `counts` places, that its set is consistent on all levels, and that the bits of the orders are right. Otherwise
    /// returns the wrong order.
    pub(crate) fn check(&self, reach: usize, counts: &[usize; 64]) -> Result<(), usize> {
        let orders = orders_of(self.granules);
        for (order, &count) in counts.iter().enumerate().take(orders) {
            let (set, used) = (self.set(order as u32), reach >> order);
            let left = usize::from(self.split_half(order as u32).is_some());
            let sound = set.count(&self.cells, used) + left == count && set.check_above(&self.cells, used).is_ok();
            let known = self.cells.get(FREE) >> order & 1 == u64::from(count > 0);
            if !sound || !known {
                return Err(order);
            }
        }
        let is_known = (self.cells.get(FREE) | self.split()) >> orders == 0;
        if is_known && self.is_split_aligned() { Ok(()) } else { Err(orders) }
    }

    /// Returns whether the noted split began at a multiple of a length above those of the halves that it left.
    fn is_split_aligned(&self) -> bool {
        let split = self.split();
        split == 0 || split.checked_shr(self.cells.get(SPLIT_START).trailing_zeros()).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buddy;
    use crate::engine::Engine;
    use crate::rules::Rules;

    /// The half that is left begins where the block is said to have been split: its buddy would not join it.
    #[test]
    fn a_split_that_began_at_its_half_is_noticed() {
        let rules = Rules::default();
        let mut metadata = [0; 200];
        let mut buddy = Buddy::create(&mut metadata, 64 * 16, &rules).unwrap();
        for granules in [1, 1, 2, 4, 8, 16] {
            buddy.allocate(granules * 16, 16).unwrap();
        }
        assert_eq!(buddy.heap.index.split_half(5), Some(32));
        buddy.check().unwrap();
        buddy.heap.index.cells.set(SPLIT_START, 32);
        assert!(buddy.check().is_err());
    }
}
