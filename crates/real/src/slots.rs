//! Assigns each live block of a trace a slot of the worker's table.

use std::collections::{HashMap, VecDeque};

use anyhow::{Result, ensure};
use foldhash::fast::FixedState;

use super::op::MOST_SLOTS;

/// Maximal number of freed slots that a thread keeps for itself.
const OWN: usize = 1024;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its slot.
    pub slot: u32,
    /// The requested bytes.
    pub size: u64,
    /// Those of them that are written to.
    pub written: u64,
}

/// The live blocks of a trace. Memory is proportional to their number, not to the length of the trace.
///
/// A thread that frees a block keeps its slot and reuses the latest one first: threads that are replayed at the same
/// time then do not wait for each other's slots. Beyond a limit, the oldest slots become available to all threads.
#[derive(Default)]
pub struct Slots {
    live: HashMap<u64, Live, FixedState>,
    own: Vec<VecDeque<u32>>,
    common: VecDeque<u32>,
    len: u32,
}

impl Slots {
    /// Returns the required length of the table.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Adds a block that a thread allocates and returns its slot.
    ///
    /// # Errors
    /// When more than [`MOST_SLOTS`] blocks are live.
    pub fn insert(&mut self, thread: usize, block: u64, size: u64, written: u64) -> Result<u32> {
        let freed = self.own.get_mut(thread).and_then(VecDeque::pop_back).or_else(|| self.common.pop_front());
        let slot = match freed {
            Some(slot) => slot,
            None => {
                ensure!(u64::from(self.len) < MOST_SLOTS, "more than {MOST_SLOTS} blocks are live at one time");
                self.len += 1;
                self.len - 1
            }
        };
        self.live.insert(block, Live { slot, size, written });
        Ok(slot)
    }

    /// Gives a block a new number and size in the same slot. Returns the block as it was, or `None` when it is not
    /// live.
    pub fn rename(&mut self, block: u64, becomes: u64, size: u64, written: u64) -> Option<Live> {
        let old = self.live.remove(&block)?;
        self.live.insert(becomes, Live { slot: old.slot, size, written });
        Some(old)
    }

    /// Removes a block that a thread frees. Returns `None` when it is not live.
    pub fn remove(&mut self, thread: usize, block: u64) -> Option<Live> {
        let old = self.live.remove(&block)?;
        if self.own.len() <= thread {
            self.own.resize_with(thread + 1, VecDeque::new);
        }
        let own = &mut self.own[thread];
        own.push_back(old.slot);
        if own.len() > OWN {
            self.common.extend(own.pop_front());
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_as_long_as_the_most_blocks_that_live() {
        let mut slots = Slots::default();
        for round in 0..10 {
            for block in 0..3000 {
                slots.insert(0, round * 3000 + block, 1, 1).unwrap();
            }
            for block in 0..3000 {
                assert!(slots.remove(0, round * 3000 + block).is_some());
            }
        }
        assert_eq!(slots.len(), 3000);
    }

    #[test]
    fn a_block_is_renamed_and_freed_once() {
        let mut slots = Slots::default();
        let slot = slots.insert(0, 7, 100, 90).unwrap();
        assert_eq!(slots.rename(7, 8, 200, 200), Some(Live { slot, size: 100, written: 90 }));
        assert_eq!(slots.rename(7, 9, 200, 200), None);
        assert_eq!(slots.remove(1, 8), Some(Live { slot, size: 200, written: 200 }));
        assert_eq!(slots.remove(1, 8), None);
        assert_ne!(slots.insert(0, 9, 1, 1).unwrap(), slot, "the place is thread 1's");
        assert_eq!(slots.insert(1, 10, 1, 1).unwrap(), slot);
    }

    #[test]
    fn what_one_thread_frees_serves_others_in_the_end() {
        let mut slots = Slots::default();
        for block in 0..100_000 {
            slots.insert(0, block, 1, 1).unwrap();
            slots.remove(1, block).unwrap();
        }
        assert!(slots.len() <= OWN + 2, "{}", slots.len());
    }
}
