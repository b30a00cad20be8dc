//! A slab: 64 KiB of blocks of one class, managed by the page.
//!
//! The free blocks that start in a page form a list of their own. Each page has a count of the blocks that overlap it
//! and are out, that is used by the program, or in a thread cache or an inbox. A page without such blocks can be purged
//! while the rest of its slab is in use, and a page is not touched before one of its blocks is needed.
//!
//! Slab metadata is out of band; a slab contains only the links of its small free blocks (`links`).

pub(crate) mod dissolved;
#[cfg(not(loom))]
mod division;
#[cfg(not(loom))]
mod glance;

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU16, Ordering};

use heapwright_os::{page_size, populate};

use crate::classes::{GRAIN, PAGE, SLAB, blocks_in_slab, blocks_to, is_block, size_of_class};
use crate::corruption::corrupted;
use crate::links::{Chain, Links};
use crate::scarcity::is_scarce;
use crate::slab_list::Node;

#[cfg(not(loom))]
pub use glance::SlabGlance;

const PAGES: usize = SLAB / PAGE;

/// No block.
const NONE: u16 = u16::MAX;

/// The number of pages that are populated at once, by a slab that uses that number of pages already.
const AHEAD: usize = 4;

/// The resident pages of a heap (128 MiB) from which on all of a slab's pages are populated at once: the rest of a slab
/// per class is a small part of it.
const MANY: u32 = 32_768;

/// The error of putting back a block that is not out.
pub(crate) struct NotOut;

/// The metadata of a slab: a part that is used behind the lock of its heap, and a count that any thread may read.
#[repr(C, align(128))]
pub struct SlabMeta {
    pub(crate) slab: Slab,
    pub(crate) out: BlocksOut,
}

const _: () = assert!(size_of::<SlabMeta>() == 128);

/// The number of blocks of a slab that are out. It is changed behind the lock of its heap only.
#[repr(transparent)]
pub struct BlocksOut(AtomicU16);

impl BlocksOut {
    /// Returns the number.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed).into()
    }

    pub(crate) fn add(&self, blocks: u32) {
        self.0.store((self.count() + blocks) as u16, Ordering::Relaxed);
    }

    /// Subtracts blocks; returns whether none is out any more.
    pub(crate) fn remove(&self, blocks: u32) -> bool {
        let left = self.count().wrapping_sub(blocks);
        self.0.store(left as u16, Ordering::Relaxed);
        left == 0
    }
}

/// The part of a slab's metadata that is used behind the lock of its heap.
///
/// Invariants, for each page: its bit in `ready` is set exactly when `free` has a first block; its bit in `fresh` is
/// set when blocks start in it and none is in its list or out; its bit in `resident` is set when a block that is out
/// overlaps it.
#[repr(C)]
pub(crate) struct Slab {
    /// The first of the free blocks that start in each page, in grains from the slab's start.
    free: [u16; PAGES],
    /// For each page, the number of blocks that overlap it and are out.
    out: [u16; PAGES],
    /// Pages that have free blocks in their lists.
    ready: u16,
    /// Pages whose blocks are all free and not linked.
    fresh: u16,
    /// Pages in which a block starts.
    starts: u16,
    /// Pages that may be in memory.
    resident: u16,
    /// Pages that were purged since their blocks were last linked.
    purged: u16,
    class: u8,
    /// Of a dissolved slab, an upper bound of its longest run of free grains.
    longest: u16,
    /// Of a dissolved slab, the grains that are out.
    grains_out: u16,
    /// When blocks were taken from it last, in ages of its heap.
    pub(crate) taken_at: u8,
    /// Its place in the list of its heap's slabs with free blocks.
    pub(crate) node: Node,
}

impl Slab {
    /// Returns the metadata of a slab of which no block has been used. `resident` is whether its pages are in memory
    /// already.
    pub(crate) fn new(class: usize, resident: bool) -> Slab {
        let size = size_of_class(class);
        // In each page, blocks of up to half of its length start.
        let mut starts = if size <= PAGE / 2 { u16::MAX } else { 0 };
        if size > PAGE / 2 {
            for block in 0..SLAB / size {
                starts |= 1 << (block * size / PAGE);
            }
        }
        Slab {
            free: [NONE; PAGES],
            out: [0; PAGES],
            ready: 0,
            fresh: starts,
            starts,
            resident: if resident { u16::MAX } else { 0 },
            purged: 0,
            class: class as u8,
            longest: 0,
            grains_out: 0,
            taken_at: 0,
            node: Node::UNLISTED,
        }
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.class)
    }

    /// Returns whether the slab has no free blocks.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.ready == 0 && self.fresh == 0
    }

    /// Returns the number of pages that may be in memory.
    pub(crate) fn resident_pages(&self) -> u32 {
        self.resident.count_ones()
    }

    /// Returns the number of idle pages: they are in memory, and no block that is out overlaps them.
    pub(crate) fn idle_pages(&self) -> u32 {
        self.idle().count_ones()
    }

    fn idle(&self) -> u16 {
        self.resident & !self.needed()
    }

    /// Returns the pages that blocks which are out overlap.
    fn needed(&self) -> u16 {
        (0..PAGES).filter(|&page| self.out[page] != 0).fold(0, |mask, page| mask | 1 << page)
    }

    /// Takes about `wanted` free blocks, at most one more: those of pages that are in memory first, then those of the
    /// lowest pages.
    ///
    /// # Safety
    /// `start` is the address of this slab, and `links` are its class's.
    pub(crate) unsafe fn take(&mut self, start: *mut u8, links: Links, wanted: u32, pages: &mut PageCounts) -> Chain {
        let mut chain = Chain { end: links, ..Chain::EMPTY };
        while chain.count < wanted {
            // SAFETY: the caller's promise.
            unsafe {
                if self.ready != 0 {
                    let page = self.ready.trailing_zeros() as usize;
                    self.take_from(page, start, links, wanted, pages, &mut chain);
                } else if self.fresh != 0 {
                    let page = self.fresh.trailing_zeros() as usize;
                    self.populate_ahead(start, page, pages);
                    self.take_fresh(page, start, links, wanted, pages, &mut chain);
                } else {
                    break;
                }
            }
        }
        chain
    }

    /// Populates a few pages from a fresh one on that are fresh and may not be in memory, if the slab uses some already
    /// and its blocks are shorter than a page.
    #[inline(never)]
    unsafe fn populate_ahead(&mut self, start: *mut u8, page: usize, pages: &mut PageCounts) {
        let ahead = if pages.resident >= MANY { PAGES } else { AHEAD };
        if page + ahead < 2 * AHEAD || size_of_class(self.class()) >= PAGE || page_size() != PAGE || is_scarce() {
            return;
        }
        let can_be = self.fresh & !self.resident;
        let run = (!(can_be >> page)).trailing_zeros().min(ahead as u32) as usize;
        if run > 1 {
            // SAFETY: the pages lie in the slab.
            unsafe { populate(NonNull::new_unchecked(start.add(page * PAGE)), run * PAGE) };
            self.resident |= mask_of(page, run);
            pages.idle += run as u32;
            pages.resident += run as u32;
        }
    }

    /// Links the blocks that start in a fresh page, and takes them: all, which need not be looked at again, unless more
    /// than one of them is not wanted.
    unsafe fn take_fresh(
        &mut self,
        page: usize,
        start: *mut u8,
        links: Links,
        wanted: u32,
        pages: &mut PageCounts,
        chain: &mut Chain,
    ) {
        let bit = 1 << page;
        pages.refaulted += u32::from(self.purged & bit != 0);
        self.purged &= !bit;
        self.fresh &= !bit;
        let blocks = PageBlocks::of(page, self.class());
        // SAFETY: the caller's promise; the page's blocks are free, and in no list.
        unsafe {
            let (first, last) = blocks.link(start, links);
            if chain.count + blocks.count > wanted + 1 {
                self.ready |= bit;
                self.free[page] = ((first.addr() - start.addr()) / GRAIN) as u16;
                return self.take_from(page, start, links, wanted, pages, chain);
            }
            chain.append(first, last, blocks.count);
        }
        self.add_out(page, blocks.count, pages);
        self.add_out_beyond(page, blocks.end, pages);
    }

    /// Takes blocks off the list of a page.
    unsafe fn take_from(
        &mut self,
        page: usize,
        start: *mut u8,
        links: Links,
        wanted: u32,
        pages: &mut PageCounts,
        chain: &mut Chain,
    ) {
        let class = self.class();
        let at = |block: *mut u8| block.addr().wrapping_sub(start.addr());
        // SAFETY: `ready` has the page, so it has a first block.
        let first = unsafe { start.add(usize::from(self.free[page]) * GRAIN) };
        let (mut block, mut last, mut end, mut count) = (first, first, 0, 0);
        while !block.is_null() && chain.count + count < wanted {
            end = end.max(at(block) + size_of_class(class));
            last = block;
            count += 1;
            // SAFETY: the block is free and in the page's list.
            block = unsafe { links.next(block) };
            if let Some(next) = NonNull::new(block)
                && !is_in_page(at(block), page, class)
            {
                // The link has been overwritten.
                corrupted(next);
            }
        }
        // SAFETY: the blocks are free, and linked.
        unsafe { chain.append(first, last, count) };
        self.add_out(page, count, pages);
        self.add_out_beyond(page, end, pages);
        self.free[page] = if block.is_null() {
            self.ready &= !(1 << page);
            NONE
        } else {
            (at(block) / GRAIN) as u16
        };
    }

    /// Adds one to the numbers of blocks that overlap the pages behind a page, up to `end`, and are out.
    #[inline]
    fn add_out_beyond(&mut self, page: usize, end: usize, pages: &mut PageCounts) {
        (page + 1..end.div_ceil(PAGE)).for_each(|page| self.add_out(page, 1, pages));
    }

    /// Adds to the number of blocks that overlap a page and are out.
    #[inline]
    fn add_out(&mut self, page: usize, blocks: u32, pages: &mut PageCounts) {
        let bit = 1 << page;
        if self.out[page] == 0 && self.resident & bit != 0 {
            pages.idle = pages.idle.saturating_sub(1);
        }
        pages.resident += u32::from(self.resident & bit == 0);
        self.resident |= bit;
        self.out[page] += blocks as u16;
    }

    /// Subtracts from the number of blocks that overlap a page and are out.
    #[inline]
    fn remove_out(&mut self, page: usize, blocks: u32, pages: &mut PageCounts) {
        self.out[page] -= blocks as u16;
        pages.idle += u32::from(self.out[page] == 0);
    }

    /// Puts back blocks that were out. They begin in one page; if they are more than one, none reaches beyond it.
    ///
    /// # Errors
    /// [`NotOut`]; nothing has changed.
    ///
    /// # Safety
    /// As [`Slab::take`]; they are blocks of this slab that are not used.
    #[inline]
    pub(crate) unsafe fn put(&mut self, start: *mut u8, blocks: &Chain, pages: &mut PageCounts) -> Result<(), NotOut> {
        let offset = blocks.first.addr() - start.addr();
        let (page, end) = (offset / PAGE, offset + size_of_class(self.class()));
        let is_out = |slab: &Slab, page: usize| u32::from(slab.out[page]) >= blocks.count;
        if !is_out(self, page) || usize::from(self.free[page]) == offset / GRAIN {
            return Err(NotOut);
        }
        if blocks.count == 1 && end > (page + 1) * PAGE {
            let beyond = page + 1..end.div_ceil(PAGE).min(PAGES);
            if !beyond.clone().all(|page| is_out(self, page)) {
                return Err(NotOut);
            }
            beyond.for_each(|page| self.remove_out(page, 1, pages));
        }
        self.remove_out(page, blocks.count, pages);
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

    /// Returns the runs of idle pages, each as its first page and its length. Unused pages between two of them that are
    /// not in memory are included, which saves system calls.
    pub(crate) fn idle_runs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let together = (page_size() / PAGE).max(1);
        let (needed, resident) = (self.needed(), self.resident);
        let mut page = 0;
        core::iter::from_fn(move || {
            let (first, count) = next_run(needed, resident, page, together)?;
            page = first + count;
            Some((first, count))
        })
    }

    /// Records that a run of idle pages has been purged; returns how many of them were in memory.
    pub(crate) fn record_purged(&mut self, first: usize, count: usize) -> u32 {
        let purged = (self.resident & mask_of(first, count)).count_ones();
        self.clear(mask_of(first, count));
        purged
    }

    /// Clears the lists of purged pages.
    fn clear(&mut self, pages: u16) {
        for page in (0..PAGES).filter(|page| pages & 1 << page != 0) {
            self.free[page] = NONE;
        }
        self.ready &= !pages;
        self.fresh |= pages & self.starts;
        self.purged |= pages & self.resident;
        self.resident &= !pages;
    }
}

/// The blocks that start in a page.
struct PageBlocks {
    page: usize,
    size: usize,
    /// Where the first begins, in bytes from the slab's start.
    first: usize,
    /// Where the last ends.
    end: usize,
    count: u32,
}

impl PageBlocks {
    /// Returns those of a page, in which a block of `class` starts.
    #[inline]
    fn of(page: usize, class: usize) -> PageBlocks {
        let size = size_of_class(class);
        let before = blocks_to(page * PAGE, class);
        let count = blocks_to((page + 1) * PAGE, class).min(blocks_in_slab(class)) - before;
        PageBlocks { page, size, first: before * size, end: (before + count) * size, count: count as u32 }
    }

    /// Links all of them; returns the first and the last of the list. The list of a slab's first page begins with a
    /// different block in each slab (cache colouring): otherwise the first blocks of all slabs would compete for a few
    /// sets of the processor's caches. Those of the other pages begin where the pages do: what is allocated together
    /// lies in one run then, which the processor reads ahead.
    ///
    /// # Safety
    /// `start` is the address of the slab, and `links` are its class's; the blocks are free, and in no list.
    unsafe fn link(&self, start: *mut u8, links: Links) -> (*mut u8, *mut u8) {
        let colour = if self.page == 0 { colour_of(start) % self.count as usize } else { 0 };
        let first = self.first + colour * self.size;
        let mut last = first;
        // SAFETY: the blocks lie in the slab.
        unsafe {
            for _ in 1..self.count {
                let next = if last + self.size == self.end { self.first } else { last + self.size };
                links.link(start.add(last), start.add(next));
                last = next;
            }
            links.link(start.add(last), null_mut());
            (start.add(first), start.add(last))
        }
    }
}

/// Returns whether a block of a class that starts in a page of a slab lies at an offset.
#[inline]
fn is_in_page(offset: usize, page: usize, class: usize) -> bool {
    offset / PAGE == page && is_block(offset, class)
}

/// Returns a colour for each slab that differs from its neighbours'.
fn colour_of(start: *mut u8) -> usize {
    (start.addr() / PAGE).wrapping_mul(0x9E37_79B9) >> 8 & 0xFFFF
}

/// Returns the set of `count` pages from `first` on.
fn mask_of(first: usize, count: usize) -> u16 {
    (((1u32 << count) - 1) << first) as u16
}

/// Returns the next run of pages at or above `page` that can be purged, as its first page and its length, in steps of
/// `together` pages (an OS page). None of them is needed; the first and the last step are in memory.
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

/// The pages of a heap's slabs that matter for purging.
pub(crate) struct PageCounts {
    /// Pages that may be in memory.
    pub(crate) resident: u32,
    /// Idle pages: they are in memory, and no block that is out overlaps them.
    pub(crate) idle: u32,
    /// Pages that were purged too early: their blocks were needed again.
    pub(crate) refaulted: u32,
    /// Pages that were purged, and left the heap with their slabs.
    departed: u32,
}

impl PageCounts {
    pub(crate) const NONE: PageCounts = PageCounts { resident: 0, idle: 0, refaulted: 0, departed: 0 };

    /// Adds the pages of a slab that is the heap's now.
    pub(crate) fn add(&mut self, slab: &Slab) {
        self.idle += slab.idle_pages();
        self.resident += slab.resident_pages();
        // It stands for one that has left: their pages were purged too early.
        let absent = (PAGES as u32 - slab.resident_pages()).min(self.departed);
        self.departed -= absent;
        self.refaulted += absent;
    }

    /// Subtracts the pages of a slab that leaves the heap.
    pub(crate) fn subtract(&mut self, slab: &Slab) {
        self.idle = self.idle.saturating_sub(slab.idle_pages());
        self.resident -= slab.resident_pages();
        self.departed += (slab.purged & !slab.resident).count_ones();
    }

    /// Counts fewer of the pages that were purged too early, and of those of which that is not known yet, down to none.
    pub(crate) fn forget_in_time(&mut self) {
        for pages in [&mut self.refaulted, &mut self.departed] {
            *pages -= pages.div_ceil(8);
        }
    }

    /// Counts fewer of them, and at most some.
    pub(crate) fn forget(&mut self) {
        /// The most that count: 64 MiB.
        const MOST: u32 = 16_384;
        for pages in [&mut self.refaulted, &mut self.departed] {
            *pages = (*pages - *pages / 8).min(MOST);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A slab all of whose pages were in memory and have been purged, but for the first `kept`.
    fn purged(kept: usize) -> Slab {
        let mut slab = Slab::new(1, true);
        assert_eq!(slab.record_purged(kept, PAGES - kept), (PAGES - kept) as u32);
        slab
    }

    #[test]
    fn pages_that_left_with_their_slab_count_when_another_takes_its_place() {
        let mut pages = PageCounts { resident: 4, ..PageCounts::NONE };
        pages.subtract(&purged(4));
        assert_eq!((pages.refaulted, pages.resident), (0, 0));
        // One whose pages are in memory takes the place of none.
        pages.add(&Slab::new(1, true));
        assert_eq!(pages.refaulted, 0);
        pages.add(&Slab::new(1, false));
        assert_eq!(pages.refaulted, 12);
        pages.add(&Slab::new(1, false));
        assert_eq!(pages.refaulted, 12, "each counts once");
    }

    #[test]
    fn purged_pages_that_are_in_memory_again_have_not_left() {
        let mut pages = PageCounts { resident: PAGES as u32, ..PageCounts::NONE };
        let mut slab = purged(0);
        slab.resident = u16::MAX;
        pages.subtract(&slab);
        pages.add(&Slab::new(1, false));
        assert_eq!(pages.refaulted, 0);
    }

    #[test]
    fn what_has_left_is_forgotten_in_time() {
        let mut pages = PageCounts::NONE;
        pages.subtract(&purged(0));
        (0..PAGES).for_each(|_| pages.forget_in_time());
        pages.add(&Slab::new(1, false));
        assert_eq!(pages.refaulted, 0);
    }
}
