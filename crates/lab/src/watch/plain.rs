//! A heap as text, once.

use std::io::{self, Write};
use std::ops::Range;

use heapwright_placement::Engine;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use serde::Serialize;

use super::picture::{self, Picture};
use super::sample::{Clarity, Sample};
use super::view::{Frame, View};
use super::watched::Watched;
use crate::number;
use crate::results;

/// How wide and how high a picture in text is.
const AREA: Rect = Rect { x: 0, y: 0, width: 76, height: 12 };

/// One process, as `--json` has it. What is not known is `null`.
#[derive(Serialize)]
struct Row<'r> {
    program: &'r str,
    pid: u32,
    policy: &'r str,
    /// Whether nobody worked on the heap while it was copied.
    sharp: bool,
    mallocs: Option<u64>,
    frees: Option<u64>,
    reuses: Option<u64>,
    grows: Option<u64>,
    splits: Option<u64>,
    coalesces: Option<u64>,
    resizes: Option<u64>,
    blocks: Option<u64>,
    live: Option<u64>,
    peak_live: Option<u64>,
    heap_size: Option<u64>,
    peak_heap_size: Option<u64>,
    holes: usize,
    hole_bytes: usize,
    largest_hole: Option<usize>,
    external_fragmentation: Option<f64>,
}

impl<'r> Row<'r> {
    fn of(shown: &'r Watched, sample: &'r Sample) -> Row<'r> {
        let counters = sample.counters;
        let holes = &sample.holes;
        Row {
            program: &shown.name,
            pid: shown.pid,
            policy: sample.policy,
            sharp: sample.clarity == Clarity::Sharp,
            mallocs: counters.map(|found| found.mallocs),
            frees: counters.map(|found| found.frees),
            reuses: counters.map(|found| found.reuses),
            grows: counters.map(|found| found.grows),
            splits: counters.map(|found| found.splits),
            coalesces: counters.map(|found| found.coalesces),
            resizes: counters.map(|found| found.resizes),
            blocks: counters.map(|found| found.blocks),
            live: counters.map(|found| found.live),
            peak_live: counters.map(|found| found.peak_live),
            heap_size: counters.map(|found| found.heap_size),
            peak_heap_size: counters.map(|found| found.peak_heap_size),
            holes: holes.count,
            hole_bytes: holes.total,
            largest_hole: (holes.count != 0).then_some(holes.max),
            external_fragmentation: holes.external_fragmentation(),
        }
    }
}

/// Prints the heap as one JSON object.
pub fn print_json(shown: &Watched, sample: &Sample) -> io::Result<()> {
    results::print(&[Row::of(shown, sample)])
}

/// Prints the heap for people.
pub fn print(shown: &Watched, sample: &Sample) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let row = Row::of(shown, sample);
    let clarity = if row.sharp { "" } else { ", copied amid an operation" };
    writeln!(out, "{} [{}] under {}{clarity}", row.program, row.pid, row.policy)?;
    let counts: [(&str, Option<u64>); 12] = [
        ("mallocs", row.mallocs),
        ("frees", row.frees),
        ("reuses", row.reuses),
        ("grows", row.grows),
        ("splits", row.splits),
        ("coalesces", row.coalesces),
        ("resizes", row.resizes),
        ("blocks", row.blocks),
        ("live bytes", row.live),
        ("peak live bytes", row.peak_live),
        ("heap bytes", row.heap_size),
        ("peak heap bytes", row.peak_heap_size),
    ];
    for (name, count) in counts {
        writeln!(out, "  {name:<16}{:>18}", count.map_or("-".to_owned(), number::grouped))?;
    }
    let external = row.external_fragmentation.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    writeln!(
        out,
        "  {} holes of {} in all, fragmented {external}",
        number::grouped(row.holes as u64),
        number::bytes(row.hole_bytes as u64)
    )?;
    if let Some(layout) = &sample.layout {
        writeln!(out)?;
        draw(&mut out, picture::frame(layout.heap_size(), layout.granule(), AREA), |frame| {
            Picture::new(layout.blocks(), layout.top(), View::Whole, frame)
        })?;
    }
    out.flush()
}

/// Prints the heap of `engine`, with the bytes of `mark` standing out where there are colours.
pub fn print_heap(
    out: &mut impl Write,
    engine: &impl Engine,
    granule: usize,
    mark: Option<&Range<usize>>,
) -> io::Result<()> {
    let holes = engine.holes();
    let external = holes.external_fragmentation().map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let (size, free) = (number::bytes(engine.heap_size() as u64), number::bytes(holes.total as u64));
    let count = number::grouped(holes.count as u64);
    writeln!(out, "  heap {size}, {count} holes of {free} in all, fragmented {external}")?;
    draw(out, picture::frame(engine.heap_size(), granule, AREA), |frame| {
        Picture::new(engine.blocks(), engine.top(), View::Whole, frame).marking(mark)
    })
}

/// Writes the picture that `paint` makes in `frame`.
fn draw<'p>(out: &mut impl Write, frame: Frame, paint: impl FnOnce(Frame) -> Picture<'p>) -> io::Result<()> {
    let (_, scale) = View::Whole.resolve(&frame);
    writeln!(out, "  {} a cell: █ used ▓▒░ mixed · hole ╌ free tail", number::bytes(scale as u64))?;
    let mut buffer = Buffer::empty(AREA);
    paint(frame).render(AREA, &mut buffer);
    for line in lines_of(&buffer) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// The text of a picture, without the empty lines at its end.
fn lines_of(buffer: &Buffer) -> Vec<String> {
    let cells = buffer.content.chunks(usize::from(buffer.area.width));
    let lines = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
    let mut lines: Vec<String> = lines.collect();
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    lines
}
