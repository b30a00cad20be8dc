//! The slabs of a heap: what its owner and, while it is absent, other threads take blocks from and put blocks back to.

use core::ptr::NonNull;

use crate::classes::CLASSES;
use crate::damage::damaged;
use crate::ground::GROUND;
use crate::links::{Chain, Links};
use crate::slab::{Idle, PAGE, SLAB, Slab, is_block};
use crate::slab_list::{Node, Nodes, SlabList};
use crate::world::is_single_threaded;

use super::{Entry, Heap};

/// The slabs of a heap. Blocks that are out, that is with the program, in a thread's list or on their way, are not in it.
pub(crate) struct Slabs {
    /// For each class, the slabs that have blocks to give.
    lists: [SlabList; CLASSES],
    own: OwnSlabs,
    idle: Idle,
    count: u32,
}

/// The slabs whose entries have the number of the heap; the value is behind the heap's lock.
struct OwnSlabs {
    owner: u32,
}

impl OwnSlabs {
    fn slab(&mut self, number: u32) -> &mut Slab {
        // SAFETY: what is known of a heap's slabs is used behind the heap's lock only, which is held by whoever has this
        // value; the numbers come from the heap's lists and from entries with its owner.
        unsafe { &mut *GROUND.slab(number) }
    }
}

impl Nodes for OwnSlabs {
    fn node(&mut self, number: u32) -> &mut Node {
        &mut self.slab(number).node
    }
}

impl Slabs {
    /// No slabs of `owner`.
    pub(super) const fn none_of(owner: u32) -> Slabs {
        Slabs {
            lists: [SlabList::EMPTY; CLASSES],
            own: OwnSlabs { owner },
            idle: Idle { idle: 0, regretted: 0 },
            count: 0,
        }
    }

    pub(super) fn owner(&self) -> u32 {
        self.own.owner
    }

    /// Takes blocks of a class, up to `wanted` but at least one. `None` when there is no memory.
    pub(super) fn take(&mut self, class: usize, links: Links, wanted: u32) -> Option<(NonNull<u8>, Chain)> {
        loop {
            let number = match self.lists[class].first() {
                Some(number) => number,
                None => self.acquire(class)?,
            };
            let slab = self.own.slab(number);
            // SAFETY: the slab begins there, and the links are its class's.
            let chain = unsafe { slab.take(GROUND.start_of(number), links, wanted, &mut self.idle) };
            GROUND.blocks_out(number).add(chain.count);
            if slab.is_exhausted() {
                self.lists[class].remove(number, &mut self.own);
            }
            if let Some(first) = NonNull::new(chain.first) {
                return Some((first, chain));
            }
        }
    }

    /// Gets another slab of a class, one of a heap whose thread has ended or a new one; returns its number.
    fn acquire(&mut self, class: usize) -> Option<u32> {
        let mut ground = GROUND.shared()?;
        let owner = self.own.owner;
        let left = ground.heaps.idle().find_map(|heap| heap.visit()?.give_up(class, owner));
        let number = match left {
            Some(number) => number,
            None => {
                let (number, resident) = ground.place_slab()?;
                // SAFETY: the slab is new, thus no other heap's.
                unsafe { GROUND.slab(number).write(Slab::new(class, resident)) };
                GROUND.set_entry(number, Entry::new(owner, class));
                number
            }
        };
        drop(ground);
        self.count += 1;
        self.idle.idle += self.own.slab(number).idle_pages();
        self.lists[class].push(number, &mut self.own);
        Some(number)
    }

    /// Gives a slab of `class` that has blocks to give to another heap; returns its number. Its entry names the other heap
    /// before a visitor of this one can find blocks of the slab in the inbox.
    fn give_up(&mut self, class: usize, to: u32) -> Option<u32> {
        let number = self.lists[class].first()?;
        self.forget(number, class);
        GROUND.set_entry(number, Entry::new(to, class));
        Some(number)
    }

    /// Removes a listed slab from what this heap has.
    fn forget(&mut self, number: u32, class: usize) {
        self.lists[class].remove(number, &mut self.own);
        self.idle.idle = self.idle.idle.saturating_sub(self.own.slab(number).idle_pages());
        self.count -= 1;
    }

    /// Gives back the pages of a slab of which nothing is in use.
    fn release(&mut self, number: u32, class: usize) {
        self.forget(number, class);
        GROUND.set_entry(number, Entry::NONE);
        if let Some(mut ground) = GROUND.shared() {
            ground.remove_slab(number);
        }
    }

    /// Puts blocks of a class that begin in one page back to their slab. Ends the process if they are no blocks of this
    /// heap and class that are out.
    pub(super) fn put_back(&mut self, class: usize, blocks: &Chain) {
        let Some(first) = NonNull::new(blocks.first) else { return };
        let number = number_of(first);
        if GROUND.entry(number) != Entry::new(self.own.owner, class) || !is_block(first.addr().get() % SLAB, class) {
            damaged(first);
        }
        let slab = self.own.slab(number);
        // SAFETY: the slab begins there, and its blocks come here when the program has freed them.
        if slab.class() != class || unsafe { slab.put(GROUND.start_of(number), blocks, &mut self.idle) }.is_err() {
            damaged(first);
        }
        let is_unused = GROUND.blocks_out(number).remove(blocks.count);
        if !slab.node.is_listed() {
            self.lists[class].push(number, &mut self.own);
        } else if is_unused && slab.node.has_neighbours() {
            self.release(number, class);
        }
    }

    /// Gives up the slabs of which nothing is in use, until `is_wanted`.
    pub(super) fn release_unused(&mut self, is_wanted: impl Fn() -> bool) {
        for class in 0..CLASSES {
            let mut next = self.lists[class].first();
            while let Some(number) = next
                && !is_wanted()
            {
                next = self.own.slab(number).node.next();
                if GROUND.blocks_out(number).count() == 0 {
                    self.release(number, class);
                }
            }
        }
    }

    /// Whether so many pages are in memory for nothing that they are given back.
    #[inline]
    pub(super) fn has_much_idle(&self) -> bool {
        /// Pages that are always kept: 256 KiB.
        const LEAST: u32 = 64;
        let pages = self.count * (SLAB / PAGE) as u32;
        // Where there are other threads, giving pages back interrupts them.
        let part = if is_single_threaded() { 32 } else { 2 };
        self.idle.idle > LEAST.max(pages / part) + self.idle.regretted
    }

    /// Gives the pages of slabs back that are in memory for nothing, until `is_wanted`.
    #[cold]
    pub(super) fn return_idle(&mut self, is_wanted: impl Fn() -> bool) {
        /// Pages given back too early that count at most: 16 MiB.
        const MOST: u32 = 4096;
        let mut returned = 0;
        for class in 0..CLASSES {
            let mut next = self.lists[class].first();
            while let Some(number) = next
                && !is_wanted()
            {
                let slab = self.own.slab(number);
                // SAFETY: the slab begins there.
                returned += unsafe { slab.return_idle(GROUND.start_of(number)) };
                next = slab.node.next();
            }
        }
        self.idle.idle = if is_wanted() { self.idle.idle.saturating_sub(returned) } else { 0 };
        self.idle.regretted = (self.idle.regretted - self.idle.regretted / 8).min(MOST);
        GROUND.see_returned(returned as usize * PAGE);
    }
}

/// The number of the slab of a block that came from a list.
pub(super) fn number_of(block: NonNull<u8>) -> u32 {
    GROUND.number_of(block.addr().get()).unwrap_or_else(|| damaged(block))
}

/// The entry of the slab of a block that came from a list, which has the block.
pub(super) fn entry_of(block: NonNull<u8>) -> Entry {
    let entry = GROUND.entry(number_of(block));
    if entry == Entry::NONE || !is_block(block.addr().get() % SLAB, entry.class()) {
        damaged(block);
    }
    entry
}

impl Heap {
    /// The slabs, for another thread than the owner, if no thread is at work on them.
    pub(super) fn visit(&self) -> Option<crate::owner_lock::Visitor<'_, Slabs>> {
        self.slabs.try_lock()
    }
}
