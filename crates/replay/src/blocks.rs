//! The live blocks of a replay, by number.
//!
//! Blocks are numbered in the order of creation, so neighbours in number are usually freed at about the same time. A
//! table of pages with 1024 numbers each keeps them together in memory. A page with few live blocks becomes a short
//! sorted list, and an empty page is dropped. Memory grows with the live blocks, not with the trace: at most 64 bytes
//! per live block, and 32 bytes per 1024 numbers between the oldest and the youngest live block.

use std::collections::VecDeque;

use heapwright_os::prefetch;

/// The count of numbers in a page, a power of two.
const PAGE: usize = 1024;

/// A page other than the last becomes a list when it has fewer live blocks than this.
const FEW: u32 = 256;

/// The place of a live block: the offset of its payload, and its requested size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The offset of the payload from the start of the region, in bytes.
    pub offset: usize,
    /// The requested size in bytes, not rounded.
    pub size: usize,
}

/// The entry of a block that is not live. No real offset is that large.
const VACANT: Placed = Placed { offset: usize::MAX, size: 0 };

/// The places of live blocks by number.
pub(crate) trait Places: Default {
    /// Adds a block.
    fn insert(&mut self, number: u64, block: Placed);

    /// Removes a block and returns its place; `None` if it is not live.
    fn remove(&mut self, number: u64) -> Option<Placed>;
}

type Entries = Box<[Placed; PAGE]>;

/// The blocks of [`PAGE`] consecutive numbers.
enum Page {
    /// No live block.
    Empty,
    /// One entry per number.
    Wide { live: u32, places: Entries },
    /// A few entries, sorted by the low bits of their numbers. Some may be vacant.
    Narrow { live: u32, numbers: Vec<u16>, places: Vec<Placed> },
}

impl Page {
    /// Returns the live blocks with the low bits of their numbers.
    fn iter(&self) -> impl Iterator<Item = (usize, Placed)> {
        let (numbers, places): (Option<&[u16]>, &[Placed]) = match self {
            Page::Empty => (None, &[]),
            Page::Wide { places, .. } => (None, &places[..]),
            Page::Narrow { numbers, places, .. } => (Some(numbers), places),
        };
        let number = move |at: usize| numbers.map_or(at, |numbers| usize::from(numbers[at]));
        let block = move |(at, &block)| (block != VACANT).then(|| (number(at), block));
        places.iter().enumerate().filter_map(block)
    }
}

/// The live blocks by number.
#[derive(Default)]
pub(crate) struct Blocks {
    pages: VecDeque<Page>,
    /// The number of the first block of the first page, divided by [`PAGE`].
    first: u64,
    /// Pages for reuse, with every entry [`VACANT`].
    spare: Vec<Entries>,
}

impl Blocks {
    /// Adds a block. Numbers must ascend, but may have gaps.
    #[inline(always)]
    pub(crate) fn insert(&mut self, number: u64, block: Placed) {
        let (page, at) = (number / PAGE as u64, number as usize % PAGE);
        if page.wrapping_sub(self.first) as usize + 1 != self.pages.len() || self.pages.is_empty() {
            self.open_page(page);
        }
        if let Some(Page::Wide { live, places }) = self.pages.back_mut() {
            places[at] = block;
            *live += 1;
        }
    }

    /// Appends `page` as a wide page, after empty ones for the gap.
    #[cold]
    #[inline(never)]
    fn open_page(&mut self, page: u64) {
        self.settle_last();
        if self.pages.is_empty() {
            self.first = page;
        }
        while self.first + (self.pages.len() as u64) < page {
            self.pages.push_back(Page::Empty);
        }
        let places = self.spare.pop().unwrap_or_else(|| Box::new([VACANT; PAGE]));
        self.pages.push_back(Page::Wide { live: 0, places });
    }

    /// Narrows the last page if it has few live blocks, because no more are added to it.
    fn settle_last(&mut self) {
        if let Some(at) = self.pages.len().checked_sub(1) {
            self.narrow(at);
        }
        while let Some(Page::Empty) = self.pages.front() {
            self.pages.pop_front();
            self.first += 1;
        }
    }

    /// Returns the place of block `number`, if it is live.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<Placed> {
        let at = number as usize % PAGE;
        let page = self.pages.get((number / PAGE as u64).checked_sub(self.first)? as usize)?;
        let block = match page {
            Page::Empty => VACANT,
            Page::Wide { places, .. } => places[at],
            Page::Narrow { numbers, places, .. } => numbers.binary_search(&(at as u16)).map_or(VACANT, |at| places[at]),
        };
        (block != VACANT).then_some(block)
    }

    /// Removes a block and returns its place; `None` if it is not live.
    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u64) -> Option<Placed> {
        let at = number as usize % PAGE;
        let index = (number / PAGE as u64).checked_sub(self.first)? as usize;
        let (live, place) = match self.pages.get_mut(index)? {
            Page::Empty => return None,
            Page::Wide { live, places } => (live, &mut places[at]),
            Page::Narrow { live, numbers, places } => (live, &mut places[numbers.binary_search(&(at as u16)).ok()?]),
        };
        let block = std::mem::replace(place, VACANT);
        if block == VACANT {
            return None;
        }
        *live -= 1;
        if *live < FEW && index + 1 != self.pages.len() {
            self.narrow(index);
        }
        Some(block)
    }

    /// Returns the live blocks, by ascending number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Placed)> {
        let pages = (self.first..).zip(&self.pages);
        pages.flat_map(|(page, blocks)| blocks.iter().map(move |(at, block)| (page * PAGE as u64 + at as u64, block)))
    }

    /// Reduces the memory of a page with few live blocks.
    #[cold]
    #[inline(never)]
    fn narrow(&mut self, index: usize) {
        let page = &mut self.pages[index];
        match page {
            Page::Wide { live, .. } if *live >= FEW => {}
            Page::Wide { live: 0, .. } | Page::Narrow { live: 0, .. } => self.drop_page(index),
            Page::Wide { live, places } => {
                let left = |place: &(usize, &Placed)| *place.1 != VACANT;
                let (numbers, few) =
                    places.iter().enumerate().filter(left).map(|(number, &place)| (number as u16, place)).unzip();
                let narrow = Page::Narrow { live: *live, numbers, places: few };
                self.put(index, narrow);
            }
            Page::Narrow { live, numbers, places } if (*live as usize) < numbers.len() / 2 => {
                let mut lives = places.iter().map(|&place| place != VACANT);
                numbers.retain(|_| lives.next() == Some(true));
                places.retain(|&place| place != VACANT);
                numbers.shrink_to_fit();
                places.shrink_to_fit();
            }
            Page::Empty | Page::Narrow { .. } => {}
        }
    }

    fn drop_page(&mut self, index: usize) {
        self.put(index, Page::Empty);
        while let Some(Page::Empty) = self.pages.front() {
            self.pages.pop_front();
            self.first += 1;
        }
    }

    /// Replaces a page, and keeps the memory of a wide one for reuse.
    fn put(&mut self, index: usize, page: Page) {
        /// The limit of pages kept for reuse.
        const SPARE: usize = 64;
        if let Page::Wide { mut places, .. } = std::mem::replace(&mut self.pages[index], page)
            && self.spare.len() < SPARE
        {
            places.fill(VACANT);
            self.spare.push(places);
        }
    }
}

impl Places for Blocks {
    #[inline(always)]
    fn insert(&mut self, number: u64, block: Placed) {
        self.insert(number, block);
    }

    #[inline(always)]
    fn remove(&mut self, number: u64) -> Option<Placed> {
        self.remove(number)
    }
}

/// The live blocks by numbers that are as low as can be: see [`Slots`](crate::slots::Slots).
#[derive(Default)]
pub(crate) struct Dense(Vec<Placed>);

impl Dense {
    /// Returns the place of block `number`, if it is live.
    #[inline(always)]
    pub(crate) fn get(&self, number: u64) -> Option<Placed> {
        self.0.get(number as usize).copied().filter(|&block| block != VACANT)
    }

    /// Asks for the place of block `number`, which is needed soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, number: u64) {
        prefetch(self.0.as_ptr().wrapping_add(number as usize).cast());
    }
}

impl Places for Dense {
    #[inline(always)]
    fn insert(&mut self, number: u64, block: Placed) {
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, VACANT);
        }
        self.0[at] = block;
    }

    #[inline(always)]
    fn remove(&mut self, number: u64) -> Option<Placed> {
        let place = self.0.get_mut(number as usize)?;
        Some(std::mem::replace(place, VACANT)).filter(|&block| block != VACANT)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn block(number: u64) -> Placed {
        Placed { offset: number as usize * 16, size: number as usize }
    }

    #[test]
    fn blocks_match_a_hash_map() {
        let (mut blocks, mut shadow) = (Blocks::default(), HashMap::new());
        let mut random = fastrand::Rng::with_seed(1);
        let mut number = 0;
        for _ in 0..300_000 {
            if random.u8(..) < 150 {
                number += if random.u16(..) == 0 { 5000 } else { 1 + random.u64(..3) };
                blocks.insert(number, block(number));
                shadow.insert(number, block(number));
            }
            if number % 10_000 == 0 {
                let mut all: Vec<_> = shadow.iter().map(|(&number, &block)| (number, block)).collect();
                all.sort_unstable_by_key(|(number, _)| *number);
                assert_eq!(blocks.iter().collect::<Vec<_>>(), all);
            }
            let age = random.u32(0..18);
            let queried = number.saturating_sub(random.u64(..1 << age));
            assert_eq!(blocks.get(queried), shadow.get(&queried).copied(), "{queried}");
            assert_eq!(blocks.remove(queried), shadow.remove(&queried), "{queried}");
        }
        for number in 0..=number {
            assert_eq!(blocks.remove(number), shadow.remove(&number), "{number}");
        }
        assert!(shadow.is_empty() && blocks.pages.len() <= 1);
    }

    #[test]
    fn memory_follows_the_live_blocks() {
        let mut blocks = Blocks::default();
        let bytes = |blocks: &Blocks| -> usize {
            let page = |page: &Page| match page {
                Page::Empty => 0,
                Page::Wide { .. } => size_of::<[Placed; PAGE]>(),
                Page::Narrow { numbers, places, .. } => 2 * numbers.capacity() + 16 * places.capacity(),
            };
            blocks.pages.iter().map(page).sum()
        };
        // One block of every thousand stays live.
        for number in 0..10_000_000 {
            blocks.insert(number, block(number));
            if number % 1000 != 0 {
                assert_eq!(blocks.remove(number), Some(block(number)));
            }
        }
        let live = 10_000;
        assert!(bytes(&blocks) < live * 100, "{}", bytes(&blocks));
    }
}
