//! The links of free blocks.
//!
//! A small block contains its link. The link of a longer block is in a side table with one word per KiB of pages: such
//! a block is not touched before its first use by the program, and a list of them keeps no pages in memory.

use core::ops::Range;
use core::ptr::{NonNull, null_mut};

use heapwright_os::{PageRange, page_size};

use crate::classes::{GRAIN, PAGE, SLAB, SMALL, is_start, size_of_class};
use crate::platform::touch;

/// The per-process secret with which the links in small blocks are XORed, so that a leaked link does not reveal an
/// address.
#[derive(Clone, Copy)]
pub(crate) struct Key(pub(crate) usize);

impl Key {
    /// Returns the block behind this one in its list; null behind the last.
    ///
    /// # Safety
    /// `block` is small, free and in a list.
    #[inline(always)]
    pub(crate) unsafe fn next(self, block: *mut u8) -> *mut u8 {
        // SAFETY: the first word of a small free block is its link.
        unsafe { self.read(block, 0) }
    }

    /// Reads the address in a word of a free block.
    ///
    /// # Safety
    /// `block` is free and has that word.
    #[inline(always)]
    pub(crate) unsafe fn read(self, block: *mut u8, word: usize) -> *mut u8 {
        touch(block);
        // SAFETY: the caller's promise; blocks are aligned to 16.
        unsafe { block.cast::<*mut u8>().add(word).read() }.map_addr(|address| address ^ self.0)
    }

    /// Links a free block to `next`.
    ///
    /// # Safety
    /// `block` is small and free.
    #[inline(always)]
    pub(crate) unsafe fn link(self, block: *mut u8, next: *mut u8) {
        // SAFETY: as above; blocks are at least 16 bytes long.
        unsafe { self.write(block, 0, next) }
    }

    /// Writes an address into a word of a free block.
    ///
    /// # Safety
    /// As [`Key::read`].
    #[inline(always)]
    pub(crate) unsafe fn write(self, block: *mut u8, word: usize, address: *mut u8) {
        touch(block);
        // SAFETY: the caller's promise; blocks are aligned to 16.
        unsafe { block.cast::<*mut u8>().add(word).write(address.map_addr(|address| address ^ self.0)) }
    }
}

/// The side table: its address, less the offset that corresponds to the address of the pages.
#[derive(Clone, Copy)]
pub struct SideTable(*mut u8);

impl SideTable {
    /// The bytes of pages per link: no two blocks longer than [`SMALL`] begin in the same ones.
    const STEP: usize = SMALL;

    /// No table.
    pub(crate) const NOWHERE: SideTable = SideTable(null_mut());

    /// Returns the bytes of the table for `room` bytes of pages.
    pub(crate) const fn length(room: usize) -> usize {
        room / SideTable::STEP * size_of::<*mut u8>()
    }

    /// Returns the table at `table` for pages from `base` on, a multiple of the step.
    pub(crate) fn new(table: *mut u8, base: usize) -> SideTable {
        SideTable(table.wrapping_sub(SideTable::length(base)))
    }

    /// Returns the pages of the table for a `range` of pages, given as offsets from their base, as far as they contain
    /// only words for the hole around it.
    pub(crate) fn pages_within(self, base: usize, range: Range<usize>, hole: Range<usize>) -> Option<PageRange> {
        let covered = page_size() / size_of::<*mut u8>() * SideTable::STEP;
        let first = (range.start / covered).max(hole.start.div_ceil(covered));
        let end = range.end.div_ceil(covered).min(hole.end / covered);
        let length = end.checked_sub(first).filter(|&pages| pages != 0)? * page_size();
        let start = self.0.wrapping_add(SideTable::length(base + first * covered));
        Some(PageRange { start: NonNull::new(start)?, length })
    }

    /// Returns the word of a block, or of another address in the pages that is a multiple of the step.
    pub fn word(self, block: *mut u8) -> *mut usize {
        self.place(block).cast()
    }

    #[inline(always)]
    fn place(self, block: *mut u8) -> *mut *mut u8 {
        self.0.wrapping_add(SideTable::length(block.addr())).cast()
    }

    /// As [`Key::next`].
    ///
    /// # Safety
    /// `block` is longer than small, free and in a list.
    #[inline(always)]
    pub(crate) unsafe fn next(self, block: *mut u8) -> *mut u8 {
        touch(block);
        // SAFETY: blocks lie in the pages, for all of which there are links.
        unsafe { self.place(block).read() }
    }

    /// As [`Key::link`].
    ///
    /// # Safety
    /// `block` is longer than small and free.
    #[inline(always)]
    pub(crate) unsafe fn link(self, block: *mut u8, next: *mut u8) {
        touch(block);
        // SAFETY: as above.
        unsafe { self.place(block).write(next) }
    }
}

/// The place of the links of a class.
#[derive(Clone, Copy)]
pub(crate) enum Links {
    /// In the blocks.
    InBlock(Key),
    /// In the side table.
    SideTable(SideTable),
}

impl Links {
    /// As [`Key::next`].
    ///
    /// # Safety
    /// `block` is a free block of the class, in a list.
    #[inline(always)]
    pub(crate) unsafe fn next(self, block: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Links::InBlock(key) => key.next(block),
                Links::SideTable(table) => table.next(block),
            }
        }
    }

    /// As [`Key::link`].
    ///
    /// # Safety
    /// `block` is a free block of the class.
    #[inline(always)]
    pub(crate) unsafe fn link(self, block: *mut u8, next: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Links::InBlock(key) => key.link(block, next),
                Links::SideTable(table) => table.link(block, next),
            }
        }
    }
}

/// A list of `count` free blocks, from the first to the last.
pub(crate) struct Chain {
    pub(crate) first: *mut u8,
    pub(crate) last: *mut u8,
    pub(crate) count: u32,
    /// The place of the last block's link.
    pub(crate) end: Links,
}

impl Chain {
    pub(crate) const EMPTY: Chain =
        Chain { first: null_mut(), last: null_mut(), count: 0, end: Links::InBlock(Key(0)) };

    /// Returns a chain of one block.
    pub(crate) fn one(block: NonNull<u8>, links: Links) -> Chain {
        Chain { first: block.as_ptr(), last: block.as_ptr(), count: 1, end: links }
    }

    /// Adds `count` blocks from `first` to `last`, which are linked.
    ///
    /// # Safety
    /// All blocks are free, and of the class of the links.
    #[inline]
    pub(crate) unsafe fn append(&mut self, first: *mut u8, last: *mut u8, count: u32) {
        // SAFETY: as this function requires.
        unsafe {
            if self.first.is_null() {
                self.first = first;
            } else {
                self.end.link(self.last, first);
            }
            self.end.link(last, null_mut());
        }
        self.last = last;
        self.count += count;
    }

    /// Splits off the first blocks of a list that begin in one page and, if they are more than one, end there; returns
    /// them and the block behind them.
    ///
    /// # Safety
    /// `first` is a free block of `class`, whose links these are, and in a list.
    #[inline(always)]
    pub(crate) unsafe fn in_one_page(first: NonNull<u8>, links: Links, class: usize) -> (Chain, *mut u8) {
        /// More blocks than a page has: the walk ends even if a corrupted list is a circle.
        const MOST: u32 = (PAGE / GRAIN) as u32 + 1;
        let start = first.addr().get() / PAGE * PAGE;
        let Some(last) = PAGE.checked_sub(size_of_class(class)) else {
            // SAFETY: the caller's promise.
            return (Chain::one(first, links), unsafe { links.next(first.as_ptr()) });
        };
        let lies_in_page = |block: *mut u8| block.addr().wrapping_sub(start) <= last;
        let is_next = |block: *mut u8| lies_in_page(block) && is_start(block.addr() % SLAB, class);
        let mut chain = Chain::one(first, links);
        // SAFETY: the caller's promise.
        let mut next = unsafe { links.next(chain.first) };
        if lies_in_page(chain.first) {
            while is_next(next) && chain.count < MOST {
                chain.last = next;
                chain.count += 1;
                // SAFETY: a block of the class that is in the list.
                next = unsafe { links.next(next) };
            }
        }
        (chain, next)
    }
}
