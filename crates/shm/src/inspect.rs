//! `heapwright shm inspect`.

use std::fmt::{self, Display, Write};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use anstyle::Style;
use anyhow::Result;
use heapwright_shared::{BlockOwner, BlockState, Condition, SmallBlocks, Snapshot};

use super::arguments::InspectArgs;
use super::blocks::used_block;
use super::json::{Listing, Segment};
use super::map::{Drawing, Ink, Map, Span};
use super::output::{print, share};
use super::{look, waiting};
use heapwright_show::number::{self, counted, grouped};
use heapwright_show::results;
use heapwright_show::table::{Cell, HEADING, Side, Table, bar_chart};
use heapwright_show::terminal;

/// How many columns of a terminal a map's cells take, at most and at least.
const COLUMNS: (u64, u64) = (64, 16);
/// How many characters the bar of what is used has.
const BAR: u64 = 32;
/// The columns at the left of a map's cells.
const MARGIN: u64 = 16;

/// Shows what is in a segment.
pub fn run(args: &InspectArgs) -> Result<ExitCode> {
    let snapshot = waiting::read(&args.name.place, &args.trust.access())?;
    let listing = if args.blocks { Listing::EveryBlock } else { Listing::Summary };
    if args.json {
        results::print(&[Segment::of(&snapshot, listing)])?;
    } else {
        let mut text = String::new();
        Picture::of(&snapshot).write(&mut text, listing)?;
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A segment, and how it is drawn.
struct Picture<'s> {
    snapshot: &'s Snapshot,
    inks: Vec<Ink>,
    drawing: Drawing,
    columns: u64,
}

impl<'s> Picture<'s> {
    fn of(snapshot: &'s Snapshot) -> Picture<'s> {
        let coloured = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
        let width = terminal::columns().map_or(u64::MAX, |columns| columns as u64);
        let (most, least) = COLUMNS;
        let columns = width.saturating_sub(MARGIN).clamp(least, most);
        Picture {
            snapshot,
            inks: inks(snapshot),
            drawing: if coloured { Drawing::Shades } else { Drawing::Letters },
            columns: 1 << columns.ilog2(),
        }
    }

    fn write(&self, out: &mut String, listing: Listing) -> fmt::Result {
        self.write_facts(out)?;
        if let Err(problem) = &self.snapshot.audit {
            let bad = look::BAD;
            write!(out, "\n{bad}{problem}{bad:#}\n")?;
        } else {
            self.write_map(out)?;
        }
        self.write_processes(out)?;
        self.write_roots(out)?;
        if self.snapshot.audit.is_ok() {
            self.write_holes(out)?;
            self.write_counters(out)?;
        }
        if listing == Listing::EveryBlock { self.write_blocks(out) } else { Ok(()) }
    }

    fn write_facts(&self, out: &mut String) -> fmt::Result {
        let s = self.snapshot;
        let ((word, style), bold) = (look::condition(s), HEADING);
        writeln!(out, "{bold}{}{bold:#}  {style}{word}{style:#}", s.place)?;
        if let Some(note) = note(s.condition) {
            writeln!(out, "  {style}{note}{style:#}")?;
        }
        if s.audit.is_ok() {
            let (used, size) = (s.used(), s.size as u64);
            let figures = format!("{} of {} ({})", number::bytes(used), number::bytes(size), share(used, size));
            fact(out, "used", format_args!("{} {figures}", self.usage_bar()))?;
        }
        match s.audit {
            Ok(()) if s.max_size > s.size => fact(out, "may grow to", number::bytes(s.max_size as u64))?,
            Ok(()) => {}
            Err(_) => fact(out, "at most", number::bytes(s.max_size as u64))?,
        }
        let small = if s.small == SmallBlocks::Slabs { ", small blocks in slabs" } else { "" };
        fact(out, "policy", format_args!("{}, granule {}{small}", s.policy.name(), number::bytes(s.granule as u64)))?;
        if let Ok(file) = fs::metadata(s.place.path()) {
            let [memory, length, overhead] = [file.blocks() * 512, file.len(), s.overhead as u64].map(number::bytes);
            fact(out, "memory", format_args!("{memory}, file of {length}, blocks from {overhead} on"))?;
        }
        fact(out, "mode", format_args!("{:03o}, user {}", s.mode, s.user))?;
        fact(
            out,
            "room for",
            format_args!("{}, {}", counted(s.max_processes as u64, "process"), counted(s.max_roots as u64, "root")),
        )?;
        fact(out, "recoveries", grouped(s.recoveries))
    }

    /// Returns a bar of the share of the heap that each process has.
    fn usage_bar(&self) -> String {
        let size = self.snapshot.size.max(1) as u64;
        let (mut bar, mut bytes, mut drawn) = (String::new(), 0, 0);
        for (process, ink) in self.snapshot.processes.iter().zip(&self.inks) {
            bytes += process.bytes;
            let end = (bytes * BAR).div_ceil(size);
            let (style, mark) = (ink.style, self.mark(ink).to_string().repeat((end - drawn) as usize));
            bar.push_str(&format!("{style}{mark}{style:#}"));
            drawn = end;
        }
        bar + &dim(&"·".repeat(BAR.saturating_sub(drawn) as usize))
    }

    /// Returns the character for a cell that an owner has the whole of.
    fn mark(&self, ink: &Ink) -> char {
        match self.drawing {
            Drawing::Shades => '█',
            Drawing::Letters => ink.letter.to_ascii_uppercase(),
        }
    }

    fn write_map(&self, out: &mut String) -> fmt::Result {
        let s = self.snapshot;
        let spans = s.blocks.iter().map(|block| Span {
            start: block.offset.get(),
            length: block.size as u64,
            owner: block.owner.and_then(|owner| row_of(s, owner)),
        });
        let range = (s.overhead as u64, (s.overhead + s.size) as u64);
        let map = Map::new(range, spans, (self.columns, s.granule as u64), &self.inks, self.drawing);
        heading(out, format_args!("Map, {} a character", number::bytes(map.scale())))?;
        write!(out, "{map}")?;
        let legend = match self.drawing {
            Drawing::Shades => "█ full  ▓ ▒ ░ less  · free; the colour is that of the process with the most bytes",
            Drawing::Letters => "A half or more  a less  · free; the letter is that of the process with the most bytes",
        };
        writeln!(out, "  {}", dim(legend))
    }

    fn write_processes(&self, out: &mut String) -> fmt::Result {
        if self.snapshot.processes.is_empty() {
            return Ok(());
        }
        let mut table = Table::aligned([
            ("", Side::Left),
            ("process", Side::Right),
            ("state", Side::Left),
            ("blocks", Side::Right),
            ("bytes", Side::Right),
            ("of all used", Side::Right),
        ])
        .named_by(2)
        .indented();
        for (process, ink) in self.snapshot.processes.iter().zip(&self.inks) {
            table.row([
                Cell::styled(self.mark(ink), ink.style),
                look::pid(process.owner).into(),
                Cell::styled(look::state(process.owner.state), ink.style),
                grouped(process.blocks).into(),
                number::bytes(process.bytes).into(),
                share(process.bytes, self.snapshot.used()).into(),
            ]);
        }
        heading(out, "Processes")?;
        write!(out, "{table}")
    }

    fn write_roots(&self, out: &mut String) -> fmt::Result {
        let s = self.snapshot;
        if s.roots.is_empty() {
            return Ok(());
        }
        let mut table =
            Table::aligned([("name", Side::Left), ("offset", Side::Right), ("size", Side::Right), ("of", Side::Right)])
                .indented();
        for root in &s.roots {
            let target = used_block(&s.blocks, root.offset);
            let size = match target {
                Some(block) => number::bytes(block.size as u64).into(),
                None if s.audit.is_ok() => Cell::styled("no block", look::BAD),
                None => Cell::styled("-", look::QUIET),
            };
            let owner = target.and_then(|block| block.owner).map_or("-".to_owned(), look::pid);
            table.row([
                root.name.escape_debug().to_string().into(),
                format!("{:#x}", root.offset.get()).into(),
                size,
                owner.into(),
            ]);
        }
        heading(out, "Roots")?;
        write!(out, "{table}")
    }

    fn write_holes(&self, out: &mut String) -> fmt::Result {
        let holes = &self.snapshot.holes;
        heading(out, "Holes")?;
        let (Some(mean), Some(fragmentation)) = (holes.mean(), holes.external_fragmentation()) else {
            return writeln!(out, "  none");
        };
        let bytes = |bytes: usize| number::bytes(bytes as u64);
        writeln!(
            out,
            "  {}, {} in all: least {}, mean {}, largest {}\n  external fragmentation {:.1} %",
            counted(holes.count as u64, "hole"),
            bytes(holes.total),
            bytes(holes.min),
            number::bytes(mean as u64),
            bytes(holes.max),
            fragmentation * 100.0
        )?;
        let classes: Vec<(String, f64)> = holes
            .histogram
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(power, &count)| (format!("from {:>8}", number::bytes(1 << power)), count as f64))
            .collect();
        let chart =
            bar_chart(classes.iter().map(|(name, count)| (name.as_str(), *count)), |count| grouped(count as u64));
        write!(out, "{chart}")
    }

    fn write_counters(&self, out: &mut String) -> fmt::Result {
        let c = &self.snapshot.counters;
        let counts = [
            [("mallocs", c.mallocs), ("splits", c.splits), ("blocks", c.blocks)],
            [("frees", c.frees), ("coalesces", c.coalesces), ("resizes", c.resizes)],
        ];
        heading(out, "Counters")?;
        for row in counts {
            let cells = row.map(|(name, count)| format!("{name:<10} {:>12}", grouped(count)));
            writeln!(out, "  {}", cells.join("    "))?;
        }
        let sizes = [("peak used", c.peak_live), ("requested", c.requested), ("rounded", c.rounded)];
        let cells = sizes.map(|(name, bytes)| format!("{name:<10} {:>12}", number::bytes(bytes)));
        writeln!(out, "  {}", cells.join("    "))?;
        if self.snapshot.small == SmallBlocks::Slabs {
            let note = "mallocs and frees count all blocks; the other counters, and holes, count a slab as one block";
            writeln!(out, "  {}", dim(note))?;
        }
        Ok(())
    }

    fn write_blocks(&self, out: &mut String) -> fmt::Result {
        let mut table =
            Table::aligned([("offset", Side::Right), ("size", Side::Right), ("", Side::Left), ("of", Side::Right)])
                .indented();
        for block in &self.snapshot.blocks {
            let ink = block.owner.and_then(|owner| self.inks.get(row_of(self.snapshot, owner)?));
            let style = ink.map_or(look::QUIET, |ink| ink.style);
            let state = match block.state {
                BlockState::Used => "used",
                BlockState::Free => "free",
            };
            table.row([
                format!("{:#x}", block.offset.get()).into(),
                grouped(block.size as u64).into(),
                Cell::styled(state, style),
                block.owner.map_or_else(String::new, look::pid).into(),
            ]);
        }
        heading(out, "Blocks")?;
        write!(out, "{table}")
    }
}

/// The letters and colours of all owners.
fn inks(snapshot: &Snapshot) -> Vec<Ink> {
    let letters = ('a'..='z').chain(std::iter::repeat('#'));
    let processes = snapshot.processes.iter().enumerate();
    let ink = |((number, process), letter): ((usize, &heapwright_shared::ProcessInfo), char)| Ink {
        letter,
        style: look::owner_style(process.owner, number),
    };
    processes.zip(letters).map(ink).collect()
}

/// The row of the table of processes that `owner` has; the first, if several have opened the segment.
fn row_of(snapshot: &Snapshot, owner: BlockOwner) -> Option<usize> {
    snapshot.processes.iter().position(|process| process.owner == owner)
}

/// A remark on the condition of the segment.
fn note(condition: Condition) -> Option<String> {
    match condition {
        Condition::Interrupted { by } => Some(format!(
            "process {by} died in an operation; below is the segment as the next process that uses it recovers it"
        )),
        Condition::Abandoned => {
            Some("all its processes died; the next process that opens it checks it first".to_owned())
        }
        _ => None,
    }
}

fn fact(out: &mut String, name: &str, what: impl Display) -> fmt::Result {
    writeln!(out, "  {name:<14} {what}")
}

fn heading(out: &mut String, text: impl Display) -> fmt::Result {
    let bold = HEADING;
    write!(out, "\n{bold}{text}{bold:#}\n")
}

fn dim(text: &str) -> String {
    let style: Style = look::QUIET;
    format!("{style}{text}{style:#}")
}
