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

/// Blocks by address. Each operation takes constant time. Memory: a quarter of the process's pages of 16 KiB in which
/// blocks start, and 16 bytes per block.
#[derive(Default)]
pub struct Blocks {
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<PageHasher>>,
    /// Those in use, and those that are not and whose places `unused` lists.
    blocks: Vec<Block>,
    unused: Vec<u32>,
}

/// The blocks that start in one page.
struct Page {
    used: u32,
    /// 0 for none, otherwise one more than the block's index.
    starts: [u32; GRANULES],
}

impl Blocks {
    /// Records a block at `address` and returns the block that was recorded there before. Beyond 2³² live blocks,
    /// further ones are dropped.
    #[inline]
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        let (page, granule) = place(address);
        let page = self.pages.entry(page).or_insert_with(|| Box::new(Page { used: 0, starts: [0; GRANULES] }));
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
        page.used += 1;
        None
    }

    /// Returns the block at `address`.
    pub fn get(&self, address: u64) -> Option<Block> {
        let (page, granule) = place(address);
        let index = self.pages.get(&page)?.starts[granule].checked_sub(1)?;
        Some(self.blocks[index as usize])
    }

    /// Removes and returns the block at `address`.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        let (number, granule) = place(address);
        let page = self.pages.get_mut(&number)?;
        let index = page.starts[granule].checked_sub(1)?;
        page.starts[granule] = 0;
        page.used -= 1;
        if page.used == 0 {
            self.pages.remove(&number);
        }
        self.unused.push(index);
        Some(self.blocks[index as usize])
    }
}

/// Returns the page of an address and the granule within it.
fn place(address: u64) -> (u64, usize) {
    let granule = address >> GRANULE;
    (granule / GRANULES as u64, (granule % GRANULES as u64) as usize)
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
        assert!(blocks.pages.is_empty() && blocks.unused.len() == blocks.blocks.len());
    }
}
