//! A heap map on a terminal: a character per cell, addresses from left to right and top to bottom.

use std::fmt;

use anstyle::Style;

/// A part of the heap that belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it starts, in bytes from the segment's start.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Which of the map's owners has it; `None` for a hole.
    pub owner: Option<usize>,
}

/// How an owner's blocks look.
#[derive(Clone, Copy, Debug)]
pub struct Ink {
    /// The owner's letter where there are no colours; small where less than half of a cell is used.
    pub letter: char,
    /// The colour.
    pub style: Style,
}

/// What the cells are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// Shades, coloured by owner.
    Shades,
    /// The letters of owners.
    Letters,
}

/// How many rows a map has at most.
const ROWS: u64 = 16;

const HOLE: char = '·';
const HOLE_STYLE: Style = Style::new().dimmed();

/// The used bytes of a cell, and the owner of most of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    used: u64,
    owner: usize,
}

/// A heap's map.
pub struct Map<'i> {
    start: u64,
    end: u64,
    columns: u64,
    /// Bytes per cell.
    scale: u64,
    cells: Vec<Cell>,
    inks: &'i [Ink],
    drawing: Drawing,
}

impl<'i> Map<'i> {
    /// The map of the bytes from `start` to `end`, which `spans` fill in order, `columns` cells wide, none of them less
    /// than `granule` bytes.
    pub fn new(
        (start, end): (u64, u64),
        spans: impl Iterator<Item = Span>,
        (columns, granule): (u64, u64),
        inks: &'i [Ink],
        drawing: Drawing,
    ) -> Map<'i> {
        let length = end.saturating_sub(start);
        let scale = length.div_ceil(columns * ROWS).max(granule).next_power_of_two();
        let mut map = Map { start, end, columns, scale, cells: Vec::new(), inks, drawing };
        map.cells = map.fill(spans, length.div_ceil(scale) as usize);
        map
    }

    /// How many bytes a cell stands for.
    pub fn scale(&self) -> u64 {
        self.scale
    }

    fn fill(&self, spans: impl Iterator<Item = Span>, count: usize) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); count];
        let mut shares = Shares::default();
        for Span { start, length, owner } in spans {
            let Some(owner) = owner else { continue };
            let (mut at, end) = (start.saturating_sub(self.start), (start + length).saturating_sub(self.start));
            while at < end {
                let number = (at / self.scale) as usize;
                let Some(cell) = cells.get_mut(number) else { break };
                let next = (at - at % self.scale + self.scale).min(end);
                cell.used += next - at;
                cell.owner = shares.add(number, owner, next - at);
                at = next;
            }
        }
        cells
    }

    /// The bytes that the cell at `number` really has: the last one may be cut.
    fn room(&self, number: usize) -> u64 {
        (self.end - self.start - number as u64 * self.scale).min(self.scale)
    }

    fn draw(&self, number: usize, cell: Cell) -> (char, Style) {
        let Some(ink) = self.inks.get(cell.owner).filter(|_| cell.used > 0) else { return (HOLE, HOLE_STYLE) };
        let half = 2 * cell.used >= self.room(number);
        let glyph = match self.drawing {
            Drawing::Letters if half => ink.letter.to_ascii_uppercase(),
            Drawing::Letters => ink.letter.to_ascii_lowercase(),
            Drawing::Shades if cell.used >= self.room(number) => '█',
            Drawing::Shades if 3 * cell.used >= 2 * self.room(number) => '▓',
            Drawing::Shades if 3 * cell.used >= self.room(number) => '▒',
            Drawing::Shades => '░',
        };
        (glyph, ink.style)
    }

    fn write_row(&self, f: &mut fmt::Formatter<'_>, row: usize) -> fmt::Result {
        let first = row * self.columns as usize;
        let width = format!("{:x}", self.end).len();
        write!(f, "  {:#0width$x} ", self.start + first as u64 * self.scale, width = width + 2)?;
        let mut last = Style::new();
        let cells = self.cells.iter().enumerate().skip(first).take(self.columns as usize);
        for (glyph, style) in cells.map(|(number, &cell)| self.draw(number, cell)) {
            if style != last {
                write!(f, "{last:#}{style}")?;
                last = style;
            }
            write!(f, "{glyph}")?;
        }
        writeln!(f, "{last:#}")
    }

    fn row_is_hole(&self, row: usize) -> bool {
        self.cells.chunks(self.columns as usize).nth(row).is_some_and(|cells| cells.iter().all(|cell| cell.used == 0))
    }
}

/// Rows in which nothing is used are written once.
impl fmt::Display for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.cells.len().div_ceil(self.columns as usize);
        let repeats = |row: usize| row > 0 && self.row_is_hole(row) && self.row_is_hole(row - 1);
        for row in 0..rows {
            if !repeats(row) {
                self.write_row(f, row)?;
            } else if !repeats(row - 1) {
                writeln!(f, "  {HOLE_STYLE}⋮{HOLE_STYLE:#}")?;
            }
        }
        Ok(())
    }
}

/// The bytes of each owner in the cell that is being filled.
#[derive(Default)]
struct Shares {
    cell: usize,
    owners: Vec<(usize, u64)>,
}

impl Shares {
    /// Adds to the share of `owner` in `cell`; returns the owner with the most bytes now.
    fn add(&mut self, cell: usize, owner: usize, bytes: u64) -> usize {
        if cell != self.cell {
            self.cell = cell;
            self.owners.clear();
        }
        match self.owners.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, share)) => *share += bytes,
            None => self.owners.push((owner, bytes)),
        }
        self.owners.iter().max_by_key(|(_, share)| *share).map_or(owner, |&(most, _)| most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INKS: [Ink; 2] = [Ink { letter: 'a', style: Style::new() }, Ink { letter: 'b', style: Style::new().bold() }];

    fn drawn(end: u64, spans: &[(u64, u64, usize)], drawing: Drawing) -> String {
        let spans = spans.iter().map(|&(start, length, owner)| Span { start, length, owner: Some(owner) });
        let map = Map::new((0x100, end), spans, (8, 16), &INKS, drawing);
        anstream::adapter::strip_str(&map.to_string()).to_string()
    }

    #[test]
    fn a_cell_shows_who_has_most_of_it_and_how_full_it_is() {
        let spans = [(0x100, 16, 0), (0x110, 4, 1), (0x114, 6, 0), (0x120, 6, 1), (0x130, 40, 1)];
        assert_eq!(drawn(0x180, &spans, Drawing::Letters), "  0x100 AAbBBB··\n");
        assert_eq!(drawn(0x180, &spans, Drawing::Shades), "  0x100 █▒▒██▒··\n");
    }

    #[test]
    fn rows_of_nothing_are_written_once() {
        let text = drawn(0x100 + 8 * 16 * 6, &[(0x100, 1, 0), (0x100 + 8 * 16 * 5, 16, 0)], Drawing::Shades);
        assert_eq!(text, "  0x100 ░·······\n  0x180 ········\n  ⋮\n  0x380 █·······\n");
    }

    #[test]
    fn maps_of_anything_have_few_cells() {
        for (end, rows) in [(0x100, 0), (0x101, 1), (1 << 46, 1)] {
            assert_eq!(drawn(end, &[], Drawing::Shades).lines().filter(|line| line.contains("0x")).count(), rows);
        }
        let full = [(0x100, (1 << 46) - 0x100, 1)];
        assert_eq!(drawn(1 << 46, &full, Drawing::Letters).lines().count(), ROWS as usize);
    }
}
