//! A slab whose free blocks know nothing: which they are is told by bits that lie apart.
//!
//! Pages are opened, that is their blocks can be chosen, when there is too little to choose among, and closed when they
//! are given back to the system. A block is free (its page is open), or out: with the program, or waiting.

use core::ops::Range;

use heapwright_os::{abort, page_size};

use super::draw::Draw;
use heapwright_slabs::classes::{CLASSES, GRAIN, SLAB, blocks_before, size_of_class};
use heapwright_slabs::slab_list::Node;

/// How many blocks a slab has at most, and the words of as many bits.
pub(super) const MOST_BLOCKS: usize = SLAB / GRAIN;
const WORDS: usize = MOST_BLOCKS / 64;

/// How many pages a slab has at most.
const MOST_PAGES: usize = 16;

/// What is known of a slab.
pub(super) struct Slab {
    class: u8,
    blocks: u16,
    /// How long a page is, as a power of two.
    log2_page: u8,
    /// How many blocks are free, and how many are out.
    open: u16,
    out: u16,
    /// Pages that blocks start in but whose blocks are not free.
    closed: u16,
    /// Pages that may be in memory.
    resident: u16,
    /// Its place on its class's shelf: the slabs that have blocks to give.
    pub(super) node: Node,
    /// How many of the blocks that overlap each page are out.
    out_in_page: [u16; MOST_PAGES],
    /// How many of those that start in each page are free, and which.
    open_in_page: [u16; MOST_PAGES],
    free: [u64; WORDS],
}

impl Slab {
    /// A slab of a class of which no block has been used; its blocks take up at most `length` bytes. `resident` are the
    /// pages that may be in memory.
    pub(super) fn new(class: usize, length: usize, resident: u16) -> Slab {
        let size = size_of_class(class);
        let blocks = length / size;
        let log2_page = page_size().min(SLAB).ilog2();
        let closed = (0..blocks).fold(0, |pages, block| pages | 1 << ((block * size) >> log2_page));
        Slab {
            class: class as u8,
            blocks: blocks as u16,
            log2_page: log2_page as u8,
            open: 0,
            out: 0,
            closed,
            resident,
            node: Node::UNLISTED,
            out_in_page: [0; MOST_PAGES],
            open_in_page: [0; MOST_PAGES],
            free: [0; WORDS],
        }
    }

    pub(super) fn class(&self) -> usize {
        usize::from(self.class).min(CLASSES - 1)
    }

    /// Returns how many blocks there are, free and out.
    pub(super) fn blocks(&self) -> usize {
        usize::from(self.blocks)
    }

    /// Whether there is a block to give.
    pub(super) fn has_room(&self) -> bool {
        self.open != 0 || self.closed != 0
    }

    /// Returns how many blocks are not out.
    pub(super) fn left(&self) -> usize {
        self.blocks().saturating_sub(self.out.into())
    }

    /// Whether no block is out.
    pub(super) fn is_unused(&self) -> bool {
        self.out == 0
    }

    /// Returns the pages that may be in memory, one bit each.
    pub(super) fn resident(&self) -> u16 {
        self.resident
    }

    fn is_idle(&self, page: usize) -> bool {
        self.out_in_page[page] == 0 && self.resident & 1 << page != 0
    }

    /// Takes up to `wanted` free blocks that follow one another, from one on that is drawn, and calls `take` with the
    /// number of each; returns how many. There is room. Updates the number of idle pages.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        wanted: usize,
        draw: &mut Draw,
        idle: &mut u32,
        mut take: impl FnMut(usize),
    ) -> usize {
        while u32::from(self.open) < draw.least_choice() && self.closed != 0 {
            let rank = draw.below(self.closed.count_ones() as usize);
            self.open(select(u64::from(self.closed), rank));
        }
        let size = size_of_class(self.class());
        let wanted = wanted.min(usize::from(self.open));
        let first = self.choose(draw.below(usize::from(self.open)));
        let (mut word, mut rest) = (first / 64, self.free[first / 64] & !0 << (first % 64));
        for _ in 0..wanted {
            while rest == 0 {
                word = (word + 1) % WORDS;
                rest = self.free[word];
            }
            let number = word * 64 + rest.trailing_zeros() as usize;
            self.free[word] &= !(rest & rest.wrapping_neg());
            rest &= rest - 1;
            let (page, last) = self.pages_at(number * size, size);
            self.open_in_page[page] -= 1;
            for page in page..=last {
                *idle = idle.saturating_sub(u32::from(self.is_idle(page)));
                self.resident |= 1 << page;
                self.out_in_page[page] += 1;
            }
            take(number);
        }
        self.open -= wanted as u16;
        self.out += wanted as u16;
        wanted
    }

    /// Returns the free block before which there are `rank` others.
    fn choose(&self, mut rank: usize) -> usize {
        for page in 0..self.pages() {
            let open = usize::from(self.open_in_page[page]);
            if rank < open {
                return self.choose_in(self.blocks_of(page), rank);
            }
            rank -= open;
        }
        abort()
    }

    /// The same among the blocks that start in a page.
    fn choose_in(&self, blocks: Range<usize>, mut rank: usize) -> usize {
        let first = blocks.start / 64;
        // The first word also has bits of blocks of the page before.
        let mut others = (1 << (blocks.start % 64)) - 1;
        for (at, &word) in self.free[first..].iter().enumerate() {
            let word = word & !core::mem::take(&mut others);
            // Where choices are not random, it is the first.
            let here = if rank == 0 { usize::from(word != 0) } else { word.count_ones() as usize };
            if rank < here {
                return (first + at) * 64 + select(word, rank);
            }
            rank -= here;
        }
        abort()
    }

    /// Puts the block back that begins at an offset and was out. Updates the number of idle pages.
    #[inline(always)]
    pub(super) fn put(&mut self, offset: usize, idle: &mut u32) {
        let class = self.class();
        let Some(number) = blocks_before(offset, class) else { return };
        self.free[number / 64] |= 1 << (number % 64);
        self.open += 1;
        self.out -= 1;
        let (page, last) = self.pages_at(offset, size_of_class(class));
        self.open_in_page[page] += 1;
        for page in page..=last {
            self.out_in_page[page] -= 1;
            *idle += u32::from(self.is_idle(page));
        }
    }

    /// Returns the first run of pages at or above one that are in memory for nothing.
    pub(super) fn next_idle_run(&self, from: usize) -> Option<Range<usize>> {
        let first = (from..self.pages()).find(|&page| self.is_idle(page))?;
        let end = (first..self.pages()).find(|&page| !self.is_idle(page)).unwrap_or(self.pages());
        Some(first..end)
    }

    /// Makes the blocks that start in a closed page free.
    fn open(&mut self, page: usize) {
        for number in self.blocks_of(page) {
            self.free[number / 64] |= 1 << (number % 64);
            self.open += 1;
            self.open_in_page[page] += 1;
        }
        self.closed &= !(1 << page);
    }

    /// Notes that pages have been purged: of the blocks that start in them, none is out.
    pub(super) fn close_all(&mut self, pages: Range<usize>) {
        pages.for_each(|page| self.close(page));
    }

    fn close(&mut self, page: usize) {
        self.resident &= !(1 << page);
        if self.closed & 1 << page != 0 {
            return;
        }
        for number in self.blocks_of(page) {
            self.free[number / 64] &= !(1 << (number % 64));
            self.open -= 1;
            self.open_in_page[page] -= 1;
            self.closed |= 1 << page;
        }
    }

    /// The blocks that start in a page.
    fn blocks_of(&self, page: usize) -> Range<usize> {
        let size = size_of_class(self.class()) as u32;
        let first_from =
            |page: usize| ((page << self.log2_page) as u32).div_ceil(size).min(u32::from(self.blocks)) as usize;
        first_from(page)..first_from(page + 1)
    }

    /// Returns the first and the last page that a block of `size` bytes at an offset overlaps.
    #[inline(always)]
    fn pages_at(&self, offset: usize, size: usize) -> (usize, usize) {
        let page = |offset| (offset >> self.log2_page) & (MOST_PAGES - 1);
        (page(offset), page(offset + size - 1))
    }

    /// How many pages a slab has.
    fn pages(&self) -> usize {
        SLAB >> self.log2_page
    }
}

/// The set bit before which there are `rank` others.
fn select(mut word: u64, rank: usize) -> usize {
    (0..rank).for_each(|_| word &= word - 1);
    word.trailing_zeros() as usize
}
