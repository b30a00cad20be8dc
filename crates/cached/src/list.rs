//! A thread's list of free blocks of one class.

use core::ptr::{NonNull, null_mut};

use crate::classes::{SMALL_CLASSES, size_of_class};
use crate::links::{Beside, Key, Links};
use crate::slab::PAGE;

/// Free blocks of one class. It holds more as a program asks for more of them, and fewer as it only frees: what lies in lists
/// keeps its pages.
pub(crate) struct List {
    first: *mut u8,
    /// How many more fit; below 0 half of them go back to their slabs.
    room: i32,
    /// How many there may be.
    limit: u16,
    /// Whether it was filled since it was too long last.
    was_filled: bool,
    /// How often a block was asked for while the class was closed.
    asked: u8,
}

impl List {
    /// An empty list for blocks of `class`.
    pub(crate) const fn new(class: usize) -> List {
        let limit = fewest(class);
        List { first: null_mut(), room: limit as i32, limit, was_filled: false, asked: 0 }
    }

    /// The first block, which stays.
    #[inline(always)]
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// Takes the first block of a list of small ones.
    ///
    /// # Safety
    /// The key is the process's.
    #[inline(always)]
    pub(crate) unsafe fn pop_small(&mut self, key: Key) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        // SAFETY: what is in the list is free, and small.
        self.first = unsafe { key.next(block.as_ptr()) };
        self.room += 1;
        Some(block)
    }

    /// Takes the first block of a list of longer ones.
    ///
    /// # Safety
    /// The table is the process's.
    #[inline(always)]
    pub(crate) unsafe fn pop_medium(&mut self, table: Beside) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        // SAFETY: what is in the list is free, and longer.
        self.first = unsafe { table.next(block.as_ptr()) };
        self.room += 1;
        Some(block)
    }

    /// Takes the first block.
    ///
    /// # Safety
    /// The links are the class's.
    pub(crate) unsafe fn pop(&mut self, links: Links) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        unsafe {
            match links {
                Links::Inside(key) => self.pop_small(key),
                Links::Beside(table) => self.pop_medium(table),
            }
        }
    }

    /// A block that is linked to the first has become the first itself; returns whether there are too many now.
    #[inline(always)]
    pub(crate) fn pushed(&mut self, block: *mut u8) -> bool {
        self.first = block;
        self.room -= 1;
        self.room < 0
    }

    /// A block is asked for, and the list is empty: does the class have slabs of its own?
    #[inline]
    pub(crate) fn opens(&mut self) -> bool {
        /// How many blocks a thread asks for before: a page for each class that is hardly used would be most of what a small
        /// program needs.
        const CLOSED: u8 = 8;
        self.asked = (self.asked + 1).min(CLOSED + 1);
        self.asked > CLOSED
    }

    /// Whether one more fits.
    pub(crate) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// How many blocks it has.
    pub(crate) fn length(&self) -> u32 {
        (i32::from(self.limit) - self.room) as u32
    }

    /// How many blocks the list has whose bytes these are; whatever they are, no more than a list can have.
    #[cfg(not(all(loom, test)))]
    pub(crate) fn length_in(bytes: &[u8; size_of::<List>()]) -> u16 {
        let (limit, room) = (core::mem::offset_of!(List, limit), core::mem::offset_of!(List, room));
        let limit = u16::from_ne_bytes(core::array::from_fn(|byte| bytes[limit + byte]));
        let room = i32::from_ne_bytes(core::array::from_fn(|byte| bytes[room + byte]));
        u16::try_from(i32::from(limit).saturating_sub(room)).unwrap_or(0)
    }

    /// It is empty and to be filled: with how many blocks? More may lie in it from now on.
    pub(crate) fn want(&mut self, class: usize) -> u32 {
        self.was_filled = true;
        let wanted = self.limit.min(most_at_once(class));
        self.set_limit((self.limit * 2).min(most(class)));
        u32::from(wanted)
    }

    /// So many blocks, linked from `first` on, are in the empty list now.
    pub(crate) fn fill(&mut self, first: *mut u8, count: u32) {
        self.first = first;
        self.room -= count as i32;
    }

    /// It is too long: how many may stay? Fewer may lie in it from now on, unless it was filled meanwhile.
    pub(crate) fn keep(&mut self, class: usize) -> u32 {
        if !core::mem::take(&mut self.was_filled) {
            self.set_limit((self.limit / 2).max(fewest(class)));
        }
        u32::from(self.limit) / 2
    }

    /// Nobody uses it for now: as few may lie in it as at first.
    pub(crate) fn rest(&mut self, class: usize) {
        self.set_limit(fewest(class));
        self.asked = 0;
    }

    /// Takes all blocks off but for the first `kept`, and returns the first of those.
    ///
    /// # Safety
    /// The links are the class's, and there are at least `kept` blocks.
    pub(crate) unsafe fn cut(&mut self, links: Links, kept: u32) -> *mut u8 {
        self.room = i32::from(self.limit) - kept as i32;
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
        self.room += i32::from(limit) - i32::from(self.limit);
        self.limit = limit;
    }
}

/// How many blocks a list may hold at first, and at least: a KiB of small ones.
const fn fewest(class: usize) -> u16 {
    blocks_in(1 << 10, class, 2, 32)
}

/// How many blocks a list may hold at most.
const fn most(class: usize) -> u16 {
    blocks_in(16 << 10, class, 2, 256)
}

/// How many blocks an empty list gets at most: of small ones as many as a page has, so that what is not needed is not touched.
const fn most_at_once(class: usize) -> u16 {
    if class < SMALL_CLASSES { blocks_in(PAGE, class, 1, 256) } else { most(class) }
}

/// How many blocks of a class are so many bytes, but not fewer than `least` nor more than `most`.
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
