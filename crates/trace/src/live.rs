//! Values of live blocks by number.

/// Values of live blocks by the numbers of the blocks: a table that costs less per event than maps for any keys.
///
/// Values lie in slots, which are numbered from 0; the slot of a block that went is taken again. An index of 8 bytes
/// per entry, at most half full, has the slots of all blocks.
///
/// ```
/// use heapwright_trace::LiveBlocks;
/// let mut sizes = LiveBlocks::default();
/// assert_eq!([sizes.insert(7, 100), sizes.insert(9, 200)], [0, 1]);
/// assert_eq!([sizes.remove(7), sizes.remove(7)], [Some((0, 100)), None]);
/// assert_eq!((sizes.len(), sizes.insert(10, 300)), (1, 0));
/// ```
#[derive(Clone, Debug)]
pub struct LiveBlocks<T> {
    /// The lower half of the number of a block, then its slot; [`NONE`] without a block. A power of two of them.
    index: Vec<u64>,
    /// The number and the value of the block that is, or was, in each slot.
    slots: Vec<(u64, T)>,
    free: Vec<u32>,
}

/// No block has this entry, because there are fewer slots.
const NONE: u64 = u64::MAX;

/// The golden ratio as a part of 2^64: its multiples lie as far apart as can be.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The fewest entries of the index.
const FEWEST: usize = 64;

impl<T> Default for LiveBlocks<T> {
    fn default() -> Self {
        LiveBlocks { index: vec![NONE; FEWEST], slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> LiveBlocks<T> {
    /// Returns the number of blocks.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether there is no block.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a block, or replaces its value; returns its slot.
    #[inline]
    pub fn insert(&mut self, block: u64, value: T) -> u32 {
        if 2 * self.len() >= self.index.len() {
            self.lengthen();
        }
        let at = self.find(block);
        let slot = match self.index[at] {
            NONE => self.free.pop().unwrap_or(self.slots.len() as u32),
            entry => entry as u32,
        };
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = (block, value),
            None => self.slots.push((block, value)),
        }
        self.index[at] = u64::from(block as u32) << 32 | u64::from(slot);
        slot
    }

    /// Removes a block and returns its slot and value; `None` if there is none.
    #[inline]
    pub fn remove(&mut self, block: u64) -> Option<(u32, T)> {
        let at = self.find(block);
        let entry = self.index[at];
        if entry == NONE {
            return None;
        }
        let slot = entry as u32;
        self.free.push(slot);
        self.close_gap(at);
        Some((slot, self.slots[slot as usize].1))
    }

    /// Returns all blocks with their slots and values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32, T)> {
        let used = self.index.iter().filter(|&&entry| entry != NONE);
        used.map(|&entry| (self.slots[entry as u32 as usize].0, entry as u32, self.slots[entry as u32 as usize].1))
    }

    /// Returns the place of a block of this lower half.
    #[inline]
    fn place(&self, half: u64) -> usize {
        (half.wrapping_mul(SPREAD) >> (u64::BITS - self.index.len().trailing_zeros())) as usize
    }

    /// Returns the place in the index where a block is, or would be.
    #[inline]
    fn find(&self, block: u64) -> usize {
        let half = block & u64::from(u32::MAX);
        let mut at = self.place(half);
        loop {
            let entry = self.index[at];
            if entry == NONE || entry >> 32 == half && self.slots[entry as u32 as usize].0 == block {
                return at;
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    /// Removes an entry of the index, and moves those behind it that would not be found otherwise.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.index.len() - 1;
        let mut at = (gap + 1) & mask;
        while self.index[at] != NONE {
            let from_place = at.wrapping_sub(self.place(self.index[at] >> 32)) & mask;
            if from_place >= at.wrapping_sub(gap) & mask {
                self.index[gap] = self.index[at];
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.index[gap] = NONE;
    }

    #[cold]
    #[inline(never)]
    fn lengthen(&mut self) {
        let longer = vec![NONE; 2 * self.index.len()];
        for entry in std::mem::replace(&mut self.index, longer) {
            if entry != NONE {
                let at = self.find(self.slots[entry as u32 as usize].0);
                self.index[at] = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn blocks_match_a_hash_map() {
        let (mut blocks, mut shadow) = (LiveBlocks::default(), HashMap::new());
        let mut random = fastrand::Rng::with_seed(1);
        // Also numbers of which many have the same place.
        let all: Vec<u64> = (0..3000).flat_map(|number: u64| [number, number << 40]).collect();
        for round in 0..400_000_u32 {
            let block = all[random.usize(..all.len())];
            if random.u8(..100) < if round < 200_000 { 60 } else { 40 } {
                blocks.insert(block, round);
                shadow.insert(block, round);
            } else {
                assert_eq!(blocks.remove(block).map(|(_, value)| value), shadow.remove(&block), "{block}");
            }
            assert_eq!((blocks.len(), blocks.is_empty()), (shadow.len(), shadow.is_empty()));
        }
        assert_eq!(blocks.iter().map(|(block, _, value)| (block, value)).collect::<HashMap<u64, u32>>(), shadow);
        let mut slots: Vec<u32> = blocks.iter().map(|(_, slot, _)| slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() == blocks.len() && slots.iter().all(|&slot| (slot as usize) < all.len()));
        all.iter().for_each(|&block| assert_eq!(blocks.remove(block).map(|(_, value)| value), shadow.remove(&block)));
        assert!(blocks.is_empty());
    }
}
