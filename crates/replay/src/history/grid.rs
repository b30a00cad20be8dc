//! A picture of a heap: cells of so many addresses and so many events, and what lay there.

/// The classes of a colouring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// How many there are, at least 1.
    pub count: usize,
    /// So many of them, from the first, a cell may have the class of; those behind only where there is nothing else.
    pub told: usize,
}

impl From<usize> for Classes {
    /// All of them are told.
    fn from(count: usize) -> Classes {
        Classes { count: count.max(1), told: count.max(1) }
    }
}

/// Bytes in use by row and class, row after row.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    classes: Classes,
    bytes: Vec<u64>,
}

impl Sums {
    pub(super) fn new(rows: usize, classes: Classes) -> Sums {
        Sums { classes, bytes: vec![0; rows * classes.count] }
    }

    /// The bytes of a class in a row; a class that there is not is taken as the last.
    #[inline]
    pub(super) fn of(&mut self, row: usize, class: u8) -> &mut u64 {
        &mut self.bytes[row * self.classes.count + usize::from(class).min(self.classes.count - 1)]
    }

    fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.bytes.chunks(self.classes.count)
    }

    /// These bytes for so many events.
    pub(super) fn fill_with(&mut self, other: &Sums, events: u64) {
        for (sum, bytes) in self.bytes.iter_mut().zip(&other.bytes) {
            *sum = bytes * events;
        }
    }

    /// Adds what is in two rows of `finer` to each row.
    fn add_pairs(&mut self, finer: &Sums) {
        for (pair, row) in finer.bytes.chunks(2 * self.classes.count).zip(self.bytes.chunks_mut(self.classes.count)) {
            for one in pair.chunks(self.classes.count) {
                row.iter_mut().zip(one).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
    }

    fn clear(&mut self) {
        self.bytes.fill(0);
    }
}

/// A picture of a heap: rows of addresses, columns of events, in as many colourings as wanted.
///
/// The state after event `n` (from 0) is what column `n / column_events` shows for the length of one event.
#[derive(Clone, Debug)]
pub struct Grid {
    rows: usize,
    row_bytes: u64,
    column_events: u64,
    events: u64,
    used: Vec<u64>,
    classes: Vec<Vec<u8>>,
}

impl Grid {
    pub(super) fn new(rows: usize, row_bytes: u64, column_events: u64, events: u64, colourings: usize) -> Grid {
        Grid { rows, row_bytes, column_events, events, used: Vec::new(), classes: vec![Vec::new(); colourings] }
    }

    /// An empty one with cells of twice as many bytes and events.
    fn coarser(&self) -> Grid {
        let rows = self.rows.div_ceil(2);
        Grid::new(rows, 2 * self.row_bytes, self.column_events.saturating_mul(2), self.events, self.classes.len())
    }

    /// Adds a column, of which each colouring has the same bytes.
    pub(super) fn push_column<'s>(&mut self, colourings: impl Iterator<Item = &'s Sums>) {
        let start = self.used.len();
        for (classes, sums) in self.classes.iter_mut().zip(colourings) {
            if self.used.len() == start {
                self.used.extend(sums.rows().map(|row| row.iter().sum::<u64>()));
            }
            classes.extend(sums.rows().map(|row| most(row, sums.classes.told)));
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns are complete.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.used.len() / self.rows
    }

    /// How many bytes of addresses a row stands for.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// How many events a column stands for; the last one may have fewer.
    #[must_use]
    pub fn column_events(&self) -> u64 {
        self.column_events
    }

    /// How many events column `column` has.
    #[must_use]
    pub fn events_of(&self, column: usize) -> u64 {
        let start = (column as u64).saturating_mul(self.column_events);
        self.events.saturating_sub(start).min(self.column_events)
    }

    /// Bytes in use in each cell, summed over the events of its column, so that `used / (row_bytes * events)` is the share;
    /// column after column (the earliest first), in each from the lowest addresses.
    #[must_use]
    pub fn used(&self) -> &[u64] {
        &self.used
    }

    /// Of each colouring the [class](Classes::told) of which most bytes of each cell were, the lowest of several; in the same order as
    /// [`Grid::used`], and of no meaning where nothing was.
    #[must_use]
    pub fn classes(&self) -> &[Vec<u8>] {
        &self.classes
    }
}

/// The class with most bytes, the lowest of several; of those that are not told only if there is none else.
fn most(row: &[u64], told: usize) -> u8 {
    let most_of = |classes: std::ops::Range<usize>| {
        classes.fold((0, 0), |(best, most), class| if row[class] > most { (class, row[class]) } else { (best, most) })
    };
    let told = told.min(row.len());
    match most_of(0..told) {
        (_, 0) => most_of(told..row.len()).0 as u8,
        (class, _) => class as u8,
    }
}

/// A grid made of another one's cells, two by two in both directions.
#[derive(Clone, Debug)]
pub(super) struct Coarser {
    pub(super) grid: Grid,
    /// Of the column under way.
    sums: Vec<Sums>,
    /// Whether it has its first half.
    is_begun: bool,
}

impl Coarser {
    pub(super) fn than(finer: &Grid, classes: &[Classes]) -> Coarser {
        let grid = finer.coarser();
        let sums = classes.iter().map(|&classes| Sums::new(grid.rows, classes)).collect();
        Coarser { grid, sums, is_begun: false }
    }

    /// Takes up a column of the finer grid; returns whether that completed one of this.
    pub(super) fn add_column<'s>(&mut self, colourings: impl Iterator<Item = &'s Sums>, is_last: bool) -> bool {
        if !self.is_begun {
            self.sums.iter_mut().for_each(Sums::clear);
        }
        self.sums.iter_mut().zip(colourings).for_each(|(sums, finer)| sums.add_pairs(finer));
        self.is_begun = !(self.is_begun || is_last);
        if !self.is_begun {
            self.grid.push_column(self.sums.iter());
        }
        !self.is_begun
    }

    pub(super) fn sums(&self) -> impl Iterator<Item = &Sums> {
        self.sums.iter()
    }
}
