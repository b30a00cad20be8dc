//! Selects a part of a heap and a scale, and computes the contents of each cell of its map.

use heapwright_placement::{Block, BlockState};

/// The part of the heap that a map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All of it, whatever its length.
    Whole,
    /// From `start` on, in cells of `scale` bytes.
    Part {
        /// A multiple of a row's bytes.
        start: usize,
        /// Bytes per cell.
        scale: usize,
    },
}

/// The heap and the map of a view.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Bytes from the region's start to the heap's end.
    pub heap: usize,
    /// The smallest unit of placement, in bytes.
    pub granule: usize,
    /// Cells in a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

impl Frame {
    fn cells(&self) -> usize {
        (self.columns * self.rows).max(1)
    }

    /// Returns the bytes per cell of a map of the whole heap: a round number, at most a quarter more than needed.
    fn whole_scale(&self) -> usize {
        let needed = self.heap.div_ceil(self.cells()).max(self.granule);
        needed.next_multiple_of(((needed / 2 + 1).next_power_of_two() / 4).max(self.granule))
    }
}

impl View {
    /// Returns where the map starts, and the bytes per cell.
    pub fn resolve(self, frame: &Frame) -> (usize, usize) {
        match self {
            View::Whole => (0, frame.whole_scale()),
            View::Part { start, scale } => (start, scale),
        }
    }

    /// Zooms in by two at the middle of the map.
    pub fn closer(self, frame: &Frame) -> View {
        let (start, scale) = self.resolve(frame);
        if scale <= frame.granule {
            return self;
        }
        let shown = (frame.cells() * scale).min(frame.heap.saturating_sub(start));
        View::at(start + shown / 4, (scale / 2).max(frame.granule), frame)
    }

    /// Zooms out by two.
    pub fn farther(self, frame: &Frame) -> View {
        let (start, scale) = self.resolve(frame);
        if 2 * scale >= frame.whole_scale() {
            return View::Whole;
        }
        View::at(start.saturating_sub(frame.cells() * scale / 2), 2 * scale, frame)
    }

    /// Scrolls by `rows` rows, up when negative.
    pub fn scrolled(self, rows: isize, frame: &Frame) -> View {
        let (start, scale) = self.resolve(frame);
        if self == View::Whole {
            return self;
        }
        let distance = rows.unsigned_abs() * frame.columns * scale;
        let start = if rows < 0 { start.saturating_sub(distance) } else { start + distance };
        View::at(start, scale, frame)
    }

    /// Centres the byte at `offset` as far as possible, at this scale.
    pub fn around(offset: usize, scale: usize, frame: &Frame) -> View {
        View::at(offset.saturating_sub(frame.cells() / 2 * scale), scale, frame)
    }

    /// Returns the view from `start` on, moved to begin with a row and to stay within the heap.
    fn at(start: usize, scale: usize, frame: &Frame) -> View {
        let row = frame.columns.max(1) * scale;
        let rows = frame.heap.div_ceil(row);
        let last = rows.saturating_sub(frame.rows);
        View::Part { start: (start / row).min(last) * row, scale }
    }
}

/// The use of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a live block; in a heap with slabs, one that lies in a slab.
    Used,
    /// In a block outside slabs, in a heap with slabs.
    Long,
    /// In a slab, but in no live block.
    Idle,
    /// In a hole, or in the free tail.
    Hole,
}

/// A run of bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes from the region's start.
    pub offset: usize,
    /// Its length in bytes.
    pub size: usize,
    /// Its use.
    pub kind: Kind,
}

impl From<Block> for Piece {
    fn from(Block { offset, size, state }: Block) -> Piece {
        let kind = if state == BlockState::Used { Kind::Used } else { Kind::Hole };
        Piece { offset, size, kind }
    }
}

/// Contents of a cell, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// In used blocks.
    pub used: usize,
    /// In longer blocks, outside slabs.
    pub long: usize,
    /// In slabs, but not in use.
    pub idle: usize,
    /// In holes.
    pub free: usize,
    /// In the heap's free tail.
    pub tail: usize,
}

impl Cell {
    /// Returns the used share of the cell, from 0 to 1; `None` for a cell outside the heap.
    pub fn share(&self) -> Option<f64> {
        let used = self.used + self.long;
        let all = used + self.idle + self.free + self.tail;
        (all != 0).then(|| used as f64 / all as f64)
    }
}

/// Computes the cells of a map that begins at `start`, `scale` bytes each, of a heap whose free tail begins at `top`.
pub fn cells(
    pieces: impl Iterator<Item: Into<Piece>>,
    top: usize,
    (start, scale): (usize, usize),
    count: usize,
) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); count];
    let end = start.saturating_add(count.saturating_mul(scale));
    let shown = pieces.map(Into::into).take_while(|piece: &Piece| piece.offset < end);
    for Piece { offset, size, kind } in shown.filter(|piece| piece.offset + piece.size > start) {
        let (mut at, stop) = (offset.max(start) - start, (offset + size).min(end) - start);
        while at < stop {
            let cell = at / scale;
            let next = ((cell + 1) * scale).min(stop);
            let place = match kind {
                Kind::Used => &mut cells[cell].used,
                Kind::Long => &mut cells[cell].long,
                Kind::Idle => &mut cells[cell].idle,
                Kind::Hole if offset >= top => &mut cells[cell].tail,
                Kind::Hole => &mut cells[cell].free,
            };
            *place += next - at;
            at = next;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { heap: 1 << 20, granule: 16, columns: 64, rows: 8 };

    #[test]
    fn the_whole_heap_fits() {
        assert_eq!(View::Whole.resolve(&FRAME), (0, 2048));
        assert_eq!(View::Whole.resolve(&Frame { heap: (1 << 20) + 1, ..FRAME }), (0, 2560));
        assert_eq!(View::Whole.resolve(&Frame { heap: 0, ..FRAME }), (0, 16));
        assert_eq!(View::Whole.resolve(&Frame { columns: 0, ..FRAME }), (0, 1 << 20));
        for heap in (0..1 << 20).step_by(4111) {
            let frame = Frame { heap, ..FRAME };
            let (_, scale) = View::Whole.resolve(&frame);
            let needed = heap.div_ceil(frame.cells()).max(16);
            assert!(
                scale.is_multiple_of(16) && scale >= needed && scale - needed < (needed / 4).max(16),
                "{heap} {scale}"
            );
        }
    }

    #[test]
    fn closer_and_farther_keep_the_middle_and_end_at_the_granule_and_the_whole() {
        let close = View::Whole.closer(&FRAME);
        assert_eq!(close, View::Part { start: 256 << 10, scale: 1024 });
        assert_eq!(close.farther(&FRAME), View::Whole);
        let mut view = View::Whole;
        for _ in 0..20 {
            view = view.closer(&FRAME);
        }
        assert_eq!(view.resolve(&FRAME).1, 16);
        for _ in 0..20 {
            view = view.farther(&FRAME);
        }
        assert_eq!(view, View::Whole);
    }

    #[test]
    fn scrolling_stays_within_the_heap() {
        let close = View::Whole.closer(&FRAME);
        assert_eq!(close.scrolled(-100, &FRAME), View::Part { start: 0, scale: 1024 });
        assert_eq!(close.scrolled(100, &FRAME), View::Part { start: 512 << 10, scale: 1024 });
        assert_eq!(close.scrolled(1, &FRAME), View::Part { start: (256 << 10) + (64 << 10), scale: 1024 });
        assert_eq!(View::Whole.scrolled(1, &FRAME), View::Whole);
        assert_eq!(View::around((1 << 20) - 16, 16, &FRAME), View::Part { start: (1 << 20) - 8192, scale: 16 });
    }

    #[test]
    fn cells_hold_every_byte_of_the_part_they_show() {
        let block = |offset, size, state| Block { offset, size, state };
        let blocks = [
            block(0, 24, BlockState::Used),
            block(24, 40, BlockState::Free),
            block(64, 8, BlockState::Used),
            block(72, 56, BlockState::Free),
        ];
        let all = cells(blocks.into_iter(), 72, (0, 32), 5);
        let cell = |used, free, tail| Cell { used, free, tail, ..Cell::default() };
        assert_eq!(all, [cell(24, 8, 0), cell(0, 32, 0), cell(8, 0, 24), cell(0, 0, 32), cell(0, 0, 0)]);
        assert_eq!(
            all.iter().map(Cell::share).collect::<Vec<_>>(),
            [Some(0.75), Some(0.0), Some(0.25), Some(0.0), None]
        );
        assert_eq!(cells(blocks.into_iter(), 72, (32, 32), 2), all[1..3]);
    }
}
