//! One picture of a heap, as text.

use std::io::{self, BufWriter, Write};
use std::ops::Range;

use heapwright_host::names::Shown;
use heapwright_placement::Engine;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use serde::Serialize;

use super::picture::{self, Picture};
use super::sample::{Clarity, Sample};
use super::slabs::{Class, Dissolved};
use super::view::{Frame, View};
use super::watched::Watched;
use heapwright_show::number;
use heapwright_show::results;
use heapwright_show::table::{Side, Table};
use heapwright_show::terminal::{columns, fitted_below};

/// The largest picture, in characters. In a narrow terminal it has fewer columns, but no fewer than this.
const AREA: Rect = Rect { x: 0, y: 0, width: 76, height: 12 };
const LEAST_WIDTH: u16 = 24;

/// Explains its characters.
const LEGEND: &str = "█ used ▓▒░ mixed · hole ╌ free tail";
const LEGEND_WITH_SLABS: &str = "■ longer █ used in slabs ∘ idle in slabs ▓▒░ mixed · hole ╌ free tail";

/// One process in the output of `--json`. Unknown figures are `null`.
#[derive(Serialize)]
struct Row<'r> {
    program: &'r str,
    pid: u32,
    policy: &'r str,
    /// Whether no operation was in progress while the heap was copied.
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
    /// What the cached heap consists of; `null` for any other heap.
    slabs: Option<SlabsRow<'r>>,
}

/// What the cached heap consists of, in the output of `--json`.
#[derive(Serialize)]
struct SlabsRow<'r> {
    /// Number of slabs.
    count: usize,
    /// Number of threads' heaps, including those of threads that have ended.
    heaps: usize,
    /// Bytes of blocks in thread caches.
    listed_bytes: u64,
    /// Remote frees that are still in the freeing threads' buffers; these blocks count as in use.
    outgoing: usize,
    resident_bytes: u64,
    idle_bytes: u64,
    /// Number of blocks outside slabs.
    long_blocks: Option<u64>,
    long_bytes: Option<u64>,
    /// Number of blocks with mappings of their own, outside the heap; the others do not include them.
    mapped_blocks: u64,
    mapped_bytes: u64,
    /// Number of slabs and longer blocks that were ever placed, and removed.
    placed: Option<u64>,
    removed: Option<u64>,
    classes: &'r [Class],
    dissolved: Dissolved,
}

impl<'r> SlabsRow<'r> {
    fn of(sample: &'r Sample) -> Option<SlabsRow<'r>> {
        let slabs = sample.slabs.as_ref()?;
        Some(SlabsRow {
            count: slabs.count(),
            heaps: slabs.heaps(),
            listed_bytes: slabs.cached_bytes(),
            outgoing: slabs.buffered_remote_frees(),
            resident_bytes: slabs.resident_bytes(),
            idle_bytes: slabs.idle_bytes(),
            long_blocks: sample.long_blocks(),
            long_bytes: sample.long_bytes(),
            mapped_blocks: slabs.mapped.blocks,
            mapped_bytes: slabs.mapped.bytes,
            placed: sample.counters.map(|found| found.mallocs),
            removed: sample.counters.map(|found| found.frees),
            classes: slabs.classes(),
            dissolved: slabs.dissolved,
        })
    }
}

impl<'r> Row<'r> {
    fn of(shown: &'r Watched, sample: &'r Sample) -> Row<'r> {
        let (pages, counters) = (sample.counters, sample.counted());
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
            live: sample.live(),
            peak_live: counters.map(|found| found.peak_live),
            heap_size: pages.map(|found| found.heap_size),
            peak_heap_size: pages.map(|found| found.peak_heap_size),
            holes: holes.count,
            hole_bytes: holes.total,
            largest_hole: (holes.count != 0).then_some(holes.max),
            external_fragmentation: holes.external_fragmentation(),
            slabs: SlabsRow::of(sample),
        }
    }

    /// Returns the figures of this kind of heap with their labels.
    fn counts(&self) -> Vec<(&'static str, Option<u64>)> {
        if let Some(slabs) = &self.slabs {
            return vec![
                ("live bytes", self.live),
                ("heap bytes", self.heap_size),
                ("peak heap bytes", self.peak_heap_size),
                ("bytes in thread caches", Some(slabs.listed_bytes)),
                ("threads' heaps", Some(slabs.heaps as u64)),
                ("slabs", Some(slabs.count as u64)),
                ("dissolved slabs", Some(slabs.dissolved.slabs as u64)),
                ("longer blocks", slabs.long_blocks),
                ("their bytes", slabs.long_bytes),
                ("mapped blocks", Some(slabs.mapped_blocks)),
                ("their bytes", Some(slabs.mapped_bytes)),
                ("ever placed", slabs.placed),
                ("removed", slabs.removed),
            ];
        }
        vec![
            ("mallocs", self.mallocs),
            ("frees", self.frees),
            ("reuses", self.reuses),
            ("grows", self.grows),
            ("splits", self.splits),
            ("coalesces", self.coalesces),
            ("resizes", self.resizes),
            ("blocks", self.blocks),
            ("live bytes", self.live),
            ("peak live bytes", self.peak_live),
            ("heap bytes", self.heap_size),
            ("peak heap bytes", self.peak_heap_size),
        ]
    }
}

/// Prints the heap as one JSON object.
pub fn print_json(shown: &Watched, sample: &Sample) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    results::write(&mut out, &[Row::of(shown, sample)])?;
    out.flush()
}

/// Prints the heap as text.
pub fn print(shown: &Watched, sample: &Sample) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let row = Row::of(shown, sample);
    let clarity = if row.sharp { "" } else { ", copied amid an operation" };
    writeln!(out, "{} [{}] under {}{clarity}", row.program.shown(), row.pid, row.policy)?;
    for (name, count) in row.counts() {
        writeln!(out, "  {name:<16}{:>18}", count.map_or("-".to_owned(), number::grouped))?;
    }
    let external = row.external_fragmentation.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let holes = number::counted(row.holes as u64, "hole");
    let holes = format!("{holes} of {} in all, fragmented {external}", number::bytes(row.hole_bytes as u64));
    writeln!(out, "{}", fitted_below(&holes))?;
    if let Some(slabs) = &row.slabs {
        write!(out, "\n{}", table_of(slabs.classes))?;
    }
    if let Some(layout) = &sample.layout {
        writeln!(out)?;
        let legend = if sample.slabs.is_some() { LEGEND_WITH_SLABS } else { LEGEND };
        draw(&mut out, picture::frame(layout.heap_size(), layout.granule(), area()), legend, |frame| {
            Picture::new(sample.pieces(), layout.top(), View::Whole, frame)
        })?;
    }
    out.flush()
}

/// Prints the heap of `engine`, and highlights the bytes of `mark` where the terminal has colours.
pub fn print_heap(
    out: &mut impl Write,
    engine: &impl Engine,
    granule: usize,
    mark: Option<&Range<usize>>,
) -> io::Result<()> {
    let holes = engine.holes();
    let external = holes.external_fragmentation().map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let (size, free) = (number::bytes(engine.heap_size() as u64), number::bytes(holes.total as u64));
    let count = number::counted(holes.count as u64, "hole");
    let figures = format!("heap {size}, {count} of {free} in all, fragmented {external}");
    writeln!(out, "{}", fitted_below(&figures))?;
    draw(out, picture::frame(engine.heap_size(), granule, area()), LEGEND, |frame| {
        Picture::new(engine.blocks(), engine.top(), View::Whole, frame).marking(mark)
    })
}

/// A line per size class that has slabs, and their sums.
fn table_of(classes: &[Class]) -> Table {
    let figures = ["class", "slabs", "used", "listed", "free", "in memory", "idle"].map(|name| (name, Side::Right));
    let mut table = Table::aligned(figures).indented();
    let sum = |read: fn(&Class) -> usize| classes.iter().map(read).sum::<usize>();
    let all = Class {
        slabs: sum(|class| class.slabs),
        used: sum(|class| class.used),
        listed: sum(|class| class.listed),
        free_bytes: sum(|class| class.free_bytes),
        resident_bytes: sum(|class| class.resident_bytes),
        idle_bytes: sum(|class| class.idle_bytes),
        ..Class::default()
    };
    let names = classes.iter().map(|class| class.size.to_string()).chain(["all".to_owned()]);
    for (name, class) in names.zip(classes.iter().chain([&all])) {
        let counts = [class.slabs, class.used, class.listed].map(|count| count.to_string());
        let bytes = [class.free_bytes, class.resident_bytes, class.idle_bytes];
        table.row([name].into_iter().chain(counts).chain(bytes.map(|bytes| number::bytes(bytes as u64))));
    }
    table
}

/// The picture's width and height, in characters.
fn area() -> Rect {
    let width = columns().and_then(|columns| u16::try_from(columns.saturating_sub(2)).ok()).unwrap_or(AREA.width);
    Rect { width: width.clamp(LEAST_WIDTH, AREA.width), ..AREA }
}

/// Prints the map that `paint` draws in `frame`.
fn draw<'p>(
    out: &mut impl Write,
    frame: Frame,
    legend: &str,
    paint: impl FnOnce(Frame) -> Picture<'p>,
) -> io::Result<()> {
    let (_, scale) = View::Whole.resolve(&frame);
    writeln!(out, "{}", fitted_below(&format!("{} a cell: {legend}", number::bytes(scale as u64))))?;
    let mut buffer = Buffer::empty(area());
    paint(frame).render(AREA, &mut buffer);
    for line in lines_of(&buffer) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Returns the text of a map, without the empty lines at its end.
fn lines_of(buffer: &Buffer) -> Vec<String> {
    let cells = buffer.content.chunks(usize::from(buffer.area.width));
    let lines = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
    let mut lines: Vec<String> = lines.collect();
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    lines
}
