//! The heaps whose published figures came from a defect, implemented as published: a walk of a list of blocks.
//!
//! Used only for the rows named "as programmed". The engine computes everything else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use heapwright_placement::{Counters, Generator, Growth, HoleStats, Rules};

use heapwright_workloads::published::heaps::Heap;

/// The defect of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Report 000's worst fit: it uses the largest hole only when a remainder is left.
    WorstPassesOverExactFits,
    /// Report 003's next fit: its search starts after the rover's block and ends at the last block, without wrapping
    /// around.
    NextStopsAtTheEnd,
    /// Report 003's random fit, inferred from its figures: its search starts at a random hole, whether it fits or not,
    /// and ends at the last one, as that of its next fit.
    RandomStopsAtTheEnd,
}

#[derive(Clone, Copy)]
struct Block {
    len: usize,
    free: bool,
}

/// A heap with a defect: a list of all its blocks in address order.
pub struct Defective {
    defect: Defect,
    rules: Rules,
    blocks: BTreeMap<usize, Block>,
    /// The holes by length; among holes of equal length the lowest is the last.
    by_length: BTreeSet<(usize, Reverse<usize>)>,
    /// The rover of next fit. Its block can be merged into a hole; the rover then points into the hole, and the next
    /// block stays the same.
    rover: usize,
    end: usize,
    /// The state of the generator of random fit.
    pub seed: u64,
    counters: Counters,
}

impl Defective {
    /// Returns an empty heap that grows at its end.
    pub fn growing(defect: Defect, rules: Rules) -> Defective {
        Defective {
            defect,
            rules,
            blocks: BTreeMap::new(),
            by_length: BTreeSet::new(),
            rover: 0,
            end: 0,
            seed: 0,
            counters: Counters::default(),
        }
    }

    /// Returns a heap that is one hole of `capacity` bytes.
    pub fn fixed(defect: Defect, rules: Rules, capacity: usize) -> Defective {
        let mut heap = Defective::growing(defect, rules);
        heap.put_hole(0, capacity);
        heap.end = capacity;
        heap.counters.blocks = 1;
        heap
    }

    /// Returns the counters that the published tables show.
    pub fn counters(&self) -> Counters {
        Counters { heap_size: self.end as u64, ..self.counters }
    }

    /// Returns the lengths of the holes, without their headers.
    pub fn holes(&self) -> HoleStats {
        let mut stats = HoleStats::default();
        for &(len, _) in &self.by_length {
            stats.add(len - self.rules.header as usize);
        }
        stats
    }

    fn choose(&mut self, need: usize) -> Option<usize> {
        match self.defect {
            Defect::WorstPassesOverExactFits => {
                let &(len, Reverse(start)) = self.by_length.last()?;
                (len > need).then_some(start)
            }
            Defect::NextStopsAtTheEnd => {
                let behind_rover = self.blocks.range(self.rover + 1..).next();
                self.first_from(behind_rover.map_or(0, |(&start, _)| start), need)
            }
            Defect::RandomStopsAtTheEnd => {
                let count = self.by_length.len();
                let drawn = (count > 0).then(|| Generator(&mut self.seed).below(count))?;
                let (&from, _) = self.blocks.iter().filter(|(_, block)| block.free).nth(drawn)?;
                self.first_from(from, need)
            }
        }
    }

    /// Returns the lowest hole at or above `from` with room for `need` bytes.
    fn first_from(&self, from: usize, need: usize) -> Option<usize> {
        let found = self.blocks.range(from..).find(|(_, block)| block.free && block.len >= need);
        found.map(|(&start, _)| start)
    }

    /// Takes `need` bytes from the low end of the hole at `start`.
    fn carve(&mut self, start: usize, need: usize) {
        let len = self.take_hole(start);
        let rest = len - need;
        let split = rest >= self.rules.min_remainder as usize;
        let taken = if split { need } else { len };
        self.blocks.insert(start, Block { len: taken, free: false });
        if split {
            self.put_hole(start + need, rest);
            self.counters.splits += 1;
            self.counters.blocks += 1;
        }
        self.rover = if split { start + need } else { start };
        self.counters.reuses += 1;
    }

    fn append(&mut self, need: usize) -> usize {
        let start = self.end;
        self.blocks.insert(start, Block { len: need, free: false });
        self.end += need;
        self.counters.grows += 1;
        self.counters.blocks += 1;
        start
    }

    fn put_hole(&mut self, start: usize, len: usize) {
        self.blocks.insert(start, Block { len, free: true });
        self.by_length.insert((len, Reverse(start)));
    }

    /// Removes the hole at `start` and returns its length.
    fn take_hole(&mut self, start: usize) -> usize {
        let len = self.blocks.remove(&start).map_or(0, |block| block.len);
        self.by_length.remove(&(len, Reverse(start)));
        len
    }

    /// Removes the hole at `start`, which becomes part of a neighbour, and returns its length.
    fn absorb(&mut self, start: usize) -> usize {
        self.counters.coalesces += 1;
        self.counters.blocks -= 1;
        self.take_hole(start)
    }
}

impl Heap for Defective {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let header = self.rules.header as usize;
        let need = bytes.next_multiple_of(self.rules.granule as usize) + header;
        let fixed = self.rules.growth == Growth::Fixed;
        let start = match self.choose(need) {
            Some(start) => {
                self.carve(start, need);
                start
            }
            None if fixed => return None,
            None => self.append(need),
        };
        self.counters.mallocs += 1;
        self.counters.rounded += (need - header) as u64;
        Some(start + header)
    }

    fn free(&mut self, block: usize) {
        let start = block - self.rules.header as usize;
        let Some(freed) = self.blocks.get(&start).copied() else { return };
        let behind = self.blocks.range(start + freed.len..).next().filter(|(_, next)| next.free).map(|(&at, _)| at);
        let before = self.blocks.range(..start).next_back().filter(|(_, last)| last.free).map(|(&at, _)| at);
        self.blocks.remove(&start);
        let len = freed.len + behind.map_or(0, |at| self.absorb(at)) + before.map_or(0, |at| self.absorb(at));
        self.put_hole(before.unwrap_or(start), len);
        self.counters.frees += 1;
    }
}
