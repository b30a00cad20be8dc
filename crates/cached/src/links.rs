//! The links of free blocks: which block comes behind another in a list.
//!
//! A small block holds its link itself, where the program or a list touches it anyway. The link of a longer block lies beside, in a
//! table with a word for each KiB: such a block is not touched before the program does, and a list of it costs no pages.

use core::ptr::{NonNull, null_mut};

use crate::classes::{GRAIN, SMALL, is_start, size_of_class};
use crate::slab::{PAGE, SLAB};
use crate::world::touch;

/// How the links in small blocks are written: they say nothing to who does not know the process's key.
#[derive(Clone, Copy)]
pub(crate) struct Key(pub(crate) usize);

impl Key {
    /// The block behind this one in its list; null behind the last.
    ///
    /// # Safety
    /// `block` is small, free and in a list.
    #[inline(always)]
    pub(crate) unsafe fn next(self, block: *mut u8) -> *mut u8 {
        touch(block);
        // SAFETY: the first word of a small free block is its link.
        unsafe { block.cast::<*mut u8>().read() }.map_addr(|link| link ^ self.0)
    }

    /// Puts a free block before `next`.
    ///
    /// # Safety
    /// `block` is small and free.
    #[inline(always)]
    pub(crate) unsafe fn link(self, block: *mut u8, next: *mut u8) {
        touch(block);
        // SAFETY: as above; blocks are aligned to 16 and at least that long.
        unsafe { block.cast::<*mut u8>().write(next.map_addr(|next| next ^ self.0)) }
    }
}

/// Where the table is in which longer blocks have their links: its place less what the pages' place comes to.
#[derive(Clone, Copy)]
pub(crate) struct Beside(*mut u8);

impl Beside {
    /// Bytes of pages for which there is one link: no two blocks longer than [`SMALL`] begin in the same ones.
    const STEP: usize = SMALL + GRAIN;

    /// No table.
    pub(crate) const NOWHERE: Beside = Beside(null_mut());

    /// How many bytes a table has for `room` bytes of pages.
    pub(crate) const fn length(room: usize) -> usize {
        room / Beside::STEP * size_of::<*mut u8>()
    }

    /// The table at `table` for pages from `base` on, a multiple of the step.
    pub(crate) fn new(table: *mut u8, base: usize) -> Beside {
        Beside(table.wrapping_sub(Beside::length(base)))
    }

    /// The word that belongs to a block, or to another address in the pages that is a multiple of the step.
    pub(crate) fn word(self, block: *mut u8) -> *mut usize {
        self.place(block).cast()
    }

    #[inline(always)]
    fn place(self, block: *mut u8) -> *mut *mut u8 {
        self.0.wrapping_add(Beside::length(block.addr())).cast()
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

/// Where the links of a class are.
#[derive(Clone, Copy)]
pub(crate) enum Links {
    /// In the blocks.
    Inside(Key),
    /// In the table.
    Beside(Beside),
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
                Links::Inside(key) => key.next(block),
                Links::Beside(table) => table.next(block),
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
                Links::Inside(key) => key.link(block, next),
                Links::Beside(table) => table.link(block, next),
            }
        }
    }
}

/// Free blocks on their way: from the first, so many, up to the last.
pub(crate) struct Chain {
    pub(crate) first: *mut u8,
    pub(crate) last: *mut u8,
    pub(crate) count: u32,
    /// Where the last one's link is.
    pub(crate) end: Links,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { first: null_mut(), last: null_mut(), count: 0, end: Links::Inside(Key(0)) };

    /// One block.
    pub(crate) fn one(block: NonNull<u8>, links: Links) -> Chain {
        Chain { first: block.as_ptr(), last: block.as_ptr(), count: 1, end: links }
    }

    /// The first blocks of a list as far as they begin in one page and, if they are more than one, end there; and what is behind
    /// them.
    ///
    /// # Safety
    /// `first` is a free block of `class`, whose links these are, and in a list.
    pub(crate) unsafe fn in_one_page(first: NonNull<u8>, links: Links, class: usize) -> (Chain, *mut u8) {
        /// More than a page has: a list that has come to be a circle ends, too.
        const MOST: u32 = (PAGE / GRAIN) as u32 + 1;
        let ends_here = |block: *mut u8| block.addr() % PAGE + size_of_class(class) <= PAGE;
        let is_next = |block: *mut u8| {
            block.addr() / PAGE == first.addr().get() / PAGE && ends_here(block) && is_start(block.addr() % SLAB, class)
        };
        let mut chain = Chain::one(first, links);
        // SAFETY: the caller's promise.
        let mut next = unsafe { links.next(chain.first) };
        if ends_here(chain.first) {
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
