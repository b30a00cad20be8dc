//! The blocks of a process, indexed by address.
//!
//! A hash table of single addresses would scatter neighbouring blocks over memory, and a program with many blocks would
//! pay one or two cache misses per call. This index keeps locality: the address space is cut into pages, and each page
//! stores, for each of its granules, which block starts there.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Alignment of every block, as a power of two.
const GRANULE: u32 = 4;

/// Granules per page.
const GRANULES: usize = 1024;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number in the trace.
    pub number: u64,
    /// Requested size in bytes.
    pub size: u64,
}

/// Blocks by address. Each operation takes constant time, amortised. Memory: 16 bytes per block, and a quarter of the
/// pages of 16 KiB in which blocks start, at most doubled by those in which none starts any more; both at their peak.
pub struct Blocks {
    /// Where the pages are in `pages`, by number.
    places: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    pages: Vec<Box<Page>>,
    /// Pages that `places` does not name, all zero.
    spare: Vec<u32>,
    /// How many of the pages that `places` names are empty. They stay for a while: a program that frees its only block
    /// of a page and allocates it again, in turns, does not make the page each time.
    empty: usize,
    /// Pages that were used last, and their places, by a hash of the page.
    recent: [(u64, u32); RECENT],
    /// Those in use, and those that are not and whose places `unused` lists.
    blocks: Vec<Block>,
    unused: Vec<u32>,
}

/// The number of empty pages that stay in any case.
const MOST_EMPTY: usize = 64;

/// The number of pages that are found without the table, a power of two.
const RECENT: usize = 256;

/// In place of a page that was used last: no address leads to it.
const NO_PAGE: (u64, u32) = (u64::MAX, 0);

/// The blocks that start in one page.
struct Page {
    used: u32,
    /// 0 for none, otherwise one more than the block's index.
    starts: [u32; GRANULES],
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks {
            places: HashMap::default(),
            pages: Vec::new(),
            spare: Vec::new(),
            empty: 0,
            recent: [NO_PAGE; RECENT],
            blocks: Vec::new(),
            unused: Vec::new(),
        }
    }
}

impl Blocks {
    /// Records a block at `address` and returns the block that was recorded there before. Beyond 2³² live blocks,
    /// further ones are dropped.
    #[inline(always)]
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        let (number, granule) = place(address);
        let page = match self.find(number) {
            Some(page) => page,
            None => self.add(number),
        };
        let page: &mut Page = &mut self.pages[page as usize];
        if let Some(index) = page.starts[granule].checked_sub(1) {
            return Some(std::mem::replace(&mut self.blocks[index as usize], block));
        }
        let index = match self.unused.pop() {
            Some(index) => {
                self.blocks[index as usize] = block;
                index
            }
            None => {
                let index = u32::try_from(self.blocks.len()).ok().filter(|&index| index < u32::MAX)?;
                self.blocks.push(block);
                index
            }
        };
        page.starts[granule] = index + 1;
        self.empty -= usize::from(page.used == 0);
        page.used += 1;
        None
    }

    /// Returns the block at `address`.
    pub fn get(&self, address: u64) -> Option<Block> {
        let (number, granule) = place(address);
        let page = *self.places.get(&number)?;
        let index = self.pages[page as usize].starts[granule].checked_sub(1)?;
        Some(self.blocks[index as usize])
    }

    /// Removes and returns the block at `address`.
    #[inline(always)]
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        let (number, granule) = place(address);
        let page = self.find(number)?;
        let page: &mut Page = &mut self.pages[page as usize];
        let index = page.starts[granule].checked_sub(1)?;
        page.starts[granule] = 0;
        page.used -= 1;
        if page.used == 0 {
            self.empty += 1;
            if self.empty > MOST_EMPTY.max(self.places.len() / 2) {
                self.drop_empty();
            }
        }
        self.unused.push(index);
        Some(self.blocks[index as usize])
    }

    /// Returns the place of the page with this number.
    #[inline(always)]
    fn find(&mut self, number: u64) -> Option<u32> {
        match self.recent[recent_slot(number)] {
            (recent, page) if recent == number => Some(page),
            _ => self.look_up(number),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, number: u64) -> Option<u32> {
        let page = *self.places.get(&number)?;
        self.recent[recent_slot(number)] = (number, page);
        Some(page)
    }

    /// Adds an empty page.
    #[inline(never)]
    fn add(&mut self, number: u64) -> u32 {
        let page = self.spare.pop().unwrap_or_else(|| {
            self.pages.push(Box::new(Page { used: 0, starts: [0; GRANULES] }));
            (self.pages.len() - 1) as u32
        });
        self.places.insert(number, page);
        self.empty += 1;
        page
    }

    /// Forgets which pages the empty ones were. There are at least as many as pages in use, or [`MOST_EMPTY`], and each
    /// had been emptied since the last time.
    #[cold]
    fn drop_empty(&mut self) {
        let Blocks { places, pages, spare, .. } = self;
        places.retain(|_, page| {
            let is_used = pages[*page as usize].used > 0;
            if !is_used {
                spare.push(*page);
            }
            is_used
        });
        (self.empty, self.recent) = (0, [NO_PAGE; RECENT]);
    }
}

/// Returns the page of an address and the granule within it.
fn place(address: u64) -> (u64, usize) {
    let granule = address >> GRANULE;
    (granule / GRANULES as u64, (granule % GRANULES as u64) as usize)
}

/// Returns where in `recent` a page is. Neighbours are apart, and so are the arenas of threads, which begin at
/// multiples of a large power of two.
#[inline(always)]
fn recent_slot(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT.ilog2())) as usize
}

/// Spreads page numbers, which are dense, over all bits.
#[derive(Default)]
struct PageHasher {
    hash: u64,
}

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.hash ^ u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.hash = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_freed_blocks_are_used_again() {
        let mut blocks = Blocks::default();
        for number in 0..100_000 {
            let address = 0x7f00_0000_0000 + number * 16 * GRANULES as u64;
            assert_eq!(blocks.insert(address, Block { number, size: 1 }), None);
            assert_eq!(blocks.remove(address).map(|block| block.number), Some(number));
        }
        assert!(blocks.pages.len() <= MOST_EMPTY + 1 && blocks.blocks.len() == 1);
    }

    #[test]
    fn blocks_are_found_by_their_addresses_as_in_a_map() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut blocks, mut map) = (Blocks::default(), HashMap::new());
        for number in 0..200_000 {
            let address = 0x7f00_0000_0000 * random(2) + random(5000) * 16 * (1 + 999 * random(2));
            let block = Block { number, size: random(100) };
            if random(2) == 0 {
                assert_eq!(blocks.insert(address, block), map.insert(address, block));
            } else {
                assert_eq!(blocks.remove(address), map.remove(&address));
            }
        }
        assert!(!map.is_empty());
        for (address, block) in map {
            assert_eq!(blocks.remove(address), Some(block));
        }
        assert_eq!((blocks.empty, blocks.unused.len()), (blocks.places.len(), blocks.blocks.len()));
        assert_eq!(blocks.places.len() + blocks.spare.len(), blocks.pages.len());
        blocks.drop_empty();
        assert!(blocks.places.is_empty());
    }
}
