//! The class map: where the holes of each exact length up to 64 granules are.
//!
//! A node is 64 words side by side, one per length, so that the search for one length reads one word per level. At
//! the lowest level bit `w` of the word for length `n` says that the `w`-th of the node's 64 map words has a hole of
//! exactly `n` granules; above, that the child has one. A word over all says which lengths there are.

use core::ops::Range;

use crate::bits::{free_granules, highest, lowest, runs_of};
use crate::cells::Cells;
use crate::index::{Survey, height_over};
use crate::map::{BlockMap, Hole};

/// Lengths up to this many granules are classes.
pub(crate) const CLASSES: usize = 64;

/// How many cells the class map of `words` map words takes.
pub(crate) const fn cells_for(words: usize) -> usize {
    let mut nodes = 0;
    let mut width = words;
    while width > 1 {
        width = width.div_ceil(64);
        nodes += width;
    }
    1 + nodes * CLASSES
}

/// A view of the class map stored in `cells` from `base` on: first the lengths there are (bit `n - 1`), then the
/// nodes, the lowest level first.
#[derive(Clone, Copy)]
pub(crate) struct ClassMap {
    base: usize,
    words: usize,
}

/// The holes of exactly `len` granules among those that start in `word`, those in `but` left aside.
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
    // The last hole goes on behind the word, so only the map can tell its length.
    let last = highest(holes);
    let exact = map.hole_at(word * 64 + last).len == len;
    within & !(1 << last) | u64::from(exact) << last
}

impl ClassMap {
    #[inline(always)]
    pub(crate) const fn new(base: usize, words: usize) -> Self {
        ClassMap { base, words }
    }

    /// The first cell of the level above the one that starts at `level` with `width` nodes below, and its width.
    #[inline(always)]
    const fn up(level: usize, width: usize) -> (usize, usize) {
        (level + width * CLASSES, width.div_ceil(64))
    }

    /// A bit for each length of which there is a hole.
    #[inline(always)]
    pub(crate) fn lengths(self, cells: &Cells<'_, u64>) -> u64 {
        cells.get(self.base)
    }

    #[inline(always)]
    pub(crate) fn insert(self, cells: &mut Cells<'_, u64>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        for _ in 0..=height {
            let cell = level + (place & !63) + class;
            let before = cells.get(cell);
            cells.set(cell, before | 1 << (place % 64));
            if before != 0 {
                return;
            }
            place /= 64;
            (level, width) = Self::up(level, width);
        }
        cells.set(self.base, cells.get(self.base) | 1 << class);
    }

    #[inline(always)]
    pub(crate) fn remove(self, cells: &mut Cells<'_, u64>, map: &BlockMap<'_>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        if exact_in_word(map, place, 1 << (hole.start % 64), hole.len) != 0 {
            return;
        }
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        for _ in 0..=height {
            let cell = level + (place & !63) + class;
            let after = cells.get(cell) & !(1 << (place % 64));
            cells.set(cell, after);
            if after != 0 {
                return;
            }
            place /= 64;
            (level, width) = Self::up(level, width);
        }
        cells.set(self.base, cells.get(self.base) & !(1 << class));
    }

    /// The start of each level up to `height`.
    #[inline(always)]
    fn levels(self, height: u8) -> [usize; 6] {
        let mut levels = [self.base + 1; 6];
        let mut width = self.words.div_ceil(64);
        for k in 0..usize::from(height).min(5) {
            (levels[k + 1], width) = Self::up(levels[k], width);
        }
        levels
    }

    /// The lowest hole of exactly `len` granules; there is one ([`ClassMap::lengths`]).
    #[inline(always)]
    pub(crate) fn lowest(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, height: u8, len: usize) -> Hole {
        let class = len - 1;
        let levels = self.levels(height);
        let mut place = 0;
        for &level in levels[..=usize::from(height)].iter().rev() {
            place = place * 64 + lowest(cells.get(level + place * 64 + class));
        }
        let bit = lowest(exact_in_word(map, place, 0, len));
        Hole { start: place * 64 + bit, len }
    }

    /// The first map word above `word` that has a hole of exactly `len` granules.
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

    /// The root rises from `height`.
    pub(crate) fn raise(self, cells: &mut Cells<'_, u64>, height: u8) {
        let levels = self.levels(height + 1);
        for class in 0..CLASSES {
            let any = cells.get(levels[usize::from(height)] + class) != 0;
            cells.set(levels[usize::from(height) + 1] + class, u64::from(any));
        }
    }

    /// Whether every level up to the root is that of the map and all above are empty; else a granule near which they
    /// are not.
    pub(crate) fn check(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, survey: &Survey) -> Result<(), usize> {
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        let (mut nodes, mut granules) = (survey.words.div_ceil(64), 64 * 64);
        for node in 0..nodes {
            let expected = node_of_map(map, node * 64..survey.words.min((node + 1) * 64));
            check_node(cells, level + node * CLASSES, |class| expected[class]).map_err(|()| node * granules)?;
        }
        let mut root = level;
        for height in 1..=height_over(self.words, 6) {
            let (below, children, kept) = (level, nodes, height <= u32::from(survey.height));
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

/// The node of the lowest level over `words`, made from the map.
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

/// A bit for each of `places` (at most 64 of them) of which it is true, the first as bit 0.
fn bits_where(places: Range<usize>, is_so: impl Fn(usize) -> bool) -> u64 {
    places.rev().fold(0, |bits, place| bits << 1 | u64::from(is_so(place)))
}
