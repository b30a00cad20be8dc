//! The free blocks of a buddy heap: for every order the set of their places.

use crate::bit_tree::{self, BitTree};
use crate::bits::lowest;
use crate::cells::Cells;

/// Cell 0: a bit per order that has a free block. Cells 1 to `ORDERS`: where each order's set lies. Then the sets.
pub(crate) struct FreeSets<'m> {
    cells: Cells<'m, u64>,
    granules: usize,
}

const ORDERS: usize = crate::rules::MAX_GRANULES.ilog2() as usize + 1;

fn orders_of(granules: usize) -> usize {
    granules.ilog2() as usize + 1
}

impl<'m> FreeSets<'m> {
    pub(crate) fn cells_for(granules: usize) -> usize {
        let orders = orders_of(granules);
        1 + orders + (0..orders).map(|order| bit_tree::cells_for(granules >> order)).sum::<usize>()
    }

    /// The sets in `cells`: all zeros, or as an earlier `FreeSets` of the same length left them.
    pub(crate) fn new(mut cells: Cells<'m, u64>, granules: usize) -> Self {
        const { assert!(ORDERS <= 64) };
        let orders = orders_of(granules);
        let mut base = 1 + orders;
        for order in 0..orders {
            cells.set(1 + order, base as u64);
            base += bit_tree::cells_for(granules >> order);
        }
        FreeSets { cells, granules }
    }

    #[inline(always)]
    fn set(&self, order: u32) -> BitTree {
        BitTree::new(self.cells.get(1 + order as usize) as usize, self.granules >> order)
    }

    /// The least order that is at least `order` and has a free block.
    #[inline(always)]
    pub(crate) fn smallest_order_from(&self, order: u32) -> Option<u32> {
        let orders = self.cells.get(0).checked_shr(order)?;
        (orders != 0).then(|| order + lowest(orders) as u32)
    }

    /// The place of the lowest free block of `order`, in units of its length.
    #[inline(always)]
    pub(crate) fn lowest(&self, order: u32) -> Option<usize> {
        self.set(order).first(&self.cells)
    }

    #[inline(always)]
    pub(crate) fn contains(&self, order: u32, start: usize) -> bool {
        self.set(order).contains(&self.cells, start >> order)
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, order: u32, start: usize) {
        self.set(order).insert(&mut self.cells, start >> order);
        self.cells.set(0, self.cells.get(0) | 1 << order);
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, order: u32, start: usize) {
        self.set(order).remove(&mut self.cells, start >> order);
        if self.lowest(order).is_none() {
            self.cells.set(0, self.cells.get(0) & !(1 << order));
        }
    }

    /// How many free blocks of `order` there are, by looking at each place; for the checks.
    pub(crate) fn count(&self, order: u32) -> usize {
        let set = self.set(order);
        let (mut count, mut at) = (0, 0);
        while let Some(place) = set.first_from(&self.cells, at) {
            count += 1;
            at = place + 1;
        }
        count
    }
}
