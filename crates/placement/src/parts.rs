//! How far a heap uses each part of its metadata, for heaps whose metadata is backed with memory as they grow.

/// How far a heap uses its region, in bytes from the region's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Where the heap ends.
    pub end: usize,
    /// Blocks and holes of up to 64 granules start below this. Best and good fit use most of their index for such holes
    /// only: a heap of long blocks needs little of it.
    pub short: usize,
}

impl Reach {
    /// The reach of a heap of `end` bytes that has short blocks anywhere.
    #[must_use]
    pub const fn whole(end: usize) -> Reach {
        Reach { end, short: end }
    }
}

/// A part of a heap's metadata, in cells of 8 bytes. The parts lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it starts.
    pub start: usize,
    /// Its length.
    pub length: usize,
    /// Number of cells, from its start on, that a heap of the given size may access.
    pub used: usize,
}

/// Collects parts in the order in which they lie.
pub struct Parts<'v> {
    at: usize,
    visit: &'v mut dyn FnMut(Part),
}

impl<'v> Parts<'v> {
    pub(crate) fn new(visit: &'v mut dyn FnMut(Part)) -> Self {
        Parts { at: 0, visit }
    }

    /// Adds a part of `length` cells, of which `used` are used, or all if that is more.
    #[inline(never)]
    pub(crate) fn add(&mut self, length: usize, used: usize) {
        if length != 0 {
            (self.visit)(Part { start: self.at, length, used: used.min(length) });
            self.at += length;
        }
    }

    /// Adds a part that is used as a whole.
    pub(crate) fn add_whole(&mut self, length: usize) {
        self.add(length, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any::AnyEngine;
    use crate::rules::{Growth, PolicyKind, Rules, Statistics};

    fn parts(policy: PolicyKind, capacity: usize, rules: &Rules, end: usize) -> (usize, usize, usize) {
        let (mut count, mut at, mut used) = (0, 0, 0);
        let mut visit = |part: Part| {
            assert!(part.start == at && part.used <= part.length && part.used > 0, "{part:?}");
            (count, at, used) = (count + 1, at + part.length, used + part.used);
        };
        AnyEngine::each_part(policy, capacity, rules, Reach::whole(end), &mut visit).unwrap();
        (count, at, used)
    }

    #[test]
    fn parts_add_up_to_the_metadata_and_grow_with_the_heap() {
        for policy in PolicyKind::ALL {
            for statistics in [Statistics::Kept, Statistics::Off] {
                for capacity in [256, 5000, 16384, 16400, 100_000, 1 << 22, 1 << 33, 1 << 40] {
                    let rules = Rules { growth: Growth::Pages(65536), statistics, ..Rules::default() };
                    let cells = AnyEngine::metadata_cells(policy, capacity, &rules).unwrap();
                    let mut before = 0;
                    for end in [0, 16, 1000, 1 << 20, 1 << 30, 1 << 40] {
                        let (_, whole, used) = parts(policy, capacity, &rules, end);
                        assert_eq!(whole, cells, "{policy:?} {capacity}");
                        assert!(used >= before && (end < capacity || used == cells), "{policy:?} {capacity} {end}");
                        before = used;
                    }
                }
            }
        }
    }
}
