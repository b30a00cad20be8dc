//! Purging of the idle pages of a heap's slabs: how many are retained, and where purging goes on.

use super::batch::Batch;
use super::dissolved_slabs::DissolvedSlabs;
use super::front::count_made;
use super::slabs::Slabs;
use crate::arena::ARENA;
use crate::classes::{CLASSES, PAGE, SLAB};
use crate::platform::is_single_threaded;
use crate::scarcity;
use crate::slab_list::NO_SLAB;

/// The lists of slabs of a heap.
const LISTS: usize = CLASSES + DissolvedSlabs::LISTS;

/// Idle pages that are always retained: 256 KiB.
const LEAST: u32 = 64;

/// Idle pages of a heap that stay where free pages are purged at once: fewer are not worth a system call.
const FEWEST: u32 = 8;

/// Returns the most idle pages of each heap in a process with many threads: they have 64 MiB together.
fn share_of_idle() -> u32 {
    const ALL: u32 = 16_384;
    const LEAST: u32 = 16;
    (ALL / count_made().max(1)).max(LEAST)
}

impl Slabs {
    /// Returns whether there are enough idle pages to purge them.
    #[inline]
    pub(super) fn has_much_idle(&self) -> bool {
        let least = if scarcity::purges_at_once() { FEWEST } else { LEAST };
        // Where purging is refused, it is tried again when there is twice as much.
        let least = least.max(2 * self.purging.refused);
        self.pages.idle > least && self.pages.idle > self.retained()
    }

    /// Returns the number of idle pages that are retained.
    fn retained(&self) -> u32 {
        if scarcity::purges_at_once() {
            return FEWEST;
        }
        let pages = self.count() * (SLAB / PAGE) as u32;
        // Purging interrupts the other threads of a process.
        let part = if is_single_threaded() { 32 } else { 2 };
        let share = share_of_idle();
        LEAST.max(pages / part).min(share) + self.pages.refaulted.min(share)
    }

    /// Purges some idle pages, after more of them were found than are retained; later calls go on until few are left.
    /// Bounded.
    #[cold]
    #[inline(never)]
    pub(super) fn purge_some_idle(&mut self) {
        /// Pages for which a call makes system calls, and slabs that it looks at.
        const PAGES: u32 = 128;
        const SLABS: u32 = 256;
        if !self.purging.is_under_way {
            self.pages.forget();
            self.purging.refaulted = self.pages.refaulted;
        }
        let mut batch = Batch::default();
        let found = self.add_some_idle(PAGES, SLABS, &mut batch);
        self.purge_batch(&mut batch);
        self.record_purged(batch.purged);
        let is_refused = found != 0 && batch.purged == 0;
        self.purging.refused = if is_refused { self.pages.idle } else { 0 };
        // It ends where what was purged is needed again.
        self.purging.is_under_way =
            !is_refused && self.pages.idle > FEWEST && self.pages.refaulted <= self.purging.refaulted;
    }

    /// Purges all idle pages, until `is_wanted`.
    #[cold]
    #[inline(never)]
    pub(super) fn purge_idle(&mut self, is_wanted: &dyn Fn() -> bool) {
        let mut batch = Batch::default();
        for first in self.firsts() {
            let mut next = Some(first);
            while let Some(number) = next
                && !is_wanted()
            {
                self.add_idle(number, &mut batch);
                next = self.own.slab(number).node.next();
            }
        }
        if !is_wanted() {
            self.purge_batch(&mut batch);
        }
        self.record_purged(batch.purged);
        if !is_wanted() {
            self.pages.idle = 0;
        }
        self.purging.is_under_way = false;
        self.pages.forget();
        self.age.forget_vain();
    }

    /// Adds up to `most` idle pages, and the rest of a slab's, to a batch, from where the last call ended; looks at up
    /// to `slabs` slabs, and at none again after all idle pages were added. Returns how many pages were added.
    pub(super) fn add_some_idle(&mut self, most: u32, slabs: u32, batch: &mut Batch) -> u32 {
        let (mut found, mut left, mut begun) = (0, slabs, 0);
        let most = most.min(self.pages.idle);
        while left != 0 && found < most {
            if self.purging.next == NO_SLAB {
                if begun > LISTS {
                    break;
                }
                begun += 1;
                self.begin_next_list();
                continue;
            }
            left -= 1;
            let number = self.purging.next;
            found += self.add_idle(number, batch);
            self.purging.next = match usize::from(self.purging.list).checked_sub(CLASSES) {
                None => self.lists[usize::from(self.purging.list)].before(number, &mut self.own),
                Some(list) => self.dissolved.list(list).before(number, &mut self.own),
            };
        }
        found
    }

    fn begin_next_list(&mut self) {
        self.purging.list = (self.purging.list + 1) % LISTS as u8;
        let last = match usize::from(self.purging.list).checked_sub(CLASSES) {
            None => self.lists[usize::from(self.purging.list)].last(&mut self.own),
            Some(list) => self.dissolved.list(list).last(&mut self.own),
        };
        self.purging.next = last.unwrap_or(NO_SLAB);
    }

    pub(super) fn record_purged(&mut self, pages: u32) {
        self.pages.resident -= pages;
        self.pages.idle = self.pages.idle.saturating_sub(pages);
        ARENA.record_purge(pages as usize * PAGE);
    }
}
