//! A map of a heap, addresses against time, updated incrementally.

use std::ops::Range;

use super::grid::{Classes, Coarser, Grid, Sums};

/// The bytes of a class in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// The used bytes now.
    used: u64,
    /// The used bytes summed over the events of the current column, assuming no further change until its end.
    sum: u64,
}

/// One colouring of a map: a classification of blocks by size, age or call site.
#[derive(Clone, Debug)]
struct Layer {
    /// The cells of the current column, row after row.
    cells: Vec<Cell>,
    classes: usize,
    /// The sums of the current column at its end.
    sums: Sums,
}

impl Layer {
    fn new(rows: usize, classes: Classes) -> Layer {
        Layer {
            cells: vec![Cell::default(); rows * classes.count],
            classes: classes.count,
            sums: Sums::new(rows, classes),
        }
    }

    /// Returns the cell of a class in a row. A class beyond the last counts as the last.
    #[inline]
    fn cell(&mut self, row: usize, class: u8) -> &mut Cell {
        &mut self.cells[row * self.classes + usize::from(class).min(self.classes - 1)]
    }

    /// Begins a column of `events` events.
    fn begin_column(&mut self, events: u64) {
        self.cells.iter_mut().for_each(|cell| cell.sum = cell.used * events);
    }

    fn end_column(&mut self) {
        self.sums.set(self.cells.iter().map(|cell| cell.sum));
    }
}

/// A map of a heap at several resolutions, in one or more colourings.
///
/// Cells are exact. An added or removed block costs a step per row that it covers, a column one pass over its rows. No
/// walk of the heap is needed.
#[derive(Clone, Debug)]
pub struct HeapMap {
    /// The number of events so far, and at the end of the current column.
    now: u64,
    column_end: u64,
    events: u64,
    last_row: usize,
    layers: Vec<Layer>,
    finest: Grid,
    coarser: Vec<Coarser>,
}

impl HeapMap {
    /// The number of grids.
    pub const LEVELS: usize = 3;

    /// Returns an empty map of a heap of `heap` bytes during `events` events. Its finest grid has at most `rows` rows,
    /// whose height is a multiple of `granule` bytes, and at most `columns` columns. `classes` has the classes per
    /// colouring.
    #[must_use]
    pub fn new(heap: u64, granule: u64, events: u64, rows: usize, columns: usize, classes: &[Classes]) -> HeapMap {
        let granule = granule.max(1);
        let row_bytes = heap.div_ceil(rows.max(1) as u64).next_multiple_of(granule).max(granule);
        let rows = heap.div_ceil(row_bytes).max(1) as usize;
        let column_events = events.div_ceil(columns.max(1) as u64).max(1);
        let finest = Grid::new(rows, row_bytes, column_events, events, classes.len());
        let mut coarser: Vec<Coarser> = Vec::new();
        while coarser.len() + 1 < Self::LEVELS {
            coarser.push(Coarser::than(coarser.last().map_or(&finest, |level| &level.grid), classes));
        }
        let layers = classes.iter().map(|&classes| Layer::new(rows, classes)).collect();
        HeapMap { now: 0, column_end: column_events.min(events), events, last_row: rows - 1, layers, finest, coarser }
    }

    /// Returns the grids, the finest first. Each other one merges the cells of the one before, two by two in both
    /// directions.
    pub fn levels(&self) -> impl Iterator<Item = &Grid> {
        std::iter::once(&self.finest).chain(self.coarser.iter().map(|level| &level.grid))
    }

    /// Adds a block at these bytes during the current event; `classes` has its class per colouring.
    #[inline]
    pub fn occupy(&mut self, bytes: Range<u64>, classes: &[u8]) {
        self.change(bytes, classes, |now, more| now + more);
    }

    /// Removes a block that was added with these bytes and classes, during the current event.
    #[inline]
    pub fn vacate(&mut self, bytes: Range<u64>, classes: &[u8]) {
        self.change(bytes, classes, u64::saturating_sub);
    }

    /// Changes the used bytes now, and the sums of the current column for the rest of its events.
    #[inline]
    fn change(&mut self, bytes: Range<u64>, classes: &[u8], change: impl Fn(u64, u64) -> u64) {
        let left = self.column_end.saturating_sub(self.now);
        let row_bytes = self.finest.row_bytes();
        let mut start = bytes.start;
        while start < bytes.end {
            let row = start / row_bytes;
            let end = bytes.end.min((row + 1) * row_bytes);
            let row = (row as usize).min(self.last_row);
            for (layer, &class) in self.layers.iter_mut().zip(classes) {
                let cell = layer.cell(row, class);
                cell.used = change(cell.used, end - start);
                cell.sum = change(cell.sum, (end - start) * left);
            }
            start = end;
        }
    }

    /// Ends the current event.
    #[inline]
    pub fn end_event(&mut self) {
        self.now += 1;
        if self.now == self.column_end {
            self.close_column();
        }
    }

    #[cold]
    fn close_column(&mut self) {
        let next = self.finest.column_events().min(self.events.saturating_sub(self.column_end));
        let HeapMap { finest, coarser, layers, .. } = self;
        layers.iter_mut().for_each(Layer::end_column);
        finest.push_column(layers.iter().map(|layer| &layer.sums));
        let is_last = next == 0;
        let mut done: Option<&Coarser> = None;
        for level in coarser {
            let is_complete = match done {
                None => level.add_column(layers.iter().map(|layer| &layer.sums), is_last),
                Some(finer) => level.add_column(finer.sums(), is_last),
            };
            if !is_complete {
                break;
            }
            done = Some(level);
        }
        layers.iter_mut().for_each(|layer| layer.begin_column(next));
        self.column_end += next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map by definition: every byte at every event.
    struct Plain {
        bytes: Vec<Option<[u8; 2]>>,
        sums: Vec<Vec<[Vec<u64>; 2]>>,
    }

    #[test]
    fn cells_match_the_definition() {
        let (heap, events, classes) = (1000_u64, 203_u64, [3, 2]);
        let mut map = HeapMap::new(heap, 8, events, 7, 10, &classes.map(Classes::from));
        let (rows, row_bytes, column_events) = {
            let grid = map.levels().next().unwrap();
            (grid.rows(), grid.row_bytes(), grid.column_events())
        };
        assert!(rows <= 7 && row_bytes % 8 == 0 && rows as u64 * row_bytes >= heap);
        let columns = events.div_ceil(column_events) as usize;
        let none = || classes.map(|classes| vec![0; classes]);
        let mut plain = Plain {
            bytes: vec![None; heap as usize],
            sums: (0..columns).map(|_| (0..rows).map(|_| none()).collect()).collect(),
        };
        let mut random = fastrand::Rng::with_seed(3);
        let mut live: Vec<(Range<u64>, [u8; 2])> = Vec::new();
        for event in 0..events {
            if random.bool() || live.is_empty() {
                let start = random.u64(..heap - 1);
                let end = random.u64(start + 1..heap.min(start + 400) + 1);
                if live.iter().all(|(other, _)| other.end <= start || end <= other.start) {
                    let class = [random.u8(..3), random.u8(..2)];
                    map.occupy(start..end, &class);
                    plain.bytes[start as usize..end as usize].fill(Some(class));
                    live.push((start..end, class));
                }
            } else {
                let (bytes, class) = live.swap_remove(random.usize(..live.len()));
                plain.bytes[bytes.start as usize..bytes.end as usize].fill(None);
                map.vacate(bytes, &class);
            }
            map.end_event();
            for (at, byte) in plain.bytes.iter().enumerate() {
                let cell = &mut plain.sums[(event / column_events) as usize][at / row_bytes as usize];
                for layer in 0..2 {
                    byte.iter().for_each(|class| cell[layer][usize::from(class[layer])] += 1);
                }
            }
        }
        for (level, grid) in map.levels().enumerate() {
            let join = 1 << level;
            assert_eq!((grid.row_bytes(), grid.column_events()), (join * row_bytes, join * column_events));
            let size = (columns.div_ceil(join as usize), rows.div_ceil(join as usize));
            assert_eq!((grid.columns(), grid.rows()), size);
            for colouring in 0..2 {
                let (used, classes) = plain.joined(join as usize, colouring, size);
                assert_eq!(grid.used(), used, "{level}");
                assert_eq!(grid.classes()[colouring], classes, "{level}");
            }
            assert_eq!((0..grid.columns()).map(|column| grid.events_of(column)).sum::<u64>(), events);
        }
        assert_eq!(map.levels().count(), HeapMap::LEVELS);
    }

    #[test]
    fn a_class_without_precedence_colours_only_cells_without_others() {
        let mut map = HeapMap::new(32, 16, 1, 2, 1, &[Classes { count: 3, ranked: 2 }]);
        map.occupy(0..1, &[1]);
        map.occupy(1..32, &[2]);
        map.end_event();
        let grid = map.levels().next().unwrap();
        assert_eq!((grid.used(), &grid.classes()[0][..]), (&[16, 16][..], &[1, 2][..]));
    }

    impl Plain {
        /// Returns bytes and classes of the cells merged `join` by `join`.
        fn joined(&self, join: usize, colouring: usize, (columns, rows): (usize, usize)) -> (Vec<u64>, Vec<u8>) {
            let sums = |cell: usize| {
                let (column, row) = (cell / rows * join, cell % rows * join);
                let within =
                    self.sums.iter().skip(column).take(join).flat_map(|column| column.iter().skip(row).take(join));
                within.fold(vec![0; 3], |mut sums, cell| {
                    cell[colouring].iter().enumerate().for_each(|(class, bytes)| sums[class] += bytes);
                    sums
                })
            };
            let cells = (0..columns * rows).map(sums);
            let class = |sums: &Vec<u64>| sums.iter().position(|sum| sum == sums.iter().max().unwrap()).unwrap() as u8;
            cells.map(|sums| (sums.iter().sum::<u64>(), class(&sums))).unzip()
        }
    }
}
