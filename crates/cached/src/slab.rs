//! A slab: 64 KiB of blocks of one class, kept by the page.
//!
//! The blocks that start in a page form a list of their own, and each page knows how many of the blocks that overlap it are
//! out, that is with the program or in a thread's list. So a page without any is known at once and can be given back to the
//! system while the rest of its slab is in use, and a page is not touched before one of its blocks is needed.
//!
//! What is known of a slab lies apart from it; inside are only the links of small free blocks (`links`).

#[cfg(not(all(loom, test)))]
mod seen;

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU16, Ordering};

use heapwright_os::{page_size, populate, purge};

use crate::classes::{GRAIN, is_start, size_of_class};
use crate::damage::damaged;
use crate::links::{Chain, Links};
use crate::slab_list::Node;

#[cfg(not(all(loom, test)))]
pub use seen::SlabGlance;

/// The length of a slab in bytes, and what it is aligned to.
pub(crate) const SLAB: usize = 64 << 10;

/// The length of the pages that a slab is kept by.
pub(crate) const PAGE: usize = 4 << 10;

const PAGES: usize = SLAB / PAGE;

/// No block.
const NONE: u16 = u16::MAX;

/// No slab.
pub(crate) const NO_SLAB: u32 = u32::MAX;

/// How many pages are had from the system at once by a slab of which as many are in use already.
const AHEAD: usize = 4;

/// A block came back that was not out.
pub(crate) struct NotOut;

/// What is known of a slab: what only its owner looks at, and what others may look at meanwhile.
#[repr(C, align(128))]
pub(crate) struct Known {
    pub(crate) slab: Slab,
    pub(crate) out: BlocksOut,
}

const _: () = assert!(size_of::<Known>() == 128);

/// How many blocks of a slab are out. Only its owner changes it.
#[repr(transparent)]
pub(crate) struct BlocksOut(AtomicU16);

impl BlocksOut {
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed).into()
    }

    pub(crate) fn add(&self, blocks: u32) {
        self.0.store((self.count() + blocks) as u16, Ordering::Relaxed);
    }

    /// Takes some away; returns whether there is none any more.
    pub(crate) fn remove(&self, blocks: u32) -> bool {
        let left = self.count().wrapping_sub(blocks);
        self.0.store(left as u16, Ordering::Relaxed);
        left == 0
    }
}

/// Whether a block of a class lies so many bytes, less than a slab has, behind the start of its slab.
pub(crate) fn is_block(offset: usize, class: usize) -> bool {
    is_start(offset, class) && offset + size_of_class(class) <= SLAB
}

/// What a slab's owner knows of it.
///
/// Invariants, for each page: `ready` has it exactly when `free` has a first block; `fresh` has it when blocks start in it and
/// none is in its list or out; a page that a block which is out overlaps is `resident`.
#[repr(C)]
pub(crate) struct Slab {
    /// The first of the free blocks that start in each page, in grains from the slab's start.
    free: [u16; PAGES],
    /// How many of the blocks that overlap each page are out.
    out: [u16; PAGES],
    /// Pages that have free blocks in their lists.
    ready: u16,
    /// Pages whose blocks are all free and not linked.
    fresh: u16,
    /// Pages in which a block starts.
    starts: u16,
    /// Pages that may be in memory.
    resident: u16,
    /// Pages that were given back since their blocks were linked last.
    returned: u16,
    class: u8,
    /// Its place among the slabs of its owner that have blocks to give.
    pub(crate) node: Node,
}

impl Slab {
    /// A slab of which nothing has been used; `resident` says whether its pages are in memory all the same.
    pub(crate) fn new(class: usize, resident: bool) -> Slab {
        let size = size_of_class(class);
        let mut starts = 0;
        for block in 0..SLAB / size {
            starts |= 1 << (block * size / PAGE);
        }
        Slab {
            free: [NONE; PAGES],
            out: [0; PAGES],
            ready: 0,
            fresh: starts,
            starts,
            resident: if resident { u16::MAX } else { 0 },
            returned: 0,
            class: class as u8,
            node: Node::UNLISTED,
        }
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.class)
    }

    /// Whether there is no block to give.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.ready == 0 && self.fresh == 0
    }

    /// How many pages are in memory for nothing.
    pub(crate) fn idle_pages(&self) -> u32 {
        self.idle().count_ones()
    }

    fn idle(&self) -> u16 {
        self.resident & !self.needed()
    }

    /// The pages that a block which is out overlaps.
    fn needed(&self) -> u16 {
        (0..PAGES).filter(|&page| self.out[page] != 0).fold(0, |mask, page| mask | 1 << page)
    }

    /// Takes up to `wanted` blocks, those in memory first, then from the lowest pages.
    ///
    /// # Safety
    /// `start` is where this slab begins, and `links` its class's.
    pub(crate) unsafe fn take(&mut self, start: *mut u8, links: Links, wanted: u32, pages: &mut Idle) -> Chain {
        let mut chain = Chain { end: links, ..Chain::EMPTY };
        while chain.count < wanted {
            if self.ready == 0 {
                if self.fresh == 0 {
                    break;
                }
                let page = self.fresh.trailing_zeros() as usize;
                // SAFETY: the caller's promise.
                unsafe {
                    self.back(start, page, pages);
                    self.carve(start, links, page, pages);
                }
            }
            let page = self.ready.trailing_zeros() as usize;
            // SAFETY: the caller's promise.
            unsafe { self.take_from(page, start, links, wanted, pages, &mut chain) };
        }
        chain
    }

    /// Has a few pages from a fresh one on in memory at once, as far as they are fresh and may not be there, if the slab has
    /// used some already and its blocks are shorter than a page.
    unsafe fn back(&mut self, start: *mut u8, page: usize, pages: &mut Idle) {
        if page < AHEAD || size_of_class(self.class()) >= PAGE || page_size() != PAGE {
            return;
        }
        let can_be = |page: &usize| self.fresh & !self.resident & 1 << page != 0;
        let run = (page..PAGES.min(page + AHEAD)).take_while(can_be).count();
        if run > 1 {
            // SAFETY: the pages lie in the slab.
            unsafe { populate(NonNull::new_unchecked(start.add(page * PAGE)), run * PAGE) };
            self.resident |= mask_of(page, run);
            pages.idle += run as u32;
        }
    }

    /// Links the blocks that start in a fresh page. The list begins with another one in each page: the first blocks of all slabs
    /// would be where a page begins otherwise, and share a few sets of the processor's caches.
    unsafe fn carve(&mut self, start: *mut u8, links: Links, page: usize, pages: &mut Idle) {
        let size = size_of_class(self.class());
        let first = (page * PAGE).next_multiple_of(size);
        let end = ((page + 1) * PAGE).min(SLAB - size + 1);
        let turned = first + colour_of(start.addr() / PAGE + page) % (end - first).div_ceil(size) * size;
        let mut last = null_mut::<u8>();
        for offset in (turned..end).step_by(size).chain((first..turned).step_by(size)) {
            // SAFETY: the block lies in the slab and is free.
            unsafe {
                let block = start.add(offset);
                if !last.is_null() {
                    links.link(last, block);
                }
                last = block;
            }
        }
        // SAFETY: as above; blocks start in fresh pages.
        unsafe { links.link(last, null_mut()) };
        let bit = 1 << page;
        pages.regretted += u32::from(self.returned & bit != 0);
        self.returned &= !bit;
        self.fresh &= !bit;
        self.ready |= bit;
        self.free[page] = (turned / GRAIN) as u16;
    }

    /// Takes blocks from the list of a page.
    unsafe fn take_from(
        &mut self,
        page: usize,
        start: *mut u8,
        links: Links,
        wanted: u32,
        pages: &mut Idle,
        chain: &mut Chain,
    ) {
        let size = size_of_class(self.class());
        // SAFETY: `ready` has the page, so it has a first block.
        let mut block = unsafe { start.add(usize::from(self.free[page]) * GRAIN) };
        if chain.first.is_null() {
            chain.first = block;
        } else {
            // SAFETY: both are free.
            unsafe { links.link(chain.last, block) };
        }
        let before = chain.count;
        while !block.is_null() && chain.count < wanted {
            let end = block.addr() - start.addr() + size;
            if end > (page + 1) * PAGE {
                (page + 1..end.div_ceil(PAGE)).for_each(|page| self.go_out(page, 1, pages));
            }
            chain.last = block;
            chain.count += 1;
            // SAFETY: the block is free and in the page's list.
            block = unsafe { links.next(block) };
            self.check(page, start, block);
        }
        self.go_out(page, chain.count - before, pages);
        // SAFETY: the last is free.
        unsafe { links.link(chain.last, null_mut()) };
        self.free[page] = if block.is_null() {
            self.ready &= !(1 << page);
            NONE
        } else {
            ((block.addr() - start.addr()) / GRAIN) as u16
        };
    }

    /// Ends the process if what the list of a page has is no block that starts there: somebody has written to a link.
    fn check(&self, page: usize, start: *mut u8, block: *mut u8) {
        let offset = block.addr().wrapping_sub(start.addr());
        if let Some(found) = NonNull::new(block)
            && (offset / PAGE != page || !is_block(offset, self.class()))
        {
            damaged(found);
        }
    }

    /// So many more of the blocks that overlap a page are out.
    #[inline]
    fn go_out(&mut self, page: usize, blocks: u32, pages: &mut Idle) {
        let bit = 1 << page;
        if self.out[page] == 0 && self.resident & bit != 0 {
            pages.idle = pages.idle.saturating_sub(1);
        }
        self.resident |= bit;
        self.out[page] += blocks as u16;
    }

    /// So many less of the blocks that overlap a page are out.
    #[inline]
    fn come_back(&mut self, page: usize, blocks: u32, pages: &mut Idle) {
        self.out[page] -= blocks as u16;
        pages.idle += u32::from(self.out[page] == 0);
    }

    /// Puts blocks back that were out. They begin in one page; if they are more than one, none reaches beyond it.
    ///
    /// # Errors
    /// [`NotOut`]; nothing has changed.
    ///
    /// # Safety
    /// As [`Slab::take`]; they are blocks of this slab that nobody uses.
    #[inline]
    pub(crate) unsafe fn put(&mut self, start: *mut u8, blocks: &Chain, pages: &mut Idle) -> Result<(), NotOut> {
        let offset = blocks.first.addr() - start.addr();
        let (page, end) = (offset / PAGE, offset + size_of_class(self.class()));
        let is_out = |slab: &Slab, page: usize| u32::from(slab.out[page]) >= blocks.count;
        if !is_out(self, page) {
            return Err(NotOut);
        }
        if blocks.count == 1 && end > (page + 1) * PAGE {
            let beyond = page + 1..end.div_ceil(PAGE).min(PAGES);
            if !beyond.clone().all(|page| is_out(self, page)) {
                return Err(NotOut);
            }
            beyond.for_each(|page| self.come_back(page, 1, pages));
        }
        self.come_back(page, blocks.count, pages);
        let next = match self.free[page] {
            NONE => null_mut(),
            // SAFETY: the list's first block lies in the slab.
            first => unsafe { start.add(usize::from(first) * GRAIN) },
        };
        // SAFETY: the blocks are free now.
        unsafe { blocks.end.link(blocks.last, next) };
        self.free[page] = (offset / GRAIN) as u16;
        self.ready |= 1 << page;
        Ok(())
    }

    /// Gives the pages back that are in memory for nothing; returns how many. What lies between two of them and is not in memory
    /// goes with them: so that is one call for all.
    ///
    /// # Safety
    /// As [`Slab::take`].
    pub(crate) unsafe fn return_idle(&mut self, start: *mut u8) -> u32 {
        let together = (page_size() / PAGE).max(1);
        let needed = self.needed();
        let mut returned = 0;
        let mut page = 0;
        while let Some((first, count)) = next_run(needed, self.resident, page, together) {
            page = first + count;
            // SAFETY: nothing that is out overlaps these pages, and their links are forgotten below.
            let done = unsafe { purge(NonNull::new_unchecked(start.add(first * PAGE)), count * PAGE) };
            if done.is_ok() {
                returned += (self.resident & mask_of(first, count)).count_ones();
                self.forget(mask_of(first, count));
            }
        }
        returned
    }

    /// Notes that pages have been given back.
    fn forget(&mut self, pages: u16) {
        for page in (0..PAGES).filter(|page| pages & 1 << page != 0) {
            self.free[page] = NONE;
        }
        self.ready &= !pages;
        self.fresh |= pages & self.starts;
        self.returned |= pages & self.resident;
        self.resident &= !pages;
    }
}

/// A number for each page, of which neighbours have none in common.
fn colour_of(page: usize) -> usize {
    page.wrapping_mul(0x9E37_79B9) >> 8 & 0xFFFF
}

/// The pages from `first` on, so many.
fn mask_of(first: usize, count: usize) -> u16 {
    (((1u32 << count) - 1) << first) as u16
}

/// The next pages at or above `page` that can go, in steps of so many `together` (an OS page): the first and how many. None of
/// them is needed; the first and the last step are in memory.
fn next_run(needed: u16, resident: u16, page: usize, together: usize) -> Option<(usize, usize)> {
    let mut run: Option<(usize, usize)> = None;
    for first in (page..PAGES).step_by(together) {
        let step = mask_of(first, together);
        if needed & step != 0 {
            if run.is_some() {
                break;
            }
        } else if resident & step != 0 {
            let (begin, _) = run.unwrap_or((first, 0));
            run = Some((begin, first + together - begin));
        }
    }
    run
}

/// What changes in a heap's pages as blocks come and go.
#[derive(Default)]
pub(crate) struct Idle {
    /// Pages in memory for nothing.
    pub(crate) idle: u32,
    /// Pages that were given back too early: their blocks were needed again.
    pub(crate) regretted: u32,
}
