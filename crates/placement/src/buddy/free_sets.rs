//! The free blocks of a buddy heap: for each order, the set of their places.

use crate::bit_tree::{self, BitTree};
use crate::bits::lowest;
use crate::cells::Cells;
use crate::heap::Section;
use crate::parts::{Parts, Reach};

/// Cell 0: a bit per order that has a free block. Cells 1 to `ORDERS`: where each order's set lies. Then the sets.
pub(crate) struct FreeSets<'m> {
    cells: Cells<'m, u64>,
    granules: usize,
}

const ORDERS: usize = crate::rules::MAX_GRANULES.ilog2() as usize + 1;

fn orders_of(granules: usize) -> usize {
    granules.ilog2() as usize + 1
}

/// Returns where the set of each order lies.
fn bases(granules: usize) -> impl Iterator<Item = usize> {
    let orders = orders_of(granules);
    (0..orders).scan(1 + orders, move |base, order| {
        let here = *base;
        *base += bit_tree::cells_for(granules >> order);
        Some(here)
    })
}

impl<'m> Section<'m> for FreeSets<'m> {
    fn cells_for(granules: usize) -> usize {
        let orders = orders_of(granules);
        1 + orders + (0..orders).map(|order| bit_tree::cells_for(granules >> order)).sum::<usize>()
    }

    fn add_parts(parts: &mut Parts<'_>, granules: usize, Reach { end, .. }: Reach) {
        let orders = orders_of(granules);
        parts.add_whole(1 + orders);
        for order in 0..orders {
            // The buddy of the last block may lie behind the end.
            bit_tree::add_parts(parts, granules >> order, (end >> order) + 2);
        }
    }

    fn new(mut cells: Cells<'m, u64>, granules: usize) -> Self {
        const { assert!(ORDERS <= 64) };
        for (order, base) in bases(granules).enumerate() {
            cells.set(1 + order, base as u64);
        }
        FreeSets { cells, granules }
    }
}

impl FreeSets<'_> {
    #[inline(always)]
    fn set(&self, order: u32) -> BitTree {
        BitTree::new(self.cells.get(1 + order as usize) as usize, self.granules >> order)
    }

    /// Returns the least order that is at least `order` and has a free block.
    #[inline(always)]
    pub(crate) fn smallest_order_from(&self, order: u32) -> Option<u32> {
        let orders = self.cells.get(0).checked_shr(order)?;
        (orders != 0).then(|| order + lowest(orders) as u32)
    }

    /// Returns the place of the lowest free block of `order`, in units of its length.
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
        if self.set(order).remove(&mut self.cells, start >> order) {
            self.cells.set(0, self.cells.get(0) & !(1 << order));
        }
    }

    /// Inserts the high halves that remain when a block at `start` is halved from order `from` down to order `to`.
    #[inline(always)]
    pub(crate) fn insert_high_halves(&mut self, start: usize, from: u32, to: u32) {
        for order in to..from {
            self.set(order).insert(&mut self.cells, start >> order | 1);
        }
        self.cells.set(0, self.cells.get(0) | ((1 << from) - (1 << to)));
    }

    /// Removes the free buddy of the block of order `from` at `start`, that of the pair, and so on as long as they are
    /// free and within the region; returns the order of the joined block.
    #[inline(always)]
    pub(crate) fn remove_buddies(&mut self, start: usize, from: u32) -> u32 {
        let (mut order, mut emptied) = (from, 0u64);
        loop {
            let (set, buddy) = (self.set(order), start >> order ^ 1);
            if buddy >= self.granules >> order || !set.contains(&self.cells, buddy) {
                break;
            }
            emptied |= u64::from(set.remove(&mut self.cells, buddy)) << order;
            order += 1;
        }
        self.cells.set(0, self.cells.get(0) & !emptied);
        order
    }

    /// Checks that the sets lie where they should, so that they may be read.
    pub(crate) fn are_in_place(&self) -> bool {
        bases(self.granules).enumerate().all(|(order, base)| self.cells.get(1 + order) == base as u64)
    }

    /// Checks, for a heap that reaches to granule `reach`, that the set of each order has `counts` places and is
    /// consistent on all levels, and that the bits of the orders are right. Otherwise returns the wrong order.
    pub(crate) fn check(&self, reach: usize, counts: &[usize; 64]) -> Result<(), usize> {
        let orders = orders_of(self.granules);
        for (order, &count) in counts.iter().enumerate().take(orders) {
            let (set, used) = (self.set(order as u32), reach >> order);
            let sound = set.count(&self.cells, used) == count && set.check_above(&self.cells, used).is_ok();
            let known = self.cells.get(0) >> order & 1 == u64::from(count > 0);
            if !sound || !known {
                return Err(order);
            }
        }
        if self.cells.get(0) >> orders == 0 { Ok(()) } else { Err(orders) }
    }
}
