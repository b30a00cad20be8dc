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

use super::slabs::{Slabs, bytes_out_of};
use crate::arena::ARENA;
use crate::classes::{GRAIN, PAGE, SLAB, size_of_class};
use crate::corruption::corrupted;
use crate::entry::{DISSOLVED, Entry};
use crate::links::{Chain, Links};
use crate::scarcity;
use crate::slab::PageCounts;
use crate::slab::dissolved::{DissolvedSlab, LONGEST, SOLUBLE};
use crate::slab_list::SlabList;

/// Whether slabs are dissolved.
static IS_ON: AtomicBool = AtomicBool::new(!cfg!(loom));

/// Leaves all slabs as they are from now on: sparse ones serve one size class. To be called before the first
/// allocation.
pub fn turn_dissolving_off() {
    IS_ON.store(false, Ordering::Relaxed);
}

/// The dissolved slabs of a heap that have free grains, by the longest run of these: two lists for each power of two.
pub(super) struct DissolvedSlabs {
    lists: [SlabList; DissolvedSlabs::LISTS],
}

impl DissolvedSlabs {
    pub(super) const LISTS: usize = 2 * LONGEST.ilog2() as usize + 1;

    pub(super) const NONE: DissolvedSlabs = DissolvedSlabs { lists: [SlabList::EMPTY; DissolvedSlabs::LISTS] };

    /// Returns the list for slabs whose longest run has `longest` grains; `None` for 0. List 1 stays empty.
    fn index_of(longest: u32) -> Option<usize> {
        let log2 = longest.checked_ilog2()?;
        let half = (u64::from(longest) << 1 >> log2) % 2;
        Some((2 * log2) as usize + half as usize)
    }

    pub(super) fn list(&self, list: usize) -> &SlabList {
        &self.lists[list]
    }

    /// The first slab of each list.
    pub(super) fn firsts(&self) -> [Option<u32>; Self::LISTS] {
        core::array::from_fn(|list| self.lists[list].first())
    }
}

/// The age of a heap, in steps in each of which it gets a few slabs.
pub(super) struct Age {
    /// Modulo 2^8.
    now: u8,
    /// Where in the classes the next search for a sparse slab begins.
    search: u8,
    /// Number of slabs that the heap has got in this step.
    slabs: u32,
    /// The most slabs that the heap had.
    most: u32,
    /// Number of slabs that were dissolved in vain: soon all their blocks were freed. One is forgotten every few steps.
    vain: u8,
}

impl Age {
    pub(super) const NEW: Age = Age { now: 0, search: 0, slabs: 0, most: 0, vain: 0 };

    pub(super) fn now(&self) -> u8 {
        self.now
    }

    /// Records that a heap with `count` slabs has got one of them.
    pub(super) fn record_slab(&mut self, count: u32) {
        /// The steps after which a slab that was dissolved in vain is forgotten.
        const STEPS: u8 = 8;
        self.slabs += 1;
        self.most = self.most.max(count);
        if self.slabs >= slabs_of_step(count) {
            (self.slabs, self.now) = (0, self.now.wrapping_add(1));
            self.vain -= u8::from(self.now.is_multiple_of(STEPS)).min(self.vain);
        }
    }

    /// Records that no block is left of a slab that was dissolved at an age. That was in vain if the heap has got less
    /// than four times its slabs since, as far as ages can be told apart.
    fn record_emptied(&mut self, dissolved_at: u8) {
        const SOON: u32 = 4;
        const LONGEST: u32 = 128;
        let soon = (SOON * self.most / slabs_of_step(self.most)).min(LONGEST);
        if u32::from(self.now.wrapping_sub(dissolved_at)) < soon {
            self.vain = (self.vain + 1).min(Age::MOST_VAIN);
        }
    }

    /// Forgets which slabs were dissolved in vain: memory is what matters now.
    pub(super) fn forget_vain(&mut self) {
        self.vain = 0;
    }

    /// Returns the part of a heap's memory that lies in holes before slabs are dissolved.
    fn part_in_holes(&self) -> usize {
        (16 >> (self.vain / Age::VAIN_TO_DOUBLE)).max(1)
    }

    /// As many in vain double the part: nothing is dissolved after four times as many, until some are forgotten.
    const VAIN_TO_DOUBLE: u8 = 16;
    const MOST_VAIN: u8 = 6 * Age::VAIN_TO_DOUBLE;
}

/// The slabs that a heap with `count` slabs gets in a step: half a MiB, or a part of those that it has.
fn slabs_of_step(count: u32) -> u32 {
    const LEAST: u32 = 8;
    const PART: u32 = 128;
    LEAST.max(count / PART)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Gets 200 slabs, and then `steps` steps of others in a heap that has no more than these.
    fn get_slabs(age: &mut Age, steps: u32) {
        (1..=200).for_each(|count| age.record_slab(count));
        (0..8 * steps).for_each(|_| age.record_slab(200));
    }

    #[test]
    fn what_is_dissolved_in_vain_is_dissolved_later_and_forgotten_in_time() {
        let mut age = Age::NEW;
        get_slabs(&mut age, 0);
        let mut parts = [(); 7].map(|()| {
            let part = age.part_in_holes();
            (0..16).for_each(|_| age.record_emptied(age.now()));
            part
        });
        assert_eq!(parts, [16, 8, 4, 2, 1, 1, 1]);
        parts = [(); 7].map(|()| {
            get_slabs(&mut age, 8 * 16 - 25);
            age.part_in_holes()
        });
        assert_eq!(parts, [1, 1, 2, 4, 8, 16, 16]);
    }

    #[test]
    fn what_lasts_was_not_dissolved_in_vain() {
        let mut age = Age::NEW;
        for _ in 0..100 {
            let dissolved_at = age.now();
            get_slabs(&mut age, 100);
            age.record_emptied(dissolved_at);
        }
        assert_eq!(age.part_in_holes(), 16);
        (0..100).for_each(|_| age.record_emptied(age.now()));
        age.forget_vain();
        assert_eq!(age.part_in_holes(), 16);
    }
}
