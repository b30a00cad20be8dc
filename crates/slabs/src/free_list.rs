//! The free list of a class in a thread cache.

use core::ptr::{NonNull, null_mut};

use crate::classes::{CLASSES, GRAIN, PAGE, SMALL_CLASSES, size_of_class};
use crate::links::{Key, Links, SideTable};

/// Free blocks of one class. The capacity grows while the program allocates and shrinks while it only frees, because
/// blocks in a list keep their pages in memory.
pub(crate) struct FreeList {
    first: *mut u8,
    /// The number of blocks that still fit. Below 0 the latest blocks are flushed.
    room: i16,
    /// The capacity in blocks.
    limit: u16,
    /// Whether the list was filled since it last overflowed.
    was_filled: bool,
    /// How often in a row it overflowed while the block that was its first after the last time was still there, up to
    /// the last index of [`FLUSHED`].
    overflows: u8,
    /// The mark of that block.
    kept: u8,
    /// The number of requests so far, up to the limit of [`FreeList::count_request`].
    requests: u8,
}

impl FreeList {
    /// Returns an empty list for blocks of `class`.
    pub(crate) const fn new(class: usize) -> FreeList {
        let limit = CAPACITIES[class].fewest;
        FreeList { first: null_mut(), room: limit as i16, limit, was_filled: false, overflows: 0, kept: 0, requests: 0 }
    }

    /// Returns the first block, which stays; null for none.
    #[inline(always)]
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// Pops the first block of a list of a small class.
    ///
    /// # Safety
    /// The key is the process's.
    #[inline(always)]
    pub(crate) unsafe fn pop_small(&mut self, key: Key) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        // SAFETY: the list's blocks are free, and small.
        self.first = unsafe { key.next(block.as_ptr()) };
        self.room += 1;
        Some(block)
    }

    /// Pops the first block of a list of a longer class.
    ///
    /// # Safety
    /// The table is the process's.
    #[inline(always)]
    pub(crate) unsafe fn pop_medium(&mut self, table: SideTable) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        // SAFETY: the list's blocks are free, and longer.
        self.first = unsafe { table.next(block.as_ptr()) };
        self.room += 1;
        Some(block)
    }

    /// Pops the first block.
    ///
    /// # Safety
    /// The links are the class's.
    pub(crate) unsafe fn pop(&mut self, links: Links) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        unsafe {
            match links {
                Links::InBlock(key) => self.pop_small(key),
                Links::SideTable(table) => self.pop_medium(table),
            }
        }
    }

    /// Makes a block that is linked to the first the first itself; returns whether the list overflows.
    #[inline(always)]
    pub(crate) fn pushed(&mut self, block: *mut u8) -> bool {
        self.first = block;
        self.room -= 1;
        self.room < 0
    }

    /// Counts a request that found the list empty; returns whether the class is filled from slabs of its own.
    #[inline]
    pub(crate) fn count_request(&mut self) -> bool {
        /// The number of requests that a substitute serves before: one page for each class that is hardly used would be
        /// most of the memory of a small program.
        const CLOSED: u8 = 8;
        self.requests = (self.requests + 1).min(CLOSED + 1);
        self.requests > CLOSED
    }

    /// Returns whether one more block fits.
    pub(crate) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Returns the number of blocks.
    pub(crate) fn length(&self) -> u32 {
        (i32::from(self.limit) - i32::from(self.room)) as u32
    }

    /// Decodes the number of blocks of the list with these bytes: at most the most that a list can have.
    #[cfg(not(loom))]
    pub(crate) fn length_in(bytes: &[u8; size_of::<FreeList>()]) -> u16 {
        let (limit, room) = (core::mem::offset_of!(FreeList, limit), core::mem::offset_of!(FreeList, room));
        let limit = u16::from_ne_bytes(core::array::from_fn(|byte| bytes[limit + byte]));
        let room = i16::from_ne_bytes(core::array::from_fn(|byte| bytes[room + byte]));
        u16::try_from(i32::from(limit) - i32::from(room)).unwrap_or(0)
    }

    /// Returns the number of blocks to fill the empty list with.
    pub(crate) fn begin_filling(&mut self, class: usize) -> u32 {
        self.was_filled = true;
        u32::from(self.limit.min(CAPACITIES[class].at_once))
    }

    /// Returns the bytes by which [`FreeList::grow`] adds to the capacity.
    pub(crate) fn growth(&self, class: usize) -> u32 {
        u32::from((self.limit * 2).min(CAPACITIES[class].most) - self.limit) * size_of_class(class) as u32
    }

    /// Doubles the capacity, up to the greatest one.
    pub(crate) fn grow(&mut self, class: usize) {
        self.set_limit((self.limit * 2).min(CAPACITIES[class].most));
    }

    /// Halves the capacity, unless the list was filled since it last overflowed or was looked at here; returns by how
    /// many bytes it is less.
    pub(crate) fn shrink_if_unused(&mut self, class: usize) -> u32 {
        if core::mem::take(&mut self.was_filled) { 0 } else { self.halve(class, CAPACITIES[class].fewest) }
    }

    /// Halves the capacity, down to `least` if it is more than that.
    fn halve(&mut self, class: usize, least: u16) -> u32 {
        let before = self.limit;
        self.set_limit((self.limit / 2).max(least.min(self.limit)));
        u32::from(before - self.limit) * size_of_class(class) as u32
    }

    /// Returns whether it has more blocks than its capacity, which has become less.
    pub(crate) fn is_over_capacity(&self) -> bool {
        self.room < 0
    }

    /// Returns the capacity in blocks.
    pub(crate) fn capacity(&self) -> u32 {
        self.limit.into()
    }

    /// Fills the empty list with `count` blocks that are linked from `first` on.
    pub(crate) fn fill(&mut self, first: *mut u8, count: u32) {
        self.first = first;
        self.room -= count as i16;
    }

    /// Cuts the latest blocks off the list, which overflows: at least `fewest`, and more while the program only frees.
    /// Calls `observe` with each. Returns the first of them.
    ///
    /// # Safety
    /// The links are the class's.
    #[inline]
    pub(crate) unsafe fn cut_latest(&mut self, links: Links, fewest: u32, mut observe: impl FnMut(*mut u8)) -> *mut u8 {
        let left = u32::from((self.limit / 4).max(1));
        let most = self.length().saturating_sub(left).max(1);
        let count_after = |overflows: u8| FLUSHED[usize::from(overflows)].max(fewest).min(most);
        let (mut cut, mut count, mut last) = (1, count_after(self.overflows), self.first);
        let mut only_frees = false;
        // SAFETY: blocks in the list are free, and there are at least that many.
        let next = unsafe {
            loop {
                observe(last);
                let next = links.next(last);
                if !only_frees && mark_of(next) == self.kept {
                    only_frees = true;
                    self.overflows = (self.overflows + 1).min(FLUSHED.len() as u8 - 1);
                    count = count_after(self.overflows);
                }
                if cut == count {
                    break next;
                }
                last = next;
                cut += 1;
            }
        };
        if !only_frees {
            self.overflows = 0;
        }
        // SAFETY: as above.
        unsafe { links.link(last, null_mut()) };
        self.kept = mark_of(next);
        self.room += count as i16;
        core::mem::replace(&mut self.first, next)
    }

    /// Halves the capacity while the program only frees: most blocks leave then. Returns by how many bytes it is less.
    pub(crate) fn shrink_if_only_freed(&mut self, class: usize) -> u32 {
        self.was_filled = false;
        if self.overflows >= SURELY { self.halve(class, CAPACITIES[class].worth_a_flush) } else { 0 }
    }

    /// Resets the capacity and the count of requests.
    pub(crate) fn reset(&mut self, class: usize) {
        self.set_limit(CAPACITIES[class].fewest);
        self.requests = 0;
    }

    /// Cuts the list behind the first `kept` blocks; returns the first of the others.
    ///
    /// # Safety
    /// The links are the class's, and there are at least `kept` blocks.
    pub(crate) unsafe fn cut(&mut self, links: Links, kept: u32) -> *mut u8 {
        self.room = (i32::from(self.limit) - kept as i32) as i16;
        if kept == 0 {
            return core::mem::replace(&mut self.first, null_mut());
        }
        let mut last = self.first;
        // SAFETY: blocks in the list are free.
        unsafe {
            for _ in 1..kept {
                last = links.next(last);
            }
            let rest = links.next(last);
            links.link(last, null_mut());
            rest
        }
    }

    fn set_limit(&mut self, limit: u16) {
        self.room += (i32::from(limit) - i32::from(self.limit)) as i16;
        self.limit = limit;
    }
}

/// The blocks that leave a list that overflows, by how often in a row it did so while the program only freed. A program
/// that replaces blocks at random looks like that once in three times, hence few more before the fourth.
const FLUSHED: [u32; 7] = [2, 2, 2, 2, 4, 8, 16];

/// How often in a row a list overflows before it loses capacity.
const SURELY: u8 = 2;

/// Returns a few bits of the address of a block.
fn mark_of(block: *mut u8) -> u8 {
    (block.addr() / GRAIN) as u8
}

/// The capacities of the list of a class, in blocks.
struct Capacities {
    /// The initial and least one: 1 KiB of small blocks.
    fewest: u16,
    /// What a list keeps while the program only frees: with less, a few small blocks would be flushed every few calls.
    worth_a_flush: u16,
    /// The greatest one. A program that replaces blocks at random fills and empties a list of four blocks every few
    /// calls: 16 KiB would be too little for longer ones.
    most: u16,
    /// The most blocks that an empty list is filled with: those of one page if they are small, so that few untouched
    /// pages are used.
    at_once: u16,
}

/// The capacities of each class. Computed when they are needed, they would take a division each.
const CAPACITIES: [Capacities; CLASSES] = {
    let mut capacities = [const { Capacities::of(0) }; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        capacities[class] = Capacities::of(class);
        class += 1;
    }
    capacities
};

impl Capacities {
    const fn of(class: usize) -> Capacities {
        let fewest = blocks_in(1 << 10, class, 2, 32);
        if class < SMALL_CLASSES {
            let (worth_a_flush, most) = (blocks_in(2 << 10, class, 4, 16), blocks_in(16 << 10, class, 2, 256));
            let worth_a_flush = if worth_a_flush < fewest { fewest } else { worth_a_flush };
            Capacities { fewest, worth_a_flush, most, at_once: blocks_in(PAGE, class, 1, 256) }
        } else {
            let (most, at_once) = (blocks_in(64 << 10, class, 2, 256), blocks_in(16 << 10, class, 1, 256));
            Capacities { fewest, worth_a_flush: fewest, most, at_once }
        }
    }
}

/// Returns the number of blocks of a class in `bytes`, at least `least` and at most `most`.
const fn blocks_in(bytes: usize, class: usize, least: usize, most: usize) -> u16 {
    let blocks = bytes / size_of_class(class);
    (if blocks < least {
        least
    } else if blocks > most {
        most
    } else {
        blocks
    }) as u16
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::classes::class_of;

    const LINKS: Links = Links::InBlock(Key(0));

    /// A program that frees blocks of one class, and the list that they go to.
    struct Program {
        list: FreeList,
        class: usize,
        fewest: u32,
        /// The blocks that it has, each of 16 bytes.
        blocks: Vec<*mut u8>,
    }

    impl Program {
        fn new(size: usize, fewest: u32) -> Program {
            let class = class_of(size);
            let mut list = FreeList::new(class);
            list.set_limit(CAPACITIES[class].most);
            let memory = vec![[0u128; 1]; 4096].leak();
            Program { list, class, fewest, blocks: memory.iter_mut().map(|block| block.as_mut_ptr().cast()).collect() }
        }

        /// Frees blocks until the list overflows; returns how many leave it, and whether it loses capacity.
        fn free_until_overflow(&mut self) -> (u32, bool) {
            // SAFETY: the blocks are free, as are those in the list.
            unsafe {
                loop {
                    let block = self.blocks.pop().unwrap();
                    LINKS.link(block, self.list.first());
                    if self.list.pushed(block) {
                        break;
                    }
                }
                let before = self.list.length();
                let mut next = self.list.cut_latest(LINKS, self.fewest, |_| ());
                let flushed = before - self.list.length();
                let mut linked = 0;
                while !next.is_null() {
                    next = LINKS.next(next);
                    linked += 1;
                }
                assert_eq!(linked, flushed);
                (flushed, self.list.shrink_if_only_freed(self.class) != 0)
            }
        }

        /// Allocates blocks from the list.
        fn allocate(&mut self, blocks: usize) {
            for _ in 0..blocks {
                // SAFETY: the blocks have their links.
                let block = unsafe { self.list.pop(LINKS) };
                self.blocks.insert(0, block.unwrap().as_ptr());
            }
        }
    }

    #[test]
    fn a_program_that_replaces_blocks_flushes_few_at_once_and_its_lists_keep_their_capacity() {
        for fewest in [2, 8] {
            let mut program = Program::new(32, fewest);
            for _ in 0..20 {
                assert_eq!(program.free_until_overflow(), (fewest, false));
                program.allocate(1);
            }
        }
    }

    #[test]
    fn a_program_that_only_frees_flushes_more_from_time_to_time_and_its_lists_lose_capacity() {
        let mut program = Program::new(32, 2);
        let flushed: Vec<(u32, bool)> = (0..6).map(|_| program.free_until_overflow()).collect();
        assert_eq!(flushed, [(2, false), (2, false), (2, true), (2, true), (4, true), (8, false)]);
    }

    #[test]
    fn a_program_that_only_frees_flushes_several_blocks_at_once_in_the_end() {
        let in_the_end = |size| {
            let mut program = Program::new(size, 2);
            (0..30).map(|_| program.free_until_overflow().0).last()
        };
        assert_eq!([32, 208, 1000].map(in_the_end), [Some(16), Some(8), Some(4)]);
        // Few of the longer ones: they keep pages in memory.
        assert!(in_the_end(16 << 10) <= Some(2));
    }
}
