//! When slabs are dissolved, and how blocks are taken from those that are.
//!
//! A heap that needs another slab, and has more than a sixteenth of its memory (and a MiB) in holes, first looks for a
//! slab of its own that is cold and sparse. It is cold if no list was filled from it while the heap got the last half
//! MiB of slabs, or a 128th of what it has; and sparse if at most half of what it has in memory is out. Such a slab is
//! dissolved (`slab::dissolved`) and serves all classes up to 8 KiB. Lists are filled from dissolved slabs when no slab
//! of the class has blocks. A program in a steady state needs no other slabs, and none of its slabs is dissolved. Where
//! all blocks of dissolved slabs are freed soon, as in a program that does the same again and again, more must lie in
//! holes before others are dissolved.
//!
//! Each attempt looks at a few classes and a few slabs, and continues where the last one ended.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use super::dissolved_slabs::DissolvedSlabs;
use super::slabs::{Slabs, bytes_out_of};
use crate::arena::ARENA;
use crate::classes::{GRAIN, PAGE, SLAB, size_of_class};
use crate::corruption::corrupted;
use crate::entry::{DISSOLVED, Entry};
use crate::links::{Chain, Links};
use crate::scarcity;
use crate::slab::PageCounts;
use crate::slab::dissolved::{DissolvedSlab, SOLUBLE};

/// Whether slabs are dissolved.
static IS_ON: AtomicBool = AtomicBool::new(!cfg!(loom));

/// Leaves all slabs as they are from now on: sparse ones serve one size class. To be called before the first
/// allocation.
pub fn turn_dissolving_off() {
    IS_ON.store(false, Ordering::Relaxed);
}

impl Slabs {
    /// Takes blocks of a class, up to `wanted` but at least one, from dissolved slabs or from one that is sparse.
    pub(super) fn take_from_holes(&mut self, class: usize, links: Links, wanted: u32) -> Option<(NonNull<u8>, Chain)> {
        if !SOLUBLE.contains(&class) || !IS_ON.load(Ordering::Relaxed) {
            return None;
        }
        self.take_dissolved(class, links, wanted).or_else(|| {
            if !self.has_much_in_holes() {
                return None;
            }
            self.dissolve_sparse()?;
            self.take_dissolved(class, links, wanted)
        })
    }

    fn take_dissolved(&mut self, class: usize, links: Links, wanted: u32) -> Option<(NonNull<u8>, Chain)> {
        /// Slabs of a list that are tried: their longest runs may be too short.
        const TRIES: usize = 16;
        /// The least hole that is worth a search, in grains. A look at a slab takes some 100 ns, also for a block of
        /// 16 bytes.
        const LEAST_HOLE: u32 = 512 / GRAIN as u32;
        let grains = (size_of_class(class) / GRAIN) as u32;
        for list in DissolvedSlabs::index_of(grains.max(LEAST_HOLE))?..DissolvedSlabs::LISTS {
            let mut next = self.dissolved.lists[list].first();
            for _ in 0..TRIES {
                let Some(number) = next else { break };
                let slab = self.own.slab(number);
                next = slab.node.next();
                if slab.longest() < grains {
                    continue;
                }
                let taken = self.take_of(number, class, links, wanted);
                if taken.is_some() {
                    return taken;
                }
            }
        }
        None
    }

    /// Takes a block of a class where there is no memory for another slab: from any slab with a hole that is long
    /// enough, dissolved for it if need be. Time: proportional to the number of slabs.
    #[cold]
    #[inline(never)]
    pub(super) fn take_at_last(&mut self, class: usize, links: Links) -> Option<(NonNull<u8>, Chain)> {
        if !SOLUBLE.contains(&class) || !IS_ON.load(Ordering::Relaxed) {
            return None;
        }
        for first in self.dissolved.firsts() {
            let mut next = first;
            while let Some(number) = next {
                next = self.own.slab(number).node.next();
                let taken = self.take_of(number, class, links, 1);
                if taken.is_some() {
                    return taken;
                }
            }
        }
        let mut is_refused = false;
        for other in SOLUBLE.rev() {
            let mut next = self.lists[other].first();
            while let Some(number) = next {
                next = self.own.slab(number).node.next();
                // Where there is no memory for the map of one, there is none for the others that lack one: the system
                // is not asked for each.
                if is_refused && !ARENA.has_grain_map(number) {
                    continue;
                }
                if self.dissolve(number, other).is_none() {
                    is_refused = true;
                    continue;
                }
                let taken = self.take_of(number, class, links, 1);
                if taken.is_some() {
                    return taken;
                }
            }
        }
        None
    }

    /// Takes blocks of a class, up to `wanted` but at least one, from a dissolved slab.
    fn take_of(&mut self, number: u32, class: usize, links: Links, wanted: u32) -> Option<(NonNull<u8>, Chain)> {
        let chain = self.change(number, |slab, pages| slab.take(class, links, wanted, pages));
        let first = NonNull::new(chain.first)?;
        ARENA.blocks_out(number).add(chain.count);
        self.bytes_out += chain.count as usize * size_of_class(class);
        Some((first, chain))
    }

    /// Works on a dissolved slab, and moves it to the list where it belongs then.
    fn change<R>(&mut self, number: u32, work: impl FnOnce(&mut DissolvedSlab<'_>, &mut PageCounts) -> R) -> R {
        let (slab, map, start) = (self.own.slab(number), ARENA.grain_map(number), ARENA.start_of(number));
        let before = DissolvedSlabs::index_of(slab.longest());
        let result = work(&mut DissolvedSlab { slab, map, start }, &mut self.pages);
        let after = DissolvedSlabs::index_of(self.own.slab(number).longest());
        if before != after {
            if let Some(list) = before {
                self.unlist_dissolved(list, number);
            }
            if let Some(list) = after {
                self.dissolved.lists[list].push(number, &mut self.own);
            }
        }
        result
    }

    fn unlist_dissolved(&mut self, list: usize, number: u32) {
        let before = self.dissolved.lists[list].take_out(number, &mut self.own);
        self.purging.leave(number, before);
    }

    /// Whether the heap keeps much memory in holes.
    fn has_much_in_holes(&self) -> bool {
        const LEAST: usize = 1 << 20;
        let resident = self.pages.resident as usize * PAGE;
        let (least, part) = if scarcity::is_scarce() { (LEAST / 16, 128) } else { (LEAST, self.age.part_in_holes()) };
        resident.saturating_sub(self.bytes_out) > least.max(resident / part)
    }

    /// Dissolves a cold and sparse slab, if there is one.
    #[cold]
    #[inline(never)]
    fn dissolve_sparse(&mut self) -> Option<()> {
        /// Classes that are looked at.
        const CLASSES: usize = 16;
        for _ in 0..CLASSES {
            let class = SOLUBLE.start + usize::from(self.age.search) % SOLUBLE.len();
            if let Some(number) = self.find_sparse(class) {
                return self.dissolve(number, class);
            }
            self.age.search = self.age.search.wrapping_add(1);
        }
        None
    }

    /// Looks at the slabs of a class from which nothing was taken for the longest time.
    fn find_sparse(&mut self, class: usize) -> Option<u32> {
        const SLABS: usize = 8;
        let first = self.lists[class].first()?;
        let mut number = self.lists[class].last(&mut self.own)?;
        for _ in 0..SLABS {
            if self.is_cold(number) && self.is_sparse(number, class) {
                return Some(number);
            }
            if number == first {
                break;
            }
            number = self.own.slab(number).node.previous();
        }
        None
    }

    /// Whether no blocks were taken from a slab in this step of the heap's age and in the last one.
    fn is_cold(&mut self, number: u32) -> bool {
        let age = self.age.now().wrapping_sub(self.own.slab(number).taken_at);
        age >= if scarcity::is_scarce() { 1 } else { 2 }
    }

    /// Whether at most half of what a slab has in memory is out.
    fn is_sparse(&mut self, number: u32, class: usize) -> bool {
        2 * bytes_out_of(number, class) <= self.own.slab(number).resident_pages() as usize * PAGE
    }

    /// Dissolves a listed slab. `None` when there is no memory for its map, or when no block of it is out: then its
    /// pages are freed instead, for slabs of any class.
    fn dissolve(&mut self, number: u32, class: usize) -> Option<()> {
        if ARENA.blocks_out(number).count() == 0 {
            self.release(number, class);
            return None;
        }
        ARENA.cover_grain_map(number).ok()?;
        self.unlist(class, number);
        let (slab, map, start) = (self.own.slab(number), ARENA.grain_map(number), ARENA.start_of(number));
        let mut dissolved = DissolvedSlab { slab, map, start };
        // SAFETY: the slab begins there, and these are its class's links.
        unsafe { dissolved.dissolve(ARENA.links(class)) };
        let list = DissolvedSlabs::index_of(dissolved.slab.longest())?;
        ARENA.set_entry(number, Entry::new(self.owner(), DISSOLVED));
        self.dissolved.lists[list].push(number, &mut self.own);
        Some(())
    }

    /// Puts a block of a class back to the dissolved slab that it lies in. Ends the process if it is none that is out.
    pub(super) fn put_back_dissolved(&mut self, number: u32, class: usize, block: NonNull<u8>) {
        let put = self.change(number, |slab, pages| slab.put(block.addr().get() % SLAB, class, pages));
        if put.is_err() {
            corrupted(block);
        }
        self.bytes_out -= size_of_class(class);
        if ARENA.blocks_out(number).remove(1) {
            self.release_dissolved(number);
        }
    }

    /// Gives up a dissolved slab of which no block is out.
    fn release_dissolved(&mut self, number: u32) {
        if let Some(list) = DissolvedSlabs::index_of(self.own.slab(number).longest()) {
            self.age.record_emptied(self.own.slab(number).taken_at);
            self.unlist_dissolved(list, number);
            self.return_to_arena(number);
        }
    }
}
