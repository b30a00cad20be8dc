//! The class map: the locations of the holes of each exact length up to 64 granules.
//!
//! A node is 64 words, one per length, so that the search for one length reads one word per level. At the lowest level,
//! bit `w` of the word for length `n` means that the `w`-th of the node's 64 map words has a hole of exactly `n`
//! granules; above, that the child has one. One word at the top has a bit per existing length.

use core::ops::Range;

use crate::bits::lowest;
use crate::cells::Cells;
use crate::index::Survey;
use crate::map::{BlockMap, Hole, words_for};
use crate::parts::Parts;
use crate::rules::MOST_GRANULES_BY_LENGTH;

/// Lengths up to this many granules are classes.
pub(crate) const CLASSES: usize = 64;

/// The most levels that a class map has: those of the longest region.
const LEVELS: usize = 7;
const _: () = assert!(words_for(MOST_GRANULES_BY_LENGTH) as u64 <= 1 << (6 * LEVELS));

/// Returns how many nodes each level has, the lowest first.
fn nodes_of_levels(words: usize) -> impl Iterator<Item = usize> {
    let mut width = words;
    core::iter::from_fn(move || {
        (width > 1).then(|| {
            width = width.div_ceil(64);
            width
        })
    })
}

/// Returns how many cells the class map of `words` map words takes.
pub(crate) fn cells_for(words: usize) -> usize {
    LEVELS + 1 + nodes_of_levels(words).sum::<usize>() * CLASSES
}

/// Adds the parts of the class map of `words` map words, as far as it is used for `used` of them, of which `short` have
/// holes that are classes.
pub(crate) fn add_parts(parts: &mut Parts<'_>, words: usize, mut used: usize, short: usize) {
    parts.add_whole(LEVELS + 1);
    let mut lowest = Some(short.div_ceil(64));
    for nodes in nodes_of_levels(words) {
        used = used.div_ceil(64);
        parts.add(nodes * CLASSES, (lowest.take().unwrap_or(used) + 1) * CLASSES);
    }
}

/// A view of the class map stored in `cells` from `base` on: first where each level begins, then the existing lengths
/// (bit `n - 1`), then the nodes, lowest level first.
#[derive(Clone, Copy)]
pub(crate) struct ClassMap {
    base: usize,
}

/// Calls `found` with the bit of each hole of exactly `len` granules (at most 64) that starts in `word`, the lowest
/// first, without those in `but`, until it returns `true`; returns whether it did.
///
/// Few holes have a start at that distance behind them that is not the next one: they are looked at one by one.
#[inline(always)]
pub(crate) fn any_exact(
    map: &BlockMap<'_>,
    word: usize,
    but: u64,
    len: usize,
    mut found: impl FnMut(usize) -> bool,
) -> bool {
    let (starts, behind) = (map.starts(word), map.starts(word + 1));
    let ends = starts >> (len - 1) >> 1 | behind << (64 - len);
    let mut holes = map.holes(word) & ends & !but;
    while holes != 0 {
        let bit = lowest(holes);
        let next = starts >> bit >> 1 | behind << (63 - bit);
        if lowest(next) + 1 == len && found(bit) {
            return true;
        }
        holes &= holes - 1;
    }
    false
}

/// Returns the holes of exactly `len` granules (at most 64) among those that start in `word`.
#[inline(always)]
pub(crate) fn exact_in_word(map: &BlockMap<'_>, word: usize, len: usize) -> u64 {
    let mut exact = 0;
    any_exact(map, word, 0, len, |bit| {
        exact |= 1 << bit;
        false
    });
    exact
}

impl ClassMap {
    #[inline(always)]
    pub(crate) const fn new(base: usize) -> Self {
        ClassMap { base }
    }

    /// Returns where the levels of a class map of `words` map words begin.
    fn first_cells(self, words: usize) -> impl Iterator<Item = usize> {
        nodes_of_levels(words)
            .scan(self.base + LEVELS + 1, |cell, nodes| Some(core::mem::replace(cell, *cell + nodes * CLASSES)))
    }

    /// Writes down where the levels begin.
    pub(crate) fn lay_out(self, cells: &mut Cells<'_, u64>, words: usize) {
        for (level, cell) in self.first_cells(words).enumerate() {
            cells.set(self.base + level, cell as u64);
        }
    }

    /// Returns the cell of a length in the node of `level` that contains `place`.
    #[inline(always)]
    fn cell(self, cells: &Cells<'_, u64>, level: usize, place: usize, class: usize) -> usize {
        cells.get(self.base + level) as usize + (place & !63) + class
    }

    /// Returns a bit for each length that has a hole.
    #[inline(always)]
    pub(crate) fn lengths(self, cells: &Cells<'_, u64>) -> u64 {
        cells.get(self.base + LEVELS)
    }

    #[inline(always)]
    fn set_lengths(self, cells: &mut Cells<'_, u64>, lengths: u64) {
        cells.set(self.base + LEVELS, lengths);
    }

    /// Inserts a hole. Sets the bits of all levels, even those that are set: tests would cost more by mispredictions
    /// than the stores.
    #[inline(always)]
    pub(crate) fn insert(self, cells: &mut Cells<'_, u64>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        for level in 0..usize::from(height) + 1 {
            let cell = self.cell(cells, level, place, class);
            cells.set(cell, cells.get(cell) | 1 << (place % 64));
            place /= 64;
        }
        self.set_lengths(cells, self.lengths(cells) | 1 << class);
    }

    /// Removes a hole. Clears the bit above where the word below became empty, without a branch, as in
    /// [`ClassMap::insert`].
    #[inline(always)]
    pub(crate) fn remove(self, cells: &mut Cells<'_, u64>, map: &BlockMap<'_>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        if any_exact(map, place, 1 << (hole.start % 64), hole.len, |_| true) {
            return;
        }
        let mut gone = 1;
        for level in 0..usize::from(height) + 1 {
            let cell = self.cell(cells, level, place, class);
            let after = cells.get(cell) & !(gone << (place % 64));
            cells.set(cell, after);
            gone = u64::from(after == 0);
            place /= 64;
        }
        self.set_lengths(cells, self.lengths(cells) & !(gone << class));
    }

    /// Returns the lowest hole of exactly `len` granules; there must be one ([`ClassMap::lengths`]).
    #[inline(always)]
    pub(crate) fn lowest(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, height: u8, len: usize) -> Hole {
        let class = len - 1;
        let mut place = 0;
        for level in (0..usize::from(height) + 1).rev() {
            place = place * 64 + lowest(cells.get(self.cell(cells, level, place * 64, class)));
        }
        let mut start = place * 64;
        any_exact(map, place, 0, len, |bit| {
            start += bit;
            true
        });
        Hole { start, len }
    }

    /// Returns the first map word above `word` that has a hole of exactly `len` granules.
    pub(crate) fn next_word(self, cells: &Cells<'_, u64>, height: u8, word: usize, len: usize) -> Option<usize> {
        let class = len - 1;
        let mut place = word;
        for level in 0..=usize::from(height) {
            let higher = cells.get(self.cell(cells, level, place, class)) & crate::bits::above(place % 64);
            if higher != 0 {
                place = place & !63 | lowest(higher);
                for level in (0..level).rev() {
                    place = place * 64 + lowest(cells.get(self.cell(cells, level, place * 64, class)));
                }
                return Some(place);
            }
            place /= 64;
        }
        None
    }

    /// Raises the root from `height`.
    pub(crate) fn raise(self, cells: &mut Cells<'_, u64>, height: u8) {
        let level = usize::from(height);
        for class in 0..CLASSES {
            let any = cells.get(self.cell(cells, level, 0, class)) != 0;
            cells.set(self.cell(cells, level + 1, 0, class), u64::from(any));
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
        let levels = || self.first_cells(map.words());
        if levels().enumerate().any(|(level, cell)| cells.get(self.base + level) != cell as u64) {
            return Err(0);
        }
        let (mut nodes, mut granules) = (survey.words.div_ceil(64), 64 * 64);
        let level = self.base + LEVELS + 1;
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
        for (height, (below, level)) in (1..).zip(levels().zip(levels().skip(1))) {
            let (children, kept) = (nodes.min(readable), height <= u32::from(survey.height));
            readable = usize::MAX;
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
