//! The counted classes: the number of holes of each exact length up to 64 granules, and the location of the one with a
//! given rank by address.
//!
//! Sixteen words of the map are a group. The lowest level counts the holes of each length by group, the next one by 16
//! groups, and so on. A node is 16 neighbours of a level, one row per length, so that the search for one length reads
//! one row per level. Totals stand over all, and over those the totals of eight lengths each; levels from the root's
//! height on are not kept.

use core::hint::select_unpredictable;
use core::ops::Range;

use crate::bits::lowest;
use crate::cells::Cells;
use crate::index::class_map::{CLASSES, any_exact};
use crate::index::{Survey, height_over};
use crate::map::{BlockMap, Hole};
use crate::parts::Parts;

/// Number of words in a group, and of places of one level per place of the next.
const FAN: usize = 1 << FAN_BITS;
pub(crate) const FAN_BITS: u32 = 4;

/// The binary logarithm of how many counts of groups share a cell: at most every other granule of a group is a hole.
const PACKING: u32 = 2;
const LANES: usize = 1 << PACKING;
const LANE_BITS: usize = 16;
const _: () = assert!(FAN * 64 / 2 < 1 << LANE_BITS);

/// Number of lengths that share a total.
const SET: usize = 8;
const SETS: usize = CLASSES / SET;
/// The totals: of every length, then of every set of lengths.
const TOTALS: usize = CLASSES + SETS;

/// Returns how many cells the counts of a map of `words` words take.
pub(crate) const fn cells_for(words: usize) -> usize {
    let mut level = Level::groups(TOTALS, words);
    while level.width > 1 {
        level = level.above();
    }
    level.base
}

/// Adds the parts of the counts of `words` map words, as far as they are used for `used` of them.
pub(crate) fn add_parts(parts: &mut Parts<'_>, words: usize, mut used: usize) {
    parts.add_whole(TOTALS);
    let mut level = Level::groups(TOTALS, words);
    while level.width > 1 {
        used = used.div_ceil(FAN);
        let (above, nodes) = (level.above(), used.div_ceil(FAN) + 1);
        parts.add(above.base - level.base, nodes * level.cells_of(FAN) * CLASSES);
        level = above;
    }
}

/// One level: its offset, its number of places, and the binary logarithm of its counts per cell.
#[derive(Clone, Copy)]
struct Level {
    base: usize,
    width: usize,
    packing: u32,
}

/// Where a count lies: the lane of the cell in steps of [`LANE_BITS`].
#[derive(Clone, Copy)]
struct Spot {
    cell: usize,
    lane: usize,
}

impl Level {
    #[inline(always)]
    const fn groups(base: usize, words: usize) -> Level {
        Level { base, width: words.div_ceil(FAN), packing: PACKING }
    }

    /// Returns how many cells `counts` counts take.
    #[inline(always)]
    const fn cells_of(self, counts: usize) -> usize {
        (counts + (1 << self.packing) - 1) >> self.packing
    }

    /// Returns the level above.
    #[inline(always)]
    const fn above(self) -> Level {
        let whole = self.width & !(FAN - 1);
        let cells = self.cells_of(whole) + self.cells_of(self.width - whole);
        Level { base: self.base + cells * CLASSES, width: self.width.div_ceil(FAN), packing: 0 }
    }

    /// Returns the offset of the row of `class` in the node that contains `place`. The last node's rows are as short as
    /// possible.
    #[inline(always)]
    fn row(self, class: usize, place: usize) -> usize {
        let node = place & !(FAN - 1);
        let row = self.cells_of((self.width - node).min(FAN));
        self.base + self.cells_of(node) * CLASSES + class * row
    }

    #[inline(always)]
    fn spot(self, class: usize, place: usize) -> Spot {
        let place_in_row = place % FAN;
        let cell_in_row = place_in_row >> self.packing;
        Spot { cell: self.row(class, place) + cell_in_row, lane: place_in_row - (cell_in_row << self.packing) }
    }

    #[inline(always)]
    fn get(self, cells: &Cells<'_, u64>, class: usize, place: usize) -> usize {
        let Spot { cell, lane } = self.spot(class, place);
        let count = cells.get(cell) >> (lane * LANE_BITS);
        (if self.packing == 0 { count } else { count & ((1 << LANE_BITS) - 1) }) as usize
    }

    /// Checks that the counts at `place` equal `expected` for each class.
    fn check(self, cells: &Cells<'_, u64>, place: usize, expected: impl Fn(usize) -> usize) -> Result<(), ()> {
        let agrees = (0..CLASSES).all(|class| self.get(cells, class, place) == expected(class));
        if agrees { Ok(()) } else { Err(()) }
    }

    /// Adds `change` to a count; the sum is not negative and fits, so that no lane reaches into the next.
    #[inline(always)]
    fn add(self, cells: &mut Cells<'_, u64>, class: usize, place: usize, change: i64) {
        let Spot { cell, lane } = self.spot(class, place);
        cells.set(cell, cells.get(cell).wrapping_add_signed(change << (lane * LANE_BITS)));
    }
}

/// A view of the counts stored in `cells` from `base` on: the totals, then the levels, the lowest first.
#[derive(Clone, Copy)]
pub(crate) struct CountedClasses {
    base: usize,
    words: usize,
}

impl CountedClasses {
    #[inline(always)]
    pub(crate) const fn new(base: usize, words: usize) -> Self {
        CountedClasses { base, words }
    }

    #[inline(always)]
    fn groups(self) -> Level {
        Level::groups(self.base + TOTALS, self.words)
    }

    /// Returns the levels, lowest first; a root at height `h` has `h` of them below it.
    #[inline(always)]
    fn levels(self, height: u8) -> [Level; 8] {
        let mut levels = [self.groups(); 8];
        for k in 1..usize::from(height).min(8) {
            levels[k] = levels[k - 1].above();
        }
        levels
    }

    /// Returns how many holes of exactly `len` granules there are.
    #[inline(always)]
    fn total(self, cells: &Cells<'_, u64>, len: usize) -> usize {
        cells.get(self.base + len - 1) as usize
    }

    /// Returns the cell that counts the holes of the lengths of `set`.
    #[inline(always)]
    fn set(self, set: usize) -> usize {
        self.base + CLASSES + set
    }

    /// Returns the totals of the sets.
    #[inline(always)]
    fn sets<'c>(self, cells: &'c Cells<'_, u64>) -> &'c [u64; SETS] {
        cells.row(self.set(0))
    }

    /// Returns the number of holes.
    #[inline(always)]
    pub(crate) fn size(self, cells: &Cells<'_, u64>) -> usize {
        self.sets(cells).iter().sum::<u64>() as usize
    }

    /// Returns how many holes are shorter than `len` granules (at most one more than the longest class).
    #[inline(always)]
    pub(crate) fn shorter(self, cells: &Cells<'_, u64>, len: usize) -> usize {
        let class = len - 1;
        // Behind the last class are the sets, of which none is added then.
        let classes: &[u64; SET] = cells.row(self.base + (class & !(SET - 1)));
        (sum_before(self.sets(cells), class / SET) + sum_before(classes, class % SET)) as usize
    }

    /// Adds or removes one hole (`change` is 1 or -1).
    #[inline(always)]
    pub(crate) fn count(self, cells: &mut Cells<'_, u64>, height: u8, hole: Hole, change: i64) {
        let class = hole.len - 1;
        for total in [self.base + class, self.set(class / SET)] {
            cells.set(total, cells.get(total).wrapping_add_signed(change));
        }
        let mut place = hole.start / 64;
        let mut level = self.groups();
        for _ in 0..height {
            place /= FAN;
            level.add(cells, class, place, change);
            level = level.above();
        }
    }

    /// Raises the root from `height`: everything lies at the first place of the new highest level.
    pub(crate) fn raise(self, cells: &mut Cells<'_, u64>, height: u8) {
        let level = self.levels(height + 1)[usize::from(height)];
        for class in 0..CLASSES {
            let total = cells.get(self.base + class) as i64;
            level.add(cells, class, 0, total);
        }
    }

    /// Returns the hole with `rank` others before it in the order of (length, address); `rank` is below their number.
    #[inline]
    pub(crate) fn select(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, height: u8, mut rank: usize) -> Hole {
        let set = pass_over_row(&mut rank, self.sets(cells));
        let classes: &[u64; SET] = cells.row(self.base + set * SET);
        let class = set * SET + pass_over_row(&mut rank, classes);
        let len = class + 1;
        let levels = self.levels(height);
        let mut place = 0;
        for level in levels[..usize::from(height)].iter().skip(1).rev() {
            place = pass_over(&mut rank, place * FAN, |place| level.get(cells, class, place));
        }
        if height > 0 {
            place = place * FAN + pass_over_lanes(&mut rank, cells.row(levels[0].row(class, place * FAN)));
        }
        let mut word = place * FAN;
        let mut bit = 0;
        let mut is_last = |hole: usize| {
            bit = hole;
            rank = rank.wrapping_sub(1);
            rank == usize::MAX
        };
        while !any_exact(map, word, 0, len, &mut is_last) {
            word += 1;
        }
        Hole { start: word * 64 + bit, len }
    }

    /// Checks that every count agrees with the map, and all on levels above the root are 0; otherwise returns a granule
    /// near the error.
    pub(crate) fn check(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, survey: &Survey) -> Result<(), usize> {
        let height = height_over(self.words, FAN_BITS);
        let levels = self.levels(height as u8);
        let levels = &levels[..height as usize];
        let mut totals = [0; CLASSES];
        for group in 0..survey.words.div_ceil(FAN) {
            let counts = count_group(map, group * FAN..survey.words.min((group + 1) * FAN));
            if let Some(level) = levels.first() {
                let kept = survey.height > 0;
                let expected = |class: usize| if kept { counts[class] } else { 0 };
                level.check(cells, group, expected).map_err(|()| group * FAN * 64)?;
            }
            totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
        let mut places = survey.words.div_ceil(FAN);
        for (k, pair) in levels.windows(2).enumerate() {
            let kept = k + 1 < usize::from(survey.height);
            for place in 0..places.div_ceil(FAN) {
                let among = if kept { place * FAN..places.min((place + 1) * FAN) } else { 0..0 };
                let expected = |class| among.clone().map(|child| pair[0].get(cells, class, child)).sum();
                pair[1].check(cells, place, expected).map_err(|()| place << (6 + FAN_BITS * (k as u32 + 2)))?;
            }
            places = places.div_ceil(FAN);
        }
        self.check_totals(cells, &totals)
    }

    fn check_totals(self, cells: &Cells<'_, u64>, totals: &[usize; CLASSES]) -> Result<(), usize> {
        let of_classes = (0..CLASSES).all(|class| self.total(cells, class + 1) == totals[class]);
        let mut sets = totals.chunks(SET).enumerate();
        let of_sets = sets.all(|(set, totals)| cells.get(self.set(set)) == totals.iter().sum::<usize>() as u64);
        if of_classes && of_sets { Ok(()) } else { Err(0) }
    }
}

/// Counts the holes of each length that start in `words`, without the pending one.
fn count_group(map: &BlockMap<'_>, words: Range<usize>) -> [usize; CLASSES] {
    let mut counts = [0; CLASSES];
    for word in words {
        for hole in map.holes_in(word, map.pending_in(word)).filter(|hole| hole.len <= CLASSES) {
            counts[hole.len - 1] += 1;
        }
    }
    counts
}

/// Returns the sum of the first `count` values of a row.
#[inline(always)]
fn sum_before<const N: usize>(row: &[u64; N], count: usize) -> u64 {
    row.iter().enumerate().map(|(place, value)| select_unpredictable(place < count, *value, 0)).sum()
}

/// As [`pass_over`] for a row whose sum is above `rank`, without a branch: where it stops cannot be predicted.
#[inline(always)]
fn pass_over_row<const N: usize>(rank: &mut usize, row: &[u64; N]) -> usize {
    let (mut sum, mut passed, mut place) = (0, 0, 0);
    for value in row {
        sum += *value as usize;
        let is_passed = sum <= *rank;
        place += usize::from(is_passed);
        passed = select_unpredictable(is_passed, sum, passed);
    }
    *rank -= passed;
    place
}

/// One in each lane.
const ONES: u64 = u64::MAX / ((1 << LANE_BITS) - 1);
/// The highest bit of each lane, which no sum over a node reaches.
const HIGHEST_BITS: u64 = ONES << (LANE_BITS - 1);
const _: () = assert!(FAN * FAN * 64 / 2 < 1 << (LANE_BITS - 1));

/// As [`pass_over_row`] for the counts of a node, four to a cell. What lies behind a shorter row is not reached: it
/// must exist, but may be anything.
#[inline(always)]
fn pass_over_lanes(rank: &mut usize, row: &[u64; FAN / LANES]) -> usize {
    let cell = pass_over_row(rank, &row.map(sum_of_lanes));
    // The sums up to each lane; the product carries each lane into all above it.
    let sums = row[cell % row.len()].wrapping_mul(ONES);
    // The highest bit of a lane stays where its sum is passed. A borrow goes upwards: what is wrong is above the stop.
    let stops = !((*rank as u64).wrapping_mul(ONES) | HIGHEST_BITS).wrapping_sub(sums) & HIGHEST_BITS;
    let lane = lowest(stops | 1 << 63) / LANE_BITS;
    *rank -= ((sums << LANE_BITS) >> (lane * LANE_BITS)) as usize & ((1 << LANE_BITS) - 1);
    cell * LANES + lane
}

/// Returns the sum of the lanes of a cell.
#[inline(always)]
fn sum_of_lanes(counts: u64) -> u64 {
    const EVEN: u64 = u64::MAX / ((1 << (2 * LANE_BITS)) - 1) * ((1 << LANE_BITS) - 1);
    let pairs = (counts & EVEN) + (counts >> LANE_BITS & EVEN);
    (pairs + (pairs >> (2 * LANE_BITS))) & u64::from(u32::MAX)
}

/// Skips counts from `place` on while their sum is at most `rank`, subtracts the skipped ones from `rank`, and returns
/// the place where it stops. The sum of all counts is above `rank`.
#[inline(always)]
fn pass_over(rank: &mut usize, mut place: usize, count: impl Fn(usize) -> usize) -> usize {
    let mut here = count(place);
    while *rank >= here {
        *rank -= here;
        place += 1;
        here = count(place);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Generator;

    #[test]
    fn a_row_is_passed_over_as_count_by_count() {
        let mut seed = 1;
        let mut numbers = Generator(&mut seed);
        for _ in 0..10_000 {
            let most = 1 + numbers.below(512);
            let counts: [u64; FAN] = core::array::from_fn(|_| numbers.below(most + 1) as u64);
            let sum = counts.iter().sum::<u64>() as usize;
            if sum == 0 {
                continue;
            }
            let rank = numbers.below(sum);
            let mut left = rank;
            let place = pass_over(&mut left, 0, |place| counts[place] as usize);
            let mut in_row = rank;
            assert_eq!((pass_over_row(&mut in_row, &counts), in_row), (place, left), "{rank} of {counts:?}");
            let mut in_lanes = rank;
            let cell = |cell: usize| (0..LANES).map(|lane| counts[cell * LANES + lane] << (lane * LANE_BITS)).sum();
            let cells: [u64; FAN / LANES] = core::array::from_fn(cell);
            assert_eq!((pass_over_lanes(&mut in_lanes, &cells), in_lanes), (place, left), "{rank} of {counts:?}");
            let mut in_lanes = rank;
            let beyond = |at: usize, cell: u64| match (at * LANES).abs_diff(place) {
                _ if at * LANES > place => u64::MAX,
                distance if distance < LANES - 1 => cell | u64::MAX << ((distance + 1) * LANE_BITS),
                _ => cell,
            };
            let cells: [u64; FAN / LANES] = core::array::from_fn(|at| beyond(at, cells[at]));
            assert_eq!((pass_over_lanes(&mut in_lanes, &cells), in_lanes), (place, left), "{rank}, then anything");
            assert_eq!(sum_before(&counts, place) as usize, rank - left);
        }
    }
}
