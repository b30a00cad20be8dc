//! The index by length, for best fit and good fit: the class map for holes up to 64 granules, and bins of longer ones
//! above. The two policies differ in their bins.

use core::marker::PhantomData;

use crate::bit_tree::{self, BitTree};
use crate::bits::{below, lowest};
use crate::cells::Cells;
use crate::heap::{Section, ShortLimit};
use crate::index::class_map::{self, CLASSES, ClassMap, exact_in_word};
use crate::index::min_trie::{self, LengthBits, Node, base_of, stretch_of, stretches};
use crate::index::{Index, Survey, Update};
use crate::map::{BlockMap, Hole, PLAIN_WORDS, words_for};
use crate::parts::{Parts, Reach};
use crate::state::Need;

/// How holes longer than 64 granules are divided into bins, the shortest first.
pub trait Bins: 'static {
    /// The bins of a region of `granules`.
    fn of_region(granules: usize) -> Self;

    /// Decodes the bins that [`Bins::to_cell`] encoded.
    fn from_cell(cell: u64) -> Self;

    /// Encodes the bins in one cell.
    fn to_cell(&self) -> u64;

    /// Returns the number of bins.
    fn count(&self) -> usize;

    /// Returns the bin of a hole of `len` granules (more than 64).
    fn bin(&self, len: usize) -> usize;

    /// Returns the order inside a bin.
    fn order(&self, bin: usize) -> LengthBits;
}

/// An index of holes by length.
pub struct ByLength<'m, B> {
    /// The encoded bins; the offset of their roots; how many stretches have had long holes; the class map; for each
    /// stretch the roots of its bins and the set of non-empty bins.
    cells: Cells<'m, u64>,
    short: ShortLimit,
    _bins: PhantomData<B>,
}

const BINS: usize = 0;
const ROOTS: usize = 1;
const STRETCHES: usize = 2;
const CLASS_MAP: usize = 3;

/// Where the bins of a stretch are: the offset of their roots, and the first word of the stretch.
#[derive(Clone, Copy)]
struct Stretch {
    roots: usize,
    base: usize,
}

/// Returns how many cells the bins of one stretch take.
const fn stretch_cells(bins: usize) -> usize {
    bins + bit_tree::cells_for(bins)
}

impl<'m, B: Bins> ByLength<'m, B> {
    #[inline(always)]
    fn bins(&self) -> B {
        B::from_cell(self.cells.get(BINS))
    }

    #[inline(always)]
    const fn classes() -> ClassMap {
        ClassMap::new(CLASS_MAP)
    }

    /// Returns where the bins of a stretch are.
    #[inline(always)]
    fn stretch(&self, number: usize) -> Stretch {
        let first = Stretch { roots: self.cells.get(ROOTS) as usize, base: 0 };
        if number == 0 { first } else { self.later_stretch(first, number) }
    }

    #[cold]
    #[inline(never)]
    fn later_stretch(&self, first: Stretch, number: usize) -> Stretch {
        let roots = first.roots + number * stretch_cells(self.bins().count());
        Stretch { roots, base: base_of(number) }
    }

    /// Returns how many stretches have had long holes.
    #[inline(always)]
    fn stretches(&self) -> usize {
        self.cells.get(STRETCHES) as usize
    }

    #[inline(always)]
    fn occupied(&self, stretch: Stretch) -> BitTree {
        let count = self.bins().count();
        BitTree::new(stretch.roots + count, count)
    }

    #[inline(always)]
    fn root(&self, stretch: Stretch, bin: usize) -> Node {
        Node(self.cells.get(stretch.roots + bin) as u32)
    }

    #[inline(always)]
    fn set_root(&mut self, stretch: Stretch, bin: usize, root: Node) {
        self.cells.set(stretch.roots + bin, u64::from(root.0));
    }

    /// Returns a stretch's hole with its bin's order as a key: the first of several stretches is the bins' first.
    fn ranked(bins: &B, hole: Hole) -> (usize, usize, usize) {
        let bin = bins.bin(hole.len);
        (bin, if bins.order(bin).0 == 0 { 0 } else { hole.len }, hole.start)
    }

    /// Returns the first, in the order of the bins, of the holes that `find` returns for each stretch.
    #[inline(always)]
    fn first_of_stretches(&self, find: impl Fn(Stretch) -> Option<Hole>) -> Option<Hole> {
        if self.stretches() <= 1 { find(self.stretch(0)) } else { self.first_of_several(&find) }
    }

    #[cold]
    #[inline(never)]
    fn first_of_several(&self, find: &dyn Fn(Stretch) -> Option<Hole>) -> Option<Hole> {
        let bins = self.bins();
        (0..self.stretches())
            .filter_map(|number| find(self.stretch(number)))
            .min_by_key(|&hole| Self::ranked(&bins, hole))
    }

    #[inline(always)]
    fn insert_long(&mut self, map: &mut BlockMap<'m>, hole: Hole) {
        let bins = self.bins();
        let (bin, stretch) = (bins.bin(hole.len), self.stretch(stretch_of(hole)));
        let mut root = self.root(stretch, bin);
        if root == Node(0) {
            self.cells.set(STRETCHES, self.stretches().max(stretch_of(hole) + 1) as u64);
            self.occupied(stretch).insert(&mut self.cells, bin);
        }
        min_trie::insert(map, stretch.base, &mut root, bins.order(bin), hole);
        self.set_root(stretch, bin, root);
    }

    #[inline(always)]
    fn remove_long(&mut self, map: &mut BlockMap<'m>, hole: Hole) {
        let bins = self.bins();
        let (bin, stretch) = (bins.bin(hole.len), self.stretch(stretch_of(hole)));
        let mut root = self.root(stretch, bin);
        min_trie::remove(map, stretch.base, &mut root, bins.order(bin), hole);
        self.set_root(stretch, bin, root);
        if root == Node(0) {
            self.occupied(stretch).remove(&mut self.cells, bin);
        }
    }

    /// Returns the lowest hole of the shortest length from `len` on that is a class.
    #[inline(always)]
    pub(crate) fn shortest_class_from(&self, map: &BlockMap<'m>, height: u8, len: usize) -> Option<Hole> {
        if len > CLASSES {
            return None;
        }
        let classes = Self::classes();
        let lengths = classes.lengths(&self.cells) & !below(len - 1);
        (lengths != 0).then(|| classes.lowest(&self.cells, map, height, lowest(lengths) + 1))
    }

    /// Returns the first hole of the first non-empty bin from `bin` on.
    #[inline]
    pub(crate) fn first_of_bins_from(&self, map: &BlockMap<'m>, bin: usize) -> Option<Hole> {
        self.first_of_stretches(|stretch| self.first_of_bins_in(map, stretch, bin))
    }

    #[inline(always)]
    fn first_of_bins_in(&self, map: &BlockMap<'m>, stretch: Stretch, bin: usize) -> Option<Hole> {
        let bin = self.occupied(stretch).first_from(&self.cells, bin)?;
        Some(self.root(stretch, bin).hole(map, stretch.base))
    }

    /// Returns the smallest hole of at least `len` granules, the lowest of equals.
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
        let bins = self.bins();
        let bin = bins.bin(len);
        if bin >= bins.count() {
            return None;
        }
        let order = bins.order(bin);
        if order.0 == 0 {
            return self.first_of_bins_from(map, bin);
        }
        self.first_of_stretches(|stretch| {
            match min_trie::first_from(map, stretch.base, self.root(stretch, bin), order, len) {
                Some(hole) => Some(hole),
                None => self.first_of_bins_in(map, stretch, bin + 1),
            }
        })
    }

    /// Returns the smallest hole that `need` fits into, the lowest of equals; skips holes that it does not fit.
    pub(crate) fn smallest_fitting(&self, map: &BlockMap<'m>, height: u8, need: &Need) -> Option<Hole> {
        let (classes, bins) = (Self::classes(), self.bins());
        for len in need.len..=CLASSES {
            if classes.lengths(&self.cells) >> (len - 1) & 1 == 0 {
                continue;
            }
            let mut word = classes.lowest(&self.cells, map, height, len).start / 64;
            loop {
                let mut holes = exact_in_word(map, word, len);
                while holes != 0 {
                    let start = word * 64 + lowest(holes);
                    if need.fits(start, len) {
                        return Some(Hole { start, len });
                    }
                    holes &= holes - 1;
                }
                let Some(next) = classes.next_word(&self.cells, height, word, len) else { break };
                word = next;
            }
        }
        let mut bin = if need.len <= CLASSES { 0 } else { bins.bin(need.len) };
        loop {
            let next = |number| self.occupied(self.stretch(number)).first_from(&self.cells, bin);
            bin = (0..self.stretches()).filter_map(next).min()?;
            let fits = |hole: Hole| need.fits(hole.start, hole.len);
            let find = |stretch: Stretch| {
                min_trie::first_that(map, stretch.base, self.root(stretch, bin), bins.order(bin), fits)
            };
            if let Some(hole) = self.first_of_stretches(find) {
                return Some(hole);
            }
            bin += 1;
        }
    }
}

impl<'m, B: Bins> Section<'m> for ByLength<'m, B> {
    fn cells_for(granules: usize) -> usize {
        let words = words_for(granules);
        if words <= PLAIN_WORDS {
            return 0;
        }
        let bins = B::of_region(granules).count();
        CLASS_MAP + class_map::cells_for(words) + stretches(words) * stretch_cells(bins)
    }

    #[inline(always)]
    fn short_limit(&mut self) -> Option<&mut ShortLimit> {
        Some(&mut self.short)
    }

    fn add_parts(parts: &mut Parts<'_>, granules: usize, reach: Reach) {
        let words = words_for(granules);
        if words > PLAIN_WORDS {
            parts.add_whole(CLASS_MAP);
            class_map::add_parts(parts, words, words_for(reach.end), words_for(reach.short));
            let bins = B::of_region(granules).count();
            let [all, used] = [words, words_for(reach.end)].map(|words| stretches(words) * stretch_cells(bins));
            parts.add(all, used);
        }
    }

    fn new(mut cells: Cells<'m, u64>, granules: usize) -> Self {
        let words = words_for(granules);
        if words > PLAIN_WORDS {
            cells.set(BINS, B::of_region(granules).to_cell());
            Self::classes().lay_out(&mut cells, words);
            cells.set(ROOTS, (CLASS_MAP + class_map::cells_for(words)) as u64);
        }
        ByLength { cells, short: ShortLimit::NONE, _bins: PhantomData }
    }
}

impl<'m, B: Bins> Update<'m> for ByLength<'m, B> {
    #[inline(always)]
    fn root_bits(&self, height: u8) -> u32 {
        6 * (u32::from(height) + 1)
    }

    #[inline(always)]
    fn insert(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        if hole.len <= CLASSES {
            Self::classes().insert(&mut self.cells, height, hole);
        } else {
            self.insert_long(map, hole);
        }
    }

    #[inline(always)]
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        if hole.len <= CLASSES {
            Self::classes().remove(&mut self.cells, map, height, hole);
        } else {
            self.remove_long(map, hole);
        }
    }

    fn raise(&mut self, _map: &BlockMap<'m>, height: u8) {
        Self::classes().raise(&mut self.cells, height);
    }
}

impl<'m, B: Bins> Index<'m> for ByLength<'m, B> {
    #[inline(always)]
    fn reborrow(&mut self) -> impl Update<'_> {
        ByLength::<B> { cells: self.cells.reborrow(), short: self.short, _bins: PhantomData }
    }

    fn check(&self, map: &BlockMap<'m>, survey: &Survey) -> Result<(), usize> {
        let bins = B::of_region(survey.capacity);
        let roots = CLASS_MAP + class_map::cells_for(map.words());
        if (self.cells.get(BINS), self.cells.get(ROOTS)) != (bins.to_cell(), roots as u64) {
            return Err(0);
        }
        Self::classes().check(&self.cells, map, survey, words_for(self.short.granule))?;
        let used = stretches(survey.words);
        if self.stretches() > used {
            return Err(0);
        }
        let mut held = 0;
        for number in 0..used {
            held += self.count_in(map, survey, number)?;
        }
        // Every hole in a bin is a long one, and none is there twice.
        if held != survey.long {
            return Err(0);
        }
        Ok(())
    }
}

impl<'m, B: Bins> ByLength<'m, B> {
    /// Counts the long holes of a stretch that the index contains; otherwise returns a granule near an error.
    fn count_in(&self, map: &BlockMap<'m>, survey: &Survey, number: usize) -> Result<usize, usize> {
        let (bins, mut held) = (B::of_region(survey.capacity), 0);
        let stretch = self.stretch(number);
        let is_here = |hole: Hole| stretch_of(hole) == number && number < self.stretches();
        for bin in 0..bins.count() {
            let belongs =
                |hole: Hole| hole.len > CLASSES && bins.bin(hole.len) == bin && hole != map.pending() && is_here(hole);
            held +=
                min_trie::count(map, stretch.base, self.root(stretch, bin), bins.order(bin), survey.words, &belongs)?;
        }
        let occupied = self.occupied(stretch);
        occupied.check(&self.cells, bins.count(), |bin| self.root(stretch, bin) != Node(0)).map_err(|_| 0usize)?;
        Ok(held)
    }
}

/// The bins of best fit: one per length as far as a thousandth of the region suffices for them, then eight per
/// doubling.
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

    #[inline(always)]
    fn from_cell(cell: u64) -> Self {
        BestBins { exact: cell as u32, count: (cell >> 32) as usize }
    }

    fn to_cell(&self) -> u64 {
        u64::from(self.exact) | (self.count as u64) << 32
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

/// The bins of good fit: eight per doubling, each in address order.
pub struct GoodBins {
    count: usize,
}

impl Bins for GoodBins {
    fn of_region(granules: usize) -> Self {
        GoodBins { count: crate::classes::class_of(granules.max(CLASSES + 1)) - CLASSES }
    }

    #[inline(always)]
    fn from_cell(cell: u64) -> Self {
        GoodBins { count: cell as usize }
    }

    fn to_cell(&self) -> u64 {
        self.count as u64
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

#[cfg(test)]
mod tests;
