//! The index by length: the class map for holes up to 64 granules, bins of longer ones above. Behind best fit and
//! good fit, which differ in their bins.

use crate::bit_tree::{self, BitTree};
use crate::bits::{below, lowest};
use crate::cells::Cells;
use crate::index::Index;
use crate::index::class_map::{self, CLASSES, ClassMap, exact_in_word};
use crate::index::min_trie::{self, LengthBits, Node};
use crate::map::{BlockMap, Hole, PLAIN_WORDS, words_for};
use crate::state::Need;

/// How holes longer than 64 granules are divided into bins, the shortest first.
pub trait Bins {
    /// The bins of a region of `granules`.
    fn of_region(granules: usize) -> Self;

    /// How many bins there are.
    fn count(&self) -> usize;

    /// The bin of a hole of `len` granules (more than 64).
    fn bin(&self, len: usize) -> usize;

    /// The order inside a bin.
    fn order(&self, bin: usize) -> LengthBits;
}

/// An index of holes by length.
pub struct ByLength<'m, B> {
    bins: B,
    classes: ClassMap<'m>,
    /// The roots of the bins, then the set of those that are not empty.
    roots: Cells<'m, u64>,
}

impl<'m, B: Bins> ByLength<'m, B> {
    fn occupied(&self) -> BitTree {
        BitTree::new(self.bins.count(), self.bins.count())
    }

    #[inline(always)]
    fn root(&self, bin: usize) -> Node {
        Node(self.roots.get(bin) as u32)
    }

    #[inline]
    fn insert_long(&mut self, map: &mut BlockMap<'m>, hole: Hole) {
        let bin = self.bins.bin(hole.len);
        let mut root = self.root(bin);
        if root == Node(0) {
            self.occupied().insert(&mut self.roots, bin);
        }
        min_trie::insert(map, &mut root, self.bins.order(bin), hole);
        self.roots.set(bin, u64::from(root.0));
    }

    #[inline]
    fn remove_long(&mut self, map: &mut BlockMap<'m>, hole: Hole) {
        let bin = self.bins.bin(hole.len);
        let mut root = self.root(bin);
        min_trie::remove(map, &mut root, self.bins.order(bin), hole);
        self.roots.set(bin, u64::from(root.0));
        if root == Node(0) {
            self.occupied().remove(&mut self.roots, bin);
        }
    }

    /// The lowest hole of the shortest length from `len` on that is a class.
    #[inline(always)]
    pub(crate) fn shortest_class_from(&self, map: &BlockMap<'m>, height: u8, len: usize) -> Option<Hole> {
        if len > CLASSES {
            return None;
        }
        let lengths = self.classes.lengths() & !below(len - 1);
        (lengths != 0).then(|| self.classes.lowest(map, height, lowest(lengths) + 1))
    }

    /// The first hole of the first bin from `bin` on that is not empty.
    #[inline]
    pub(crate) fn first_of_bins_from(&self, map: &BlockMap<'m>, bin: usize) -> Option<Hole> {
        let bin = self.occupied().first_from(&self.roots, bin)?;
        Some(self.root(bin).hole(map))
    }

    /// The smallest hole of at least `len` granules, the lowest of equals.
    #[inline(always)]
    pub(crate) fn smallest_from(&self, map: &BlockMap<'m>, height: u8, len: usize) -> Option<Hole> {
        match self.shortest_class_from(map, height, len) {
            Some(hole) => Some(hole),
            None => self.smallest_long_from(map, len),
        }
    }

    #[inline]
    fn smallest_long_from(&self, map: &BlockMap<'m>, len: usize) -> Option<Hole> {
        if len <= CLASSES {
            return self.first_of_bins_from(map, 0);
        }
        let bin = self.bins.bin(len);
        let order = self.bins.order(bin);
        if order.0 == 0 {
            return self.first_of_bins_from(map, bin);
        }
        match min_trie::first_from(map, self.root(bin), order, len) {
            Some(hole) => Some(hole),
            None => self.first_of_bins_from(map, bin + 1),
        }
    }

    /// The smallest hole that `need` fits into, the lowest of equals; passes over those it does not.
    pub(crate) fn smallest_fitting(&self, map: &BlockMap<'m>, height: u8, need: &Need) -> Option<Hole> {
        for len in need.len..=CLASSES {
            if self.classes.lengths() >> (len - 1) & 1 == 0 {
                continue;
            }
            let mut word = self.classes.lowest(map, height, len).start / 64;
            loop {
                let mut holes = exact_in_word(map, word, 0, len);
                while holes != 0 {
                    let start = word * 64 + lowest(holes);
                    if need.fits(start, len) {
                        return Some(Hole { start, len });
                    }
                    holes &= holes - 1;
                }
                let Some(next) = self.classes.next_word(height, word, len) else { break };
                word = next;
            }
        }
        let mut bin = if need.len <= CLASSES { 0 } else { self.bins.bin(need.len) };
        loop {
            bin = self.occupied().first_from(&self.roots, bin)?;
            let fits = |hole: Hole| need.fits(hole.start, hole.len);
            if let Some(hole) = min_trie::first_that(map, self.root(bin), self.bins.order(bin), fits) {
                return Some(hole);
            }
            bin += 1;
        }
    }
}

impl<'m, B: Bins> Index<'m> for ByLength<'m, B> {
    const LEVEL_BITS: u32 = 6;

    fn cells_for(granules: usize) -> usize {
        let words = words_for(granules);
        if words <= PLAIN_WORDS {
            return 0;
        }
        let bins = B::of_region(granules).count();
        class_map::cells_for(words) + bins + bit_tree::cells_for(bins)
    }

    fn new(cells: Cells<'m, u64>, granules: usize) -> Self {
        let words = words_for(granules);
        let (classes, roots) = cells.divide(if words > PLAIN_WORDS { class_map::cells_for(words) } else { 0 });
        ByLength { bins: B::of_region(granules), classes: ClassMap::new(classes, words), roots }
    }

    #[inline(always)]
    fn insert(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        if hole.len <= CLASSES {
            self.classes.insert(height, hole);
        } else {
            self.insert_long(map, hole);
        }
    }

    #[inline(always)]
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        if hole.len <= CLASSES {
            self.classes.remove(map, height, hole);
        } else {
            self.remove_long(map, hole);
        }
    }

    fn raise(&mut self, height: u8) {
        self.classes.raise(height);
    }

    fn contains(&self, map: &BlockMap<'m>, height: u8, hole: Hole) -> bool {
        if hole.len <= CLASSES {
            return self.classes.contains(height, hole.start / 64, hole.len);
        }
        let bin = self.bins.bin(hole.len);
        min_trie::contains(map, self.root(bin), self.bins.order(bin), hole)
    }

    fn holds_only_holes(&self, map: &BlockMap<'m>, height: u8, words: usize, long: usize) -> bool {
        let classes_agree = (0..words).all(|word| {
            (1..=CLASSES).all(|len| !self.classes.contains(height, word, len) || exact_in_word(map, word, 0, len) != 0)
        });
        let held: usize = (0..self.bins.count()).map(|bin| min_trie::count(map, self.root(bin))).sum();
        classes_agree && held == long
    }
}

/// The bins of best fit: one per length as far as a thousandth of the region pays for, then eight to a doubling.
pub struct BestBins {
    /// Lengths below `2^exact` have bins of their own.
    exact: u32,
    count: usize,
}

impl Bins for BestBins {
    fn of_region(granules: usize) -> Self {
        let exact = (granules / 512 + 65).ilog2().clamp(7, 13);
        let doublings = (granules.ilog2() + 1).saturating_sub(exact) as usize;
        BestBins { exact, count: (1 << exact) - 65 + 8 * doublings }
    }

    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn bin(&self, len: usize) -> usize {
        if len >> self.exact == 0 {
            return len - 65;
        }
        let doubling = len.ilog2();
        ((1 << self.exact) - 65) + 8 * (doubling - self.exact) as usize + (len >> (doubling - 3) & 7)
    }

    #[inline(always)]
    fn order(&self, bin: usize) -> LengthBits {
        match bin.checked_sub((1 << self.exact) - 65) {
            Some(range) => LengthBits(self.exact + (range / 8) as u32 - 3),
            None => LengthBits(0),
        }
    }
}

/// The bins of good fit: eight to a doubling, each in the order of addresses.
pub struct GoodBins {
    count: usize,
}

impl Bins for GoodBins {
    fn of_region(granules: usize) -> Self {
        GoodBins { count: crate::classes::class_of(granules.max(CLASSES + 1)) - CLASSES }
    }

    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn bin(&self, len: usize) -> usize {
        crate::classes::class_of(len) - CLASSES - 1
    }

    #[inline(always)]
    fn order(&self, _bin: usize) -> LengthBits {
        LengthBits(0)
    }
}
