//! The slabs of a heap: blocks are taken from them and put back by the owner, and put back by threads that reclaim.

use core::ptr::NonNull;

use super::age::Age;
use super::dissolved_slabs::DissolvedSlabs;
use super::purging::Purging;
use crate::arena::ARENA;
use crate::classes::{CLASSES, SLAB, is_block, size_of_class};
use crate::corruption::corrupted;
use crate::entry::{DISSOLVED, Entry};
use crate::inbox::Arrived;
use crate::links::{Chain, Links};
use crate::slab::{PageCounts, Slab};
use crate::slab_list::{Node, Nodes, SlabList};

/// The slabs of a heap. Blocks that are out, that is used by the program, or in a thread cache or an inbox, are not in
/// them.
pub(crate) struct Slabs {
    /// For each class, the slabs that have free blocks.
    pub(super) lists: [SlabList; CLASSES],
    pub(super) dissolved: DissolvedSlabs,
    pub(super) own: OwnSlabs,
    pub(super) pages: PageCounts,
    pub(super) age: Age,
    /// The least number of idle pages since unused ones were purged.
    pub(super) least_idle: u32,
    /// Where pages are purged next.
    pub(super) purging: Purging,
    count: u32,
    /// Remote frees that are still to be collected.
    pub(super) arrived: Arrived,
    /// The bytes of the blocks that are out.
    pub(super) bytes_out: usize,
}

/// The slabs whose entries have the number of the heap. The value is behind the heap's lock.
pub(super) struct OwnSlabs {
    owner: u32,
}

impl OwnSlabs {
    pub(super) fn slab(&mut self, number: u32) -> &mut Slab {
        // SAFETY: the metadata of a heap's slabs is used behind the heap's lock only, as is this value; the numbers
        // come from the heap's lists and from entries with its owner.
        unsafe { &mut *ARENA.slab(number) }
    }
}

impl Nodes for OwnSlabs {
    fn node(&mut self, number: u32) -> &mut Node {
        &mut self.slab(number).node
    }
}

impl Slabs {
    /// Returns the slabs of a heap that has none yet.
    pub(super) const fn none_of(owner: u32) -> Slabs {
        Slabs {
            lists: [SlabList::EMPTY; CLASSES],
            dissolved: DissolvedSlabs::NONE,
            own: OwnSlabs { owner },
            pages: PageCounts::NONE,
            age: Age::NEW,
            least_idle: 0,
            purging: Purging::NONE,
            count: 0,
            arrived: Arrived::NONE,
            bytes_out: 0,
        }
    }

    pub(super) fn owner(&self) -> u32 {
        self.own.owner
    }

    /// Takes blocks of a class, about `wanted` ([`Slab::take`]) but at least one. `None` when there is no memory.
    pub(super) fn take(&mut self, class: usize, links: Links, wanted: u32) -> Option<(NonNull<u8>, Chain)> {
        if self.lists[class].first().is_none() {
            let taken = self.take_from_holes(class, links, wanted);
            if taken.is_some() {
                return taken;
            }
        }
        self.take_of_class(class, links, wanted).or_else(|| self.take_at_last(class, links))
    }

    /// As [`Slabs::take`], from slabs of the class alone. Each block lies at a multiple of every power of two that
    /// divides its length.
    pub(super) fn take_of_class(&mut self, class: usize, links: Links, wanted: u32) -> Option<(NonNull<u8>, Chain)> {
        loop {
            let listed = self.lists[class].first();
            let number = listed.or_else(|| self.acquire(class)).or_else(|| self.acquire_empty(class))?;
            let slab = self.own.slab(number);
            slab.taken_at = self.age.now();
            // SAFETY: the slab begins there, and the links are its class's.
            let chain = unsafe { slab.take(ARENA.start_of(number), links, wanted, &mut self.pages) };
            ARENA.blocks_out(number).add(chain.count);
            self.bytes_out += chain.count as usize * size_of_class(class);
            if slab.is_exhausted() {
                self.unlist(class, number);
                self.lists[class].first().inspect(|&next| ARENA.prefetch_slab(next));
            }
            self.record_idle();
            if let Some(first) = NonNull::new(chain.first) {
                return Some((first, chain));
            }
        }
    }

    /// Gets another slab of a class, one of an idle heap or a new one; returns its number.
    #[cold]
    #[inline(never)]
    fn acquire(&mut self, class: usize) -> Option<u32> {
        let mut arena = ARENA.lock()?;
        let owner = self.own.owner;
        let mut stretch = None;
        let given = arena.heaps.idle().find_map(|heap| heap.visit()?.give_up(class, owner));
        let number = match given {
            Some(number) => number,
            None => {
                let (number, resident, begun) = arena.place_slab()?;
                // SAFETY: the slab is new, thus no other heap's.
                unsafe { ARENA.slab(number).write(Slab::new(class, resident)) };
                ARENA.set_entry(number, Entry::new(owner, class));
                stretch = begun;
                number
            }
        };
        drop(arena);
        if let Some(stretch) = stretch {
            // SAFETY: it begins in the slab, of which nothing was used yet.
            unsafe { stretch.back() };
        }
        self.count += 1;
        self.age.record_slab(self.count);
        self.pages.add(self.own.slab(number));
        self.bytes_out += bytes_out_of(number, class);
        self.lists[class].push(number, &mut self.own);
        Some(number)
    }

    /// Gets another slab of a class where there is no memory for a new one: the pages of one of this heap of which no
    /// block is out.
    #[cold]
    #[inline(never)]
    fn acquire_empty(&mut self, class: usize) -> Option<u32> {
        self.release_empty(&|| false);
        self.acquire(class)
    }

    /// Gives a slab of `class` that has free blocks to another heap; returns its number. Its entry names the other heap
    /// before a visitor of this one can find blocks of the slab in the inbox.
    fn give_up(&mut self, class: usize, to: u32) -> Option<u32> {
        let number = self.lists[class].first()?;
        self.unlist(class, number);
        self.bytes_out -= bytes_out_of(number, class);
        self.subtract(number);
        ARENA.set_entry(number, Entry::new(to, class));
        Some(number)
    }

    /// Takes a slab out of the list of its class.
    #[inline]
    pub(super) fn unlist(&mut self, class: usize, number: u32) {
        let before = self.lists[class].take_out(number, &mut self.own);
        self.purging.leave(number, before);
    }

    /// Removes a slab that is in no list from the counts.
    fn subtract(&mut self, number: u32) {
        self.pages.subtract(self.own.slab(number));
        self.count -= 1;
    }

    /// Frees the pages of a slab of which no block is out.
    #[cold]
    #[inline(never)]
    pub(super) fn release(&mut self, number: u32, class: usize) {
        self.unlist(class, number);
        self.return_to_arena(number);
    }

    /// Frees the pages of a slab that is in no list and of which no block is out.
    pub(super) fn return_to_arena(&mut self, number: u32) {
        self.subtract(number);
        ARENA.set_entry(number, Entry::NONE);
        if let Some(mut arena) = ARENA.lock() {
            arena.remove_slab(number);
        }
    }

    /// Puts blocks of a class that begin in one page back into their slab. Aborts if they are no blocks of this heap
    /// and class that are out.
    pub(super) fn put_back(&mut self, class: usize, blocks: &Chain) {
        let Some(first) = NonNull::new(blocks.first) else { return };
        let Some(number) = ARENA.number_of(first.addr().get()) else { corrupted(first) };
        let entry = ARENA.entry(number);
        if entry == Entry::new(self.own.owner, DISSOLVED) {
            return self.put_back_dissolved(number, class, first);
        }
        if entry != Entry::new(self.own.owner, class) || !is_block(first.addr().get() % SLAB, class) {
            corrupted(first);
        }
        self.put_back_into(number, class, blocks);
    }

    /// Does the same as [`Slabs::put_back`] for blocks in the slab of a number, which is of that class and this heap's.
    #[inline(always)]
    pub(super) fn put_back_into(&mut self, number: u32, class: usize, blocks: &Chain) {
        let slab = self.own.slab(number);
        // SAFETY: the slab begins there, and the blocks are free.
        let mut put = |slab: &mut Slab| unsafe { slab.put(ARENA.start_of(number), blocks, &mut self.pages) };
        if let Some(first) = NonNull::new(blocks.first)
            && (slab.class() != class || put(slab).is_err())
        {
            corrupted(first);
        }
        let is_empty = ARENA.blocks_out(number).remove(blocks.count);
        self.bytes_out -= blocks.count as usize * size_of_class(class);
        if !slab.node.is_listed() {
            self.lists[class].push(number, &mut self.own);
        } else if is_empty && self.lists[class].has_others(number, &mut self.own) {
            self.release(number, class);
        }
    }

    /// Frees the slabs of which no block is out, until `is_wanted`.
    pub(super) fn release_empty(&mut self, is_wanted: &dyn Fn() -> bool) {
        for class in 0..CLASSES {
            let mut next = self.lists[class].first();
            while let Some(number) = next
                && !is_wanted()
            {
                next = self.own.slab(number).node.next();
                if ARENA.blocks_out(number).count() == 0 {
                    self.release(number, class);
                }
            }
        }
    }

    /// Returns the first slab of each list.
    pub(super) fn firsts(&self) -> impl Iterator<Item = u32> + use<> {
        let lists: [Option<u32>; CLASSES] = core::array::from_fn(|class| self.lists[class].first());
        lists.into_iter().chain(self.dissolved.firsts()).flatten()
    }

    /// Returns the number of slabs.
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

/// Returns the bytes of the blocks of a slab that are out.
pub(super) fn bytes_out_of(number: u32, class: usize) -> usize {
    ARENA.blocks_out(number).count() as usize * size_of_class(class)
}
