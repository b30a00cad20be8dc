//! A slab whose free blocks know nothing: which they are is told by bits that lie apart.
//!
//! Pages are opened, that is their blocks can be chosen, when there is too little to choose among, and closed when they are given back to
//! the system. A block is free (its page is open), or out: with the program, or waiting.

use core::ptr::NonNull;

use heapwright_os::{abort, page_size, purge};

use super::draw::Draw;
use crate::classes::{GRAIN, size_of_class};
use crate::slab::{NO_SLAB, SLAB};

/// How many blocks a slab has at most, and the words of as many bits.
pub(super) const MOST_BLOCKS: usize = SLAB / GRAIN;
pub(super) const WORDS: usize = MOST_BLOCKS / 64;

/// How many pages a slab has at most.
const MOST_PAGES: usize = 16;

/// What is known of a slab.
pub(super) struct Slab {
    class: u8,
    /// Whether it stands on its class's shelf: the slabs that have blocks to give.
    pub(super) shelved: bool,
    blocks: u16,
    /// How many blocks are free, and how many are out.
    open: u16,
    out: u16,
    /// Pages that blocks start in but whose blocks are not free.
    closed: u16,
    /// Pages that may be in memory.
    resident: u16,
    /// Its neighbours on the shelf.
    pub(super) next: u32,
    pub(super) previous: u32,
    /// How many of the blocks that overlap each page are out.
    out_in_page: [u16; MOST_PAGES],
    /// The free blocks.
    free: [u64; WORDS],
}

impl Slab {
    /// A slab of which nothing has been used; its blocks take up at most `length` bytes.
    pub(super) fn new(class: usize, length: usize) -> Slab {
        let size = size_of_class(class);
        let blocks = length / size;
        let closed = (0..blocks).fold(0, |pages, block| pages | 1 << (block * size / page_size()));
        Slab {
            class: class as u8,
            shelved: false,
            blocks: blocks as u16,
            open: 0,
            out: 0,
            closed,
            resident: 0,
            next: NO_SLAB,
            previous: NO_SLAB,
            out_in_page: [0; MOST_PAGES],
            free: [0; WORDS],
        }
    }

    pub(super) fn class(&self) -> usize {
        usize::from(self.class)
    }

    /// Whether there is a block to give.
    pub(super) fn has_room(&self) -> bool {
        self.open != 0 || self.closed != 0
    }

    /// Whether no block is out.
    pub(super) fn is_unused(&self) -> bool {
        self.out == 0
    }

    /// How many pages are in memory for nothing.
    pub(super) fn idle_pages(&self) -> u32 {
        (0..pages()).filter(|&page| self.is_idle(page)).count() as u32
    }

    fn is_idle(&self, page: usize) -> bool {
        self.out_in_page[page] == 0 && self.resident & 1 << page != 0
    }

    /// Takes a block, of those that can be chosen the one that `draw` says; returns its number. There is room.
    pub(super) fn take(&mut self, draw: &mut Draw, idle: &mut u32) -> usize {
        while u32::from(self.open) < draw.least_choice() && self.closed != 0 {
            let rank = draw.below(self.closed.count_ones() as usize);
            self.open(select(u64::from(self.closed), rank));
        }
        let number = self.choose(draw.below(usize::from(self.open)));
        self.free[number / 64] &= !(1 << (number % 64));
        self.open -= 1;
        self.out += 1;
        for page in self.pages_of(number) {
            *idle = idle.saturating_sub(u32::from(self.is_idle(page)));
            self.resident |= 1 << page;
            self.out_in_page[page] += 1;
        }
        number
    }

    /// The free block before which there are `rank` others.
    fn choose(&self, mut rank: usize) -> usize {
        for (at, &word) in self.free.iter().enumerate() {
            let here = word.count_ones() as usize;
            if rank < here {
                return at * 64 + select(word, rank);
            }
            rank -= here;
        }
        abort()
    }

    /// Puts a block back that was out.
    pub(super) fn put(&mut self, number: usize, idle: &mut u32) {
        self.free[number / 64] |= 1 << (number % 64);
        self.open += 1;
        self.out -= 1;
        for page in self.pages_of(number) {
            self.out_in_page[page] -= 1;
            *idle += u32::from(self.is_idle(page));
        }
    }

    /// Gives the pages back that are in memory for nothing; returns how many bytes.
    ///
    /// # Safety
    /// The slab begins at `start`.
    pub(super) unsafe fn return_idle(&mut self, start: NonNull<u8>) -> usize {
        let (mut page, mut returned) = (0, 0);
        while page < pages() {
            let run = (page..pages()).take_while(|&page| self.is_idle(page)).count();
            // SAFETY: no block that is out overlaps these pages.
            if run != 0 && unsafe { purge(start.add(page * page_size()), run * page_size()) }.is_ok() {
                (page..page + run).for_each(|page| self.close(page));
                returned += run * page_size();
            }
            page += run.max(1);
        }
        returned
    }

    /// Makes the blocks that start in a closed page free.
    fn open(&mut self, page: usize) {
        for number in self.blocks_of(page) {
            self.free[number / 64] |= 1 << (number % 64);
            self.open += 1;
        }
        self.closed &= !(1 << page);
    }

    /// Notes that a page has been given back: of the blocks that start in it, none is out.
    fn close(&mut self, page: usize) {
        self.resident &= !(1 << page);
        if self.closed & 1 << page != 0 {
            return;
        }
        for number in self.blocks_of(page) {
            self.free[number / 64] &= !(1 << (number % 64));
            self.open -= 1;
            self.closed |= 1 << page;
        }
    }

    /// The blocks that start in a page.
    fn blocks_of(&self, page: usize) -> core::ops::Range<usize> {
        let size = size_of_class(self.class());
        let first_from = |offset: usize| offset.div_ceil(size).min(usize::from(self.blocks));
        first_from(page * page_size())..first_from((page + 1) * page_size())
    }

    /// The pages that a block overlaps.
    fn pages_of(&self, number: usize) -> core::ops::RangeInclusive<usize> {
        let size = size_of_class(self.class());
        number * size / page_size()..=(number * size + size - 1) / page_size()
    }
}

/// How many pages a slab has.
fn pages() -> usize {
    (SLAB / page_size()).max(1)
}

/// The set bit before which there are `rank` others.
fn select(mut word: u64, rank: usize) -> usize {
    (0..rank).for_each(|_| word &= word - 1);
    word.trailing_zeros() as usize
}
