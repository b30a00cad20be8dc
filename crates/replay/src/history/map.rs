//! A map of a heap: addresses against time, and what lay there.

use std::ops::Range;

/// What lay in one cell of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Bytes in use, summed over the events of the cell's column: `used / (row_bytes * events)` is the share.
    pub used: u64,
    /// The class of which most of them were; the lowest of several. Of no meaning when nothing was used.
    pub class: u8,
}

/// One colouring of a map: blocks fall into classes (of size, of age, …).
///
/// Cells are exact and are kept up as blocks come and go; a column costs one pass over its rows, not a walk of the heap.
#[derive(Clone, Debug)]
pub struct Layer {
    classes: usize,
    row_bytes: u64,
    /// Bytes in use now, by row and class.
    used: Vec<u64>,
    /// Bytes in use, summed over the events of the column under way as if nothing changed until its end.
    sums: Vec<u64>,
    /// Column after column, from the lowest row.
    cells: Vec<Cell>,
}

impl Layer {
    fn new(rows: usize, classes: usize, row_bytes: u64) -> Layer {
        let empty = vec![0; rows * classes];
        Layer { classes, row_bytes, used: empty.clone(), sums: empty, cells: Vec::new() }
    }

    /// The cells, column after column (earliest first), in each from the lowest addresses.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Block bytes `start..end` of `class` change by `change`, for the `left` events of the column under way.
    #[inline]
    fn change(&mut self, bytes: Range<u64>, class: u8, left: u64, change: impl Fn(u64, u64) -> u64) {
        let rows = self.used.len() / self.classes;
        let mut start = bytes.start;
        while start < bytes.end {
            let row = (start / self.row_bytes) as usize;
            let end = bytes.end.min((row as u64 + 1) * self.row_bytes);
            let at = row.min(rows - 1) * self.classes + usize::from(class).min(self.classes - 1);
            self.used[at] = change(self.used[at], end - start);
            self.sums[at] = change(self.sums[at], (end - start) * left);
            start = end;
        }
    }

    /// Ends a column; the next has `events`.
    fn close_column(&mut self, events: u64) {
        for (used, sums) in self.used.chunks(self.classes).zip(self.sums.chunks_mut(self.classes)) {
            let mut cell = Cell::default();
            let mut most = 0;
            for (class, sum) in sums.iter().enumerate() {
                cell.used += sum;
                if *sum > most {
                    most = *sum;
                    cell.class = class as u8;
                }
            }
            self.cells.push(cell);
            for (sum, used) in sums.iter_mut().zip(used) {
                *sum = used * events;
            }
        }
    }
}

/// A map of a heap: rows of addresses, columns of events, in as many colourings as wanted.
///
/// The state after event `n` (from 0) is what column `n / column_events` shows for the length of one event.
#[derive(Clone, Debug)]
pub struct HeapMap {
    rows: usize,
    row_bytes: u64,
    column_events: u64,
    events: u64,
    /// Events so far, and events at the end of the column under way.
    now: u64,
    column_end: u64,
    layers: Vec<Layer>,
}

impl HeapMap {
    /// A map of a heap of `heap` bytes during `events` events, of at most so many `rows` and `columns`; `classes` has
    /// the number of classes of each colouring. Rows are whole multiples of `granule` bytes.
    #[must_use]
    pub fn new(heap: u64, granule: u64, events: u64, rows: usize, columns: usize, classes: &[usize]) -> HeapMap {
        let granule = granule.max(1);
        let row_bytes = heap.div_ceil(rows.max(1) as u64).next_multiple_of(granule).max(granule);
        let rows = heap.div_ceil(row_bytes).max(1) as usize;
        let column_events = events.div_ceil(columns.max(1) as u64).max(1);
        let layers = classes.iter().map(|&classes| Layer::new(rows, classes.max(1), row_bytes)).collect();
        HeapMap { rows, row_bytes, column_events, events, now: 0, column_end: column_events.min(events), layers }
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns are complete.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.cells.len() / self.rows)
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
        let start = column as u64 * self.column_events;
        self.events.saturating_sub(start).min(self.column_events)
    }

    /// The colourings, in the order in which they were asked for.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// During the event under way a block came to lie at these bytes; `classes` has its class in each colouring.
    #[inline]
    pub fn occupy(&mut self, bytes: Range<u64>, classes: &[u8]) {
        let left = self.column_end.saturating_sub(self.now);
        for (layer, &class) in self.layers.iter_mut().zip(classes) {
            layer.change(bytes.clone(), class, left, |now, more| now + more);
        }
    }

    /// During the event under way a block went that had come to lie at these bytes, with these classes.
    #[inline]
    pub fn vacate(&mut self, bytes: Range<u64>, classes: &[u8]) {
        let left = self.column_end.saturating_sub(self.now);
        for (layer, &class) in self.layers.iter_mut().zip(classes) {
            layer.change(bytes.clone(), class, left, |now, less| now.saturating_sub(less));
        }
    }

    /// The event under way is over.
    #[inline]
    pub fn end_event(&mut self) {
        self.now += 1;
        if self.now == self.column_end {
            self.close_column();
        }
    }

    #[cold]
    fn close_column(&mut self) {
        let next = self.column_events.min(self.events.saturating_sub(self.column_end));
        for layer in &mut self.layers {
            layer.close_column(next);
        }
        self.column_end += next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map by the definition: every byte, every event.
    struct Plain {
        bytes: Vec<Option<[u8; 2]>>,
        sums: Vec<Vec<[Vec<u64>; 2]>>,
    }

    #[test]
    fn cells_are_those_of_the_definition() {
        let (heap, events, classes) = (1000_u64, 203_u64, [3, 2]);
        let mut map = HeapMap::new(heap, 8, events, 7, 10, &classes);
        let (rows, row_bytes) = (map.rows(), map.row_bytes());
        assert!(rows <= 7 && row_bytes % 8 == 0 && rows as u64 * row_bytes >= heap);
        let columns = events.div_ceil(map.column_events()) as usize;
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
                let cell = &mut plain.sums[(event / map.column_events()) as usize][at / row_bytes as usize];
                for layer in 0..2 {
                    byte.iter().for_each(|class| cell[layer][usize::from(class[layer])] += 1);
                }
            }
        }
        assert_eq!(map.columns(), columns);
        for (layer, cells) in map.layers().iter().enumerate() {
            let expected = plain.sums.iter().flatten().map(|cell| {
                let most = cell[layer].iter().max().unwrap();
                let class = cell[layer].iter().position(|sum| sum == most).unwrap() as u8;
                Cell { used: cell[layer].iter().sum(), class }
            });
            assert_eq!(cells.cells(), expected.collect::<Vec<_>>(), "{layer}");
        }
        assert_eq!((0..columns).map(|column| map.events_of(column)).sum::<u64>(), events);
    }
}
