//! The blocks of a process, indexed by address.
//!
//! A hash table of single addresses would scatter neighbouring blocks over memory, and a program with many blocks would
//! pay one or two cache misses per call. This index keeps locality: the address space is cut into pages, and each page
//! has an entry for each of its granules: the block that starts there.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::NonNull;

use heapwright_os::GOLDEN_RATIO;

/// Alignment of every block, as a power of two.
const GRANULE: u32 = 4;

/// Granules per page.
const GRANULES: usize = 512;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number in the trace.
    pub number: u64,
    /// Requested size in bytes.
    pub size: u64,
}

/// A block in a word: one more than its number above its size; or [`NONE`], or [`ELSEWHERE`].
type Entry = u64;

/// The entry of a granule in which no block starts.
const NONE: Entry = 0;

/// The entry of a block that does not fit into one.
const ELSEWHERE: Entry = u64::MAX;

/// The number of bits of an entry that are a block's size.
const SIZE_BITS: u32 = 24;

impl Block {
    /// Blocks of this size and longer ones do not fit into an entry.
    pub const LONG: u64 = (1 << SIZE_BITS) - 1;

    /// Blocks with this number and later ones do not fit into an entry.
    pub const LATE: u64 = (1 << (u64::BITS - SIZE_BITS)) - 1;

    /// Returns the block's entry, if it fits into one.
    #[inline(always)]
    fn to_entry(self) -> Option<Entry> {
        (self.size < Block::LONG && self.number < Block::LATE).then(|| (self.number + 1) << SIZE_BITS | self.size)
    }

    /// Returns the block of an entry; `None` for [`NONE`] and [`ELSEWHERE`].
    #[inline(always)]
    fn of_entry(entry: Entry) -> Option<Block> {
        // The two differ by one.
        let is_block = entry.wrapping_add(1) > NONE.wrapping_add(1);
        is_block.then(|| Block { number: (entry >> SIZE_BITS).wrapping_sub(1), size: entry & Block::LONG })
    }
}

/// Blocks by address. Each operation takes constant time, amortised. Memory: half of the pages of 8 KiB in which blocks
/// start, at most doubled by those in which none starts any more, at their peak; some 50 bytes for each block of 16 MiB
/// and more.
pub struct Blocks {
    /// The pages, by number.
    places: HashMap<u64, Place, BuildHasherDefault<PageHasher>>,
    /// Pages that `places` does not name, all empty.
    spare: Vec<Place>,
    /// The number of pages that `places` names at which empty ones are looked for. Those stay until then: a program
    /// that frees its only block of a page and allocates it again, in turns, does not make the page each time, and a
    /// call costs nothing for it.
    most: usize,
    /// Pages that were used last, by a hash of their numbers: those that are in `places`, and only those.
    recent: Recent,
    /// The blocks that do not fit into entries, by address.
    elsewhere: HashMap<u64, Block, foldhash::fast::RandomState>,
}

/// The blocks that start in one page.
type Page = [Entry; GRANULES];

/// A page, which its [`Blocks`] own: it lives as long as they do.
type Place = NonNull<Page>;

/// The number of pages at which empty ones are looked for first.
const LEAST_SEARCHED: usize = 64;

/// The number of pages that are found without the table, a power of two.
const RECENT: usize = 512;

/// Pages that are found without the table, by a hash of their numbers.
struct Recent {
    numbers: [u64; RECENT],
    pages: [Place; RECENT],
}

impl Recent {
    /// No pages: no address leads to these numbers.
    const NONE: Recent = Recent { numbers: [u64::MAX; RECENT], pages: [Place::dangling(); RECENT] };
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks {
            places: HashMap::default(),
            spare: Vec::new(),
            most: LEAST_SEARCHED,
            recent: Recent::NONE,
            elsewhere: HashMap::default(),
        }
    }
}

// SAFETY: the pages are reached through their owner only.
unsafe impl Send for Blocks {}

impl Drop for Blocks {
    fn drop(&mut self) {
        for page in self.places.values().copied().chain(self.spare.drain(..)) {
            // SAFETY: `add` has made the page of a box. It is in one of the two, once, and not used afterwards.
            drop(unsafe { Box::from_raw(page.as_ptr()) });
        }
    }
}

impl Blocks {
    /// Records a block at `address` and returns the block that was recorded there before.
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        let entry = block.to_entry().unwrap_or(ELSEWHERE);
        let before = std::mem::replace(self.entry(address), entry);
        let old = self.block(address, before);
        if before == ELSEWHERE {
            self.elsewhere.remove(&address);
        }
        if entry == ELSEWHERE {
            self.elsewhere.insert(address, block);
        }
        old
    }

    /// Records a block at `address`, and returns whether it did: not where a block is recorded, nor a block that is
    /// recorded elsewhere. [`Blocks::insert`] does.
    #[inline(always)]
    pub fn insert_usual(&mut self, address: u64, block: Block) -> bool {
        let Some(new) = block.to_entry() else { return false };
        let entry = self.entry(address);
        if *entry != NONE {
            return false;
        }
        *entry = new;
        true
    }

    /// Returns the block at `address`.
    pub fn get(&self, address: u64) -> Option<Block> {
        let (number, granule) = place(address);
        let page = *self.places.get(&number)?;
        // SAFETY: the page lives as long as `self`, and no reference to it is left of other calls.
        self.block(address, unsafe { page.as_ref() }[granule])
    }

    /// Removes and returns the block at `address`.
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        let (number, granule) = place(address);
        let mut page = self.look_up(number)?;
        // SAFETY: the page lives as long as `self`, which is borrowed as long as the reference is used.
        let entry = std::mem::replace(&mut unsafe { page.as_mut() }[granule], NONE);
        let block = self.block(address, entry);
        if entry == ELSEWHERE {
            self.elsewhere.remove(&address);
        }
        block
    }

    /// Removes and returns the block at `address`; `None`, and it stays, when it is recorded elsewhere.
    /// [`Blocks::remove`] removes it.
    #[inline(always)]
    pub fn remove_usual(&mut self, address: u64) -> Option<Block> {
        let entry = self.entry(address);
        let block = Block::of_entry(*entry)?;
        *entry = NONE;
        Some(block)
    }

    /// Returns the block at `address`, whose entry this is.
    fn block(&self, address: u64, entry: Entry) -> Option<Block> {
        if entry == ELSEWHERE { self.elsewhere.get(&address).copied() } else { Block::of_entry(entry) }
    }

    /// Returns the entry of a granule, whose page it adds if there is none.
    #[inline(always)]
    fn entry(&mut self, address: u64) -> &mut Entry {
        let (number, granule) = place(address);
        let slot = recent_slot(number);
        let is_recent = self.recent.numbers[slot] == number;
        let mut page = if is_recent { self.recent.pages[slot] } else { self.look_up_or_add(number) };
        // SAFETY: the page lives as long as `self`, which is borrowed as long as the reference is used. The places with
        // which `recent` begins have the number of no page.
        let page = unsafe { page.as_mut() };
        &mut page[granule]
    }

    #[cold]
    #[inline(never)]
    fn look_up_or_add(&mut self, number: u64) -> Place {
        match self.look_up(number) {
            Some(page) => page,
            None => self.add(number),
        }
    }

    fn look_up(&mut self, number: u64) -> Option<Place> {
        let page = *self.places.get(&number)?;
        let slot = recent_slot(number);
        (self.recent.numbers[slot], self.recent.pages[slot]) = (number, page);
        Some(page)
    }

    /// Adds an empty page.
    fn add(&mut self, number: u64) -> Place {
        if self.places.len() >= self.most {
            self.drop_empty();
        }
        let page = self.spare.pop().unwrap_or_else(|| NonNull::from(Box::leak(Box::new([NONE; GRANULES]))));
        self.places.insert(number, page);
        page
    }

    /// Forgets which pages the empty ones were. Half of the pages at least were added since the last time.
    #[cold]
    fn drop_empty(&mut self) {
        let Blocks { places, spare, .. } = self;
        places.retain(|_, page| {
            // SAFETY: the page lives as long as `self`, and no reference to it is left of other calls.
            let is_used = unsafe { page.as_ref() }.iter().any(|&entry| entry != NONE);
            if !is_used {
                spare.push(*page);
            }
            is_used
        });
        (self.most, self.recent) = (LEAST_SEARCHED.max(2 * self.places.len()), Recent::NONE);
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
    ((number as u32).wrapping_mul(0x9e37_79b1) >> (u32::BITS - RECENT.ilog2())) as usize
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
        let product = u128::from(number) * u128::from(GOLDEN_RATIO);
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
        assert!(blocks.places.len() + blocks.spare.len() <= LEAST_SEARCHED);
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
            // Some of them do not fit into an entry, or just do.
            let number = if random(10) == 0 { Block::LATE - 2 + random(3) } else { number };
            let size = if random(10) == 0 { Block::LONG - 2 + random(4) } else { random(100) };
            let block = Block { number, size };
            let is_usual = random(2) == 0;
            if random(2) == 0 {
                if !(is_usual && blocks.insert_usual(address, block)) {
                    assert_eq!(blocks.insert(address, block), map.insert(address, block));
                } else {
                    assert_eq!(map.insert(address, block), None);
                }
            } else {
                assert_eq!(blocks.get(address), map.get(&address).copied());
                let usual = if is_usual { blocks.remove_usual(address) } else { None };
                assert_eq!(usual.or_else(|| blocks.remove(address)), map.remove(&address));
            }
        }
        assert!(!map.is_empty());
        for (address, block) in map {
            assert_eq!(blocks.remove(address), Some(block));
        }
        assert!(blocks.elsewhere.is_empty());
        let pages = blocks.places.len() + blocks.spare.len();
        blocks.drop_empty();
        assert_eq!(blocks.spare.len(), pages);
        assert!(blocks.places.is_empty());
    }
}
