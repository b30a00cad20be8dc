//! The map of a heap: a character per cell of bytes, addresses from left to right and top to bottom.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::view::{Cell, Frame, Piece, View, cells};

/// Style of secondary text.
pub const QUIET: Style = Style::new().add_modifier(Modifier::DIM);

/// Mostly longer blocks, in a heap with slabs.
const LONG: &str = "■";
/// Only holes.
const HOLE: &str = "·";
/// Only free blocks of slabs.
const IDLE: &str = "∘";
/// Only the free tail.
const TAIL: &str = "╌";

/// A map of a heap.
pub struct Picture<'p> {
    frame: Frame,
    start: usize,
    scale: usize,
    cells: Vec<Cell>,
    /// Bytes to highlight.
    mark: Option<&'p Range<usize>>,
}

/// Returns the frame of a map of a heap of `heap` bytes in `area`.
pub fn frame(heap: usize, granule: usize, area: Rect) -> Frame {
    let room = usize::from(area.width).saturating_sub(label_width(heap) + 2);
    // Rows that begin at round offsets are easier to read than rows that use the last column.
    let columns = if room >= 16 { room / 16 * 16 } else { room.max(1) };
    Frame { heap, granule, columns, rows: usize::from(area.height).max(1) }
}

/// Returns the width of the offsets in front of the rows.
fn label_width(heap: usize) -> usize {
    format!("{heap:#x}").len()
}

impl<'p> Picture<'p> {
    /// Creates the map of `pieces` as `view` selects them in `frame`; the free tail begins at `top`.
    pub fn new(pieces: impl Iterator<Item: Into<Piece>>, top: usize, view: View, frame: Frame) -> Picture<'p> {
        let (start, scale) = view.resolve(&frame);
        let cells = cells(pieces, top, (start, scale), frame.columns * frame.rows);
        Picture { frame, start, scale, cells, mark: None }
    }

    /// Highlights a range of bytes.
    pub fn marking(self, mark: Option<&'p Range<usize>>) -> Picture<'p> {
        Picture { mark, ..self }
    }

    fn style(&self, number: usize, cell: &Cell) -> Option<(&'static str, Style)> {
        let share = cell.share()?;
        let (glyph, color) = match share {
            0.0 if cell.idle > cell.free + cell.tail => (IDLE, Color::Yellow),
            0.0 if cell.free == 0 => (TAIL, Color::DarkGray),
            0.0 => (HOLE, Color::Red),
            1.0 if cell.long > cell.used => (LONG, Color::Blue),
            1.0 => ("█", Color::Green),
            share if share >= 0.9 => ("▓", Color::Green),
            share if share >= 0.7 => ("▓", Color::Cyan),
            share if share >= 0.4 => ("▒", Color::Yellow),
            _ => ("░", Color::Red),
        };
        let style = Style::new().fg(color);
        Some((glyph, if self.is_marked(number) { style.fg(Color::Black).bg(Color::White) } else { style }))
    }

    fn is_marked(&self, number: usize) -> bool {
        let from = self.start + number * self.scale;
        self.mark.is_some_and(|mark| mark.start < from + self.scale && from < mark.end)
    }
}

impl Widget for Picture<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let width = label_width(self.frame.heap);
        for (row, cells) in self.cells.chunks(self.frame.columns).take(usize::from(area.height)).enumerate() {
            let first = row * self.frame.columns;
            let offset = self.start + first * self.scale;
            if offset >= self.frame.heap.max(1) {
                break;
            }
            let y = area.y + row as u16;
            buffer.set_stringn(area.x, y, format!("{offset:#0width$x}"), usize::from(area.width), QUIET);
            let room = usize::from(area.width).saturating_sub(width + 1);
            for (column, cell) in cells.iter().enumerate().take(room) {
                if let Some((glyph, style)) = self.style(first + column, cell) {
                    buffer.set_string(area.x + (width + 1 + column) as u16, y, glyph, style);
                }
            }
        }
    }
}

/// Explains the characters.
pub fn legend() -> Line<'static> {
    legend_of([part(" █", Color::Green, " used ")])
}

/// Explains the characters of a heap with slabs.
pub fn legend_with_slabs() -> Line<'static> {
    legend_of([
        part(" ■", Color::Blue, " long "),
        part("█", Color::Green, " slab "),
        part(IDLE, Color::Yellow, " idle "),
    ])
}

fn part(glyph: &'static str, color: Color, text: &'static str) -> [Span<'static>; 2] {
    [Span::styled(glyph, Style::new().fg(color)), Span::styled(text, QUIET)]
}

fn legend_of<const N: usize>(first: [[Span<'static>; 2]; N]) -> Line<'static> {
    let rest = [
        part("▓", Color::Cyan, ""),
        part("▒", Color::Yellow, ""),
        part("░", Color::Red, " mixed "),
        part(HOLE, Color::Red, " hole "),
        part(TAIL, Color::DarkGray, " tail "),
    ];
    Line::from_iter(first.into_iter().chain(rest).flatten())
}
