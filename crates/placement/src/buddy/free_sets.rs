//! The free blocks of a buddy heap: for each order, the set of their places.
//!
//! To split a long block and to join all of it again passes through many orders that have no other free block. What
//! such a split leaves stays alone: its place is kept in a cell of its order, and no set is touched until the order has
//! a second free block.
//!
//! Invariants:
//! - an order that has an only block has that alone: its set is empty, on all levels;
//! - an order is among the orders with free blocks if it has an only block or its set is not empty.

use crate::bit_tree::{self, BitTree};
use crate::bits::lowest;
use crate::cells::Cells;
use crate::heap::Section;
use crate::parts::{Parts, Reach};

/// Cells [`FREE`] and [`ALONE`], then for each order where its set lies, then the start of the only block of each order
/// that has one, in granules, then the sets, of places in units of their blocks' length.
pub(crate) struct FreeSets<'m> {
    cells: Cells<'m, u64>,
    granules: usize,
}

const ORDERS: usize = crate::rules::MAX_GRANULES.ilog2() as usize + 1;

/// A bit per order that has a free block.
const FREE: usize = 0;

/// A bit per order that has an only block.
const ALONE: usize = 1;

/// The halves of a split through fewer orders go to their sets at once: others will soon be freed beside them.
const LONG_SPLIT: u32 = 2;

/// Where the first order's set lies is said here.
const BASES: usize = 2;

fn orders_of(granules: usize) -> usize {
    granules.ilog2() as usize + 1
}

/// Returns how many cells lie before the sets.
fn cells_before_sets(granules: usize) -> usize {
    BASES + 2 * orders_of(granules)
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
            cells.set(BASES + order, base as u64);
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
        BitTree::new(self.cells.get(BASES + order as usize) as usize, self.granules >> order)
    }

    /// Returns the cell with the start of an order's only block.
    #[inline(always)]
    fn only_cell(&self, order: u32) -> usize {
        BASES + orders_of(self.granules) + order as usize
    }

    #[inline(always)]
    fn is_alone(&self, order: u32) -> bool {
        self.cells.get(ALONE) >> order & 1 == 1
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
        if self.is_alone(order) {
            return Some(self.cells.get(self.only_cell(order)) as usize);
        }
        self.set(order).first(&self.cells).map(|place| place << order)
    }

    #[inline(always)]
    pub(crate) fn contains(&self, order: u32, start: usize) -> bool {
        if self.is_alone(order) {
            return self.cells.get(self.only_cell(order)) as usize == start;
        }
        self.set(order).contains(&self.cells, start >> order)
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, order: u32, start: usize) {
        let set = self.set(order);
        if self.is_alone(order) {
            self.cells.set(ALONE, self.cells.get(ALONE) & !(1 << order));
            let only = self.cells.get(self.only_cell(order)) as usize;
            set.insert(&mut self.cells, only >> order);
        }
        set.insert(&mut self.cells, start >> order);
        self.cells.set(FREE, self.cells.get(FREE) | 1 << order);
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, order: u32, start: usize) {
        let (free, alone, bit) = (self.cells.get(FREE), self.cells.get(ALONE), 1 << order);
        if alone & bit != 0 {
            self.cells.set(ALONE, alone & !bit);
            self.cells.set(FREE, free & !bit);
        } else if self.set(order).remove(&mut self.cells, start >> order) {
            self.cells.set(FREE, free & !bit);
        }
    }

    /// Inserts the high halves that remain when a block at `start` is halved from order `from` down to order `to`.
    #[inline(always)]
    pub(crate) fn insert_high_halves(&mut self, start: usize, from: u32, to: u32) {
        let halved = orders(to, from);
        let (free, alone) = (self.cells.get(FREE), self.cells.get(ALONE));
        if free & halved != 0 || from - to < LONG_SPLIT {
            (to..from).for_each(|order| self.insert(order, start | 1 << order));
            return;
        }
        self.cells.set(FREE, free | halved);
        self.cells.set(ALONE, alone | halved);
        let (mut cell, mut half) = (self.only_cell(to), 1 << to);
        while half < 1 << from {
            self.cells.set(cell, (start | half) as u64);
            (cell, half) = (cell + 1, 2 * half);
        }
    }

    /// Removes the free buddy of the block of order `from` at `start`, that of the pair, and so on as long as they are
    /// free and within the region; returns the order of the joined block.
    #[inline(always)]
    pub(crate) fn remove_buddies(&mut self, start: usize, from: u32) -> u32 {
        let (free, alone) = (self.cells.get(FREE), self.cells.get(ALONE));
        let in_sets = free & !alone;
        // The block that is joined, and the bit of its order, which is also its length.
        let (mut whole, mut bit) = (start, 1usize << from);
        let (mut only_cell, mut not_empty) = (self.only_cell(from), 0u64);
        loop {
            let buddy = whole ^ bit;
            if alone & bit as u64 != 0 {
                if self.cells.get(only_cell) as usize != buddy {
                    break;
                }
            } else if in_sets & bit as u64 != 0 {
                match self.remove_from_set(bit.trailing_zeros(), buddy) {
                    Removed::Not => break,
                    Removed::Last => {}
                    Removed::One => not_empty |= bit as u64,
                }
            } else {
                break;
            }
            (whole, bit, only_cell) = (whole & !bit, 2 * bit, only_cell + 1);
        }
        let joined = bit as u64 - (1 << from);
        self.cells.set(FREE, free & !joined | not_empty);
        self.cells.set(ALONE, alone & !joined);
        bit.trailing_zeros()
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
        bases(self.granules).enumerate().all(|(order, base)| self.cells.get(BASES + order) == base as u64)
    }

    /// Checks, for a heap that reaches to granule `reach` and all of whose holes are contained, that each order has
    /// `counts` places, that its set is consistent on all levels, and that the bits of the orders are right. Otherwise
    /// returns the wrong order.
    pub(crate) fn check(&self, reach: usize, counts: &[usize; 64]) -> Result<(), usize> {
        let orders = orders_of(self.granules);
        for (order, &count) in counts.iter().enumerate().take(orders) {
            let (set, used) = (self.set(order as u32), reach >> order);
            let alone = usize::from(self.is_alone(order as u32));
            let sound = set.count(&self.cells, used) + alone == count && set.check_above(&self.cells, used).is_ok();
            let known = self.cells.get(FREE) >> order & 1 == u64::from(count > 0);
            if !sound || !known || alone == 1 && count != 1 {
                return Err(order);
            }
        }
        if (self.cells.get(FREE) | self.cells.get(ALONE)) >> orders == 0 { Ok(()) } else { Err(orders) }
    }
}
