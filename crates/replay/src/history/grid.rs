//! A raster of a heap: cells of a range of addresses and a range of events.

/// The classes of a colouring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// The number of classes, at least 1.
    pub count: usize,
    /// The number of classes, from the first, that take precedence. A later class is that of a cell only if the cell
    /// has nothing else.
    pub ranked: usize,
}

impl From<usize> for Classes {
    /// Returns `count` classes of equal precedence.
    fn from(count: usize) -> Classes {
        Classes { count: count.max(1), ranked: count.max(1) }
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

    fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.bytes.chunks(self.classes.count)
    }

    /// Replaces all sums.
    pub(super) fn set(&mut self, sums: impl Iterator<Item = u64>) {
        self.bytes.iter_mut().zip(sums).for_each(|(old, new)| *old = new);
    }

    /// Adds two rows of `finer` to each row.
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

/// A raster of a heap: rows of addresses, columns of events, in one or more colourings.
///
/// The state after event `n` (from 0) counts for one event in column `n / column_events`.
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

    /// Returns an empty grid whose cells cover twice as many bytes and events.
    fn coarser(&self) -> Grid {
        let rows = self.rows.div_ceil(2);
        Grid::new(rows, 2 * self.row_bytes, self.column_events.saturating_mul(2), self.events, self.classes.len())
    }

    /// Adds a column. Each colouring classifies the same bytes.
    pub(super) fn push_column<'s>(&mut self, colourings: impl Iterator<Item = &'s Sums>) {
        let start = self.used.len();
        for (classes, sums) in self.classes.iter_mut().zip(colourings) {
            if self.used.len() == start {
                self.used.extend(sums.rows().map(|row| row.iter().sum::<u64>()));
            }
            classes.extend(sums.rows().map(|row| most(row, sums.classes.ranked)));
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of complete columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.used.len() / self.rows
    }

    /// Returns the bytes of addresses per row.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Returns the number of events per column; the last column may have fewer.
    #[must_use]
    pub fn column_events(&self) -> u64 {
        self.column_events
    }

    /// Returns the number of events in column `column`.
    #[must_use]
    pub fn events_of(&self, column: usize) -> u64 {
        let start = (column as u64).saturating_mul(self.column_events);
        self.events.saturating_sub(start).min(self.column_events)
    }

    /// Returns the used bytes of each cell, summed over the events of its column: `used / (row_bytes * events)` is the
    /// share. Ordered by column, the earliest first, and within a column by address.
    #[must_use]
    pub fn used(&self) -> &[u64] {
        &self.used
    }

    /// Returns, per colouring, the [class](Classes::ranked) with the most bytes in each cell, the lowest in a tie.
    /// Ordered as [`Grid::used`]; the class of an unused cell has no meaning.
    #[must_use]
    pub fn classes(&self) -> &[Vec<u8>] {
        &self.classes
    }
}

/// Returns the class with the most bytes, the lowest in a tie. Classes from `ranked` on count only if no other has
/// bytes.
fn most(row: &[u64], ranked: usize) -> u8 {
    let most_of = |classes: std::ops::Range<usize>| {
        classes.fold((0, 0), |(best, most), class| if row[class] > most { (class, row[class]) } else { (best, most) })
    };
    let ranked = ranked.min(row.len());
    match most_of(0..ranked) {
        (_, 0) => most_of(ranked..row.len()).0 as u8,
        (class, _) => class as u8,
    }
}

/// A grid that merges the cells of a finer one, two by two in both directions.
#[derive(Clone, Debug)]
pub(super) struct Coarser {
    pub(super) grid: Grid,
    /// The sums of the current column.
    sums: Vec<Sums>,
    /// Whether the current column has its first half.
    is_begun: bool,
}

impl Coarser {
    pub(super) fn than(finer: &Grid, classes: &[Classes]) -> Coarser {
        let grid = finer.coarser();
        let sums = classes.iter().map(|&classes| Sums::new(grid.rows, classes)).collect();
        Coarser { grid, sums, is_begun: false }
    }

    /// Adds a column of the finer grid; returns whether that completed a column of this one.
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
