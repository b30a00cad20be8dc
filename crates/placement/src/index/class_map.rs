//! The class map: the locations of the holes of each exact length up to 64 granules.
//!
//! A node is 64 words, one per length, so that the search for one length reads one word per level. At the lowest level,
//! bit `w` of the word for length `n` means that the `w`-th of the node's 64 map words has a hole of exactly `n`
//! granules; above, that the child has one. One word at the top has a bit per existing length.

use core::ops::Range;

use crate::bits::{free_granules, highest, lowest, runs_of};
use crate::cells::Cells;
use crate::index::{Survey, height_over};
use crate::map::{BlockMap, Hole};
use crate::parts::Parts;

/// Lengths up to this many granules are classes.
pub(crate) const CLASSES: usize = 64;

/// Returns how many cells the class map of `words` map words takes.
pub(crate) const fn cells_for(words: usize) -> usize {
    let mut nodes = 0;
    let mut width = words;
    while width > 1 {
        width = width.div_ceil(64);
        nodes += width;
    }
    1 + nodes * CLASSES
}

/// Adds the parts of the class map of `words` map words, as far as it is used for `used` of them, of which `short` have
/// holes that are classes.
pub(crate) fn add_parts(parts: &mut Parts<'_>, words: usize, used: usize, short: usize) {
    parts.add_whole(1);
    let (mut width, mut used, mut lowest) = (words, used, Some(short.div_ceil(64)));
    while width > 1 {
        (width, used) = (width.div_ceil(64), used.div_ceil(64));
        parts.add(width * CLASSES, (lowest.take().unwrap_or(used) + 1) * CLASSES);
    }
}

/// A view of the class map stored in `cells` from `base` on: first the existing lengths (bit `n - 1`), then the nodes,
/// lowest level first.
#[derive(Clone, Copy)]
pub(crate) struct ClassMap {
    base: usize,
    words: usize,
}

/// Returns the holes of exactly `len` granules among those that start in `word`, without those in `but`.
#[inline(always)]
pub(crate) fn exact_in_word(map: &BlockMap<'_>, word: usize, but: u64, len: usize) -> u64 {
    let holes = map.holes(word);
    let rest = holes & !but;
    if rest == 0 {
        return 0;
    }
    exact_among(map, word, rest, len)
}

#[inline]
fn exact_among(map: &BlockMap<'_>, word: usize, holes: u64, len: usize) -> u64 {
    let free = free_granules(map.starts(word), holes);
    let longer = if len < 64 { free >> len } else { 0 };
    let within = runs_of(free, len) & holes & !longer;
    if free >> 63 == 0 {
        return within;
    }
    // The last hole may continue beyond the word, so that only the map has its length.
    let last = highest(holes);
    let exact = map.hole_at(word * 64 + last).len == len;
    within & !(1 << last) | u64::from(exact) << last
}

impl ClassMap {
    #[inline(always)]
    pub(crate) const fn new(base: usize, words: usize) -> Self {
        ClassMap { base, words }
    }

    /// Returns the first cell of the level above the one that starts at `level` with `width` nodes below, and its
    /// width.
    #[inline(always)]
    const fn up(level: usize, width: usize) -> (usize, usize) {
        (level + width * CLASSES, width.div_ceil(64))
    }

    /// Returns a bit for each length that has a hole.
    #[inline(always)]
    pub(crate) fn lengths(self, cells: &Cells<'_, u64>) -> u64 {
        cells.get(self.base)
    }

    /// Inserts a hole. Sets the bits of all levels, even those that are set: tests would cost more by mispredictions
    /// than the stores.
    #[inline(always)]
    pub(crate) fn insert(self, cells: &mut Cells<'_, u64>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        for _ in 0..=height {
            let cell = level + (place & !63) + class;
            cells.set(cell, cells.get(cell) | 1 << (place % 64));
            place /= 64;
            (level, width) = Self::up(level, width);
        }
        cells.set(self.base, cells.get(self.base) | 1 << class);
    }

    /// Removes a hole. Clears the bit above where the word below became empty, without a branch, as in
    /// [`ClassMap::insert`].
    #[inline(always)]
    pub(crate) fn remove(self, cells: &mut Cells<'_, u64>, map: &BlockMap<'_>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        if exact_in_word(map, place, 1 << (hole.start % 64), hole.len) != 0 {
            return;
        }
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        let mut gone = 1;
        for _ in 0..=height {
            let cell = level + (place & !63) + class;
            let after = cells.get(cell) & !(gone << (place % 64));
            cells.set(cell, after);
            gone = u64::from(after == 0);
            place /= 64;
            (level, width) = Self::up(level, width);
        }
        cells.set(self.base, cells.get(self.base) & !(gone << class));
    }

    /// Returns the start of each level up to `height`.
    #[inline(always)]
    fn levels(self, height: u8) -> [usize; 6] {
        let mut levels = [self.base + 1; 6];
        let mut width = self.words.div_ceil(64);
        for k in 0..usize::from(height).min(5) {
            (levels[k + 1], width) = Self::up(levels[k], width);
        }
        levels
    }

    /// Returns the lowest hole of exactly `len` granules; there must be one ([`ClassMap::lengths`]).
    #[inline(always)]
    pub(crate) fn lowest(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, height: u8, len: usize) -> Hole {
        let class = len - 1;
        let levels = self.levels(height);
        let mut place = 0;
        for &level in levels.iter().take(usize::from(height) + 1).rev() {
            place = place * 64 + lowest(cells.get(level + place * 64 + class));
        }
        let bit = lowest(exact_in_word(map, place, 0, len));
        Hole { start: place * 64 + bit, len }
    }

    /// Returns the first map word above `word` that has a hole of exactly `len` granules.
    pub(crate) fn next_word(self, cells: &Cells<'_, u64>, height: u8, word: usize, len: usize) -> Option<usize> {
        let class = len - 1;
        let levels = self.levels(height);
        let mut place = word;
        for k in 0..=usize::from(height) {
            let higher = cells.get(levels[k] + (place & !63) + class) & crate::bits::above(place % 64);
            if higher != 0 {
                place = place & !63 | lowest(higher);
                for &level in levels[..k].iter().rev() {
                    place = place * 64 + lowest(cells.get(level + place * 64 + class));
                }
                return Some(place);
            }
            place /= 64;
        }
        None
    }

    /// Raises the root from `height`.
    pub(crate) fn raise(self, cells: &mut Cells<'_, u64>, height: u8) {
        let levels = self.levels(height + 1);
        for class in 0..CLASSES {
            let any = cells.get(levels[usize::from(height)] + class) != 0;
            cells.set(levels[usize::from(height) + 1] + class, u64::from(any));
        }
    }

    /// Checks that every level up to the root agrees with the map and all above are empty, where only the first `short`
    /// words of the map may have holes that are classes; otherwise returns a granule
    /// near the error.
    pub(crate) fn check(
        self,
        cells: &Cells<'_, u64>,
        map: &BlockMap<'_>,
        survey: &Survey,
        short: usize,
    ) -> Result<(), usize> {
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        let (mut nodes, mut granules) = (survey.words.div_ceil(64), 64 * 64);
        let used = nodes.min(short.div_ceil(64));
        for node in 0..nodes {
            let expected = node_of_map(map, node * 64..survey.words.min((node + 1) * 64));
            let agrees = if node < used {
                check_node(cells, level + node * CLASSES, |class| expected[class])
            } else {
                expected.iter().all(|&holes| holes == 0).then_some(()).ok_or(())
            };
            agrees.map_err(|()| node * granules)?;
        }
        let (mut root, mut readable) = (level, used);
        for height in 1..=height_over(self.words, 6) {
            let (below, children, kept) = (level, nodes.min(readable), height <= u32::from(survey.height));
            readable = usize::MAX;
            (level, width) = Self::up(level, width);
            (nodes, granules) = (nodes.div_ceil(64), granules * 64);
            root = if kept { level } else { root };
            for node in 0..nodes {
                let among = if kept { node * 64..children.min((node + 1) * 64) } else { 0..0 };
                let present =
                    |class| bits_where(among.clone(), |child| cells.get(below + child * CLASSES + class) != 0);
                check_node(cells, level + node * CLASSES, present).map_err(|()| node * granules)?;
            }
        }
        let lengths = bits_where(0..CLASSES, |class| cells.get(root + class) != 0);
        if self.lengths(cells) == lengths { Ok(()) } else { Err(0) }
    }
}

/// Computes the node of the lowest level over `words` from the map.
fn node_of_map(map: &BlockMap<'_>, words: Range<usize>) -> [u64; CLASSES] {
    let mut node = [0; CLASSES];
    for word in words {
        for hole in map.holes_in(word, map.pending_in(word)).filter(|hole| hole.len <= CLASSES) {
            node[hole.len - 1] |= 1 << (word % 64);
        }
    }
    node
}

fn check_node(cells: &Cells<'_, u64>, node: usize, expected: impl Fn(usize) -> u64) -> Result<(), ()> {
    let agrees = (0..CLASSES).all(|class| cells.get(node + class) == expected(class));
    if agrees { Ok(()) } else { Err(()) }
}

/// Returns a bit for each of `places` (at most 64) for which `is_so` holds, the first as bit 0.
fn bits_where(places: Range<usize>, is_so: impl Fn(usize) -> bool) -> u64 {
    places.rev().fold(0, |bits, place| bits << 1 | u64::from(is_so(place)))
}
