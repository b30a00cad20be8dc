//! The statistics of the processes of a run, which leave one file each.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use heapwright_host::names::Shown;
use heapwright_host::temporary;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::arguments::Stats;
use heapwright_show::number;
use heapwright_show::results;
use heapwright_show::table::Table;

/// Name of a process's file; the drop-in library replaces `%p` by the process id.
pub const FILE_PATTERN: &str = "%p.json";

/// Checks that `folder`, a temporary one, has room for the statistics of a process.
///
/// # Errors
/// When it has none, with what to do.
pub fn ensure_room(folder: &Path) -> Result<()> {
    /// More than the statistics of a process take.
    const ROOM: usize = 16 << 10;
    let trial = folder.join("trial");
    let written = fs::write(&trial, [b' '; ROOM]);
    // One that stays is removed with its folder, and is no report.
    let _ = fs::remove_file(&trial);
    written.map_err(|error| {
        let advice = temporary::advice(&error);
        anyhow!("the statistics cannot be written to {}: {error}{advice}", folder.shown())
    })
}

/// The statistics of one process. Its figures are passed on unchanged, except for `blocks`.
#[derive(Deserialize, Serialize)]
pub struct Report {
    /// The program's name.
    program: String,
    /// Its process id.
    pid: u32,
    /// The policy that it ran under.
    policy: String,
    /// The counters, by name; `null` for an unknown one. `blocks` counts live blocks.
    counters: Map<String, Value>,
    /// Blocks as the library counts them: under a policy, used and free.
    #[serde(skip)]
    library_blocks: Option<u64>,
    /// The holes at the end.
    holes: Map<String, Value>,
    /// The size classes of the default malloc; empty under a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<Class>,
}

/// A size class at the end. Unknown figures are `null`.
#[derive(Deserialize, Serialize)]
struct Class {
    /// Block size in bytes; `null` for blocks outside the classes.
    size: Option<u64>,
    allocated: Option<u64>,
    freed: Option<u64>,
    /// Blocks that are still live.
    blocks: u64,
    slabs: Option<u64>,
    free_bytes: Option<u64>,
}

impl Report {
    /// Returns the name of the program that the process ran at its end.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Reads the JSON of a process; `None` if it is incomplete.
    fn parse(text: &[u8]) -> Option<Report> {
        let mut report: Report = serde_json::from_slice(text).ok()?;
        report.library_blocks = report.figure("blocks");
        if let Some((mallocs, frees)) = report.figure("mallocs").zip(report.figure("frees")) {
            // Blocks of the library include holes under a policy; this difference has one meaning under all.
            report.counters.insert("blocks".to_owned(), mallocs.saturating_sub(frees).into());
        }
        Some(report)
    }

    /// Returns whether the process allocated anything, as far as is known.
    pub fn has_mallocs(&self) -> bool {
        self.counters.get("mallocs").and_then(Value::as_u64) != Some(0)
    }
}

/// All reports of a run.
pub struct Gathered {
    /// The program's own report.
    pub own: Option<Report>,
    /// Whether the program's own report is incomplete.
    pub is_own_cut: bool,
    /// Reports of the processes that it started, by process id.
    pub others: Vec<Report>,
}

impl Gathered {
    /// Reads all reports in `folder`; `pid` is the program's own process.
    pub fn from(folder: &Path, pid: u32) -> Result<Gathered> {
        let mut gathered = Gathered { own: None, is_own_cut: false, others: Vec::new() };
        for entry in fs::read_dir(folder).context("the statistics are gone")? {
            let path = entry?.path();
            // A process that was killed while it wrote leaves an incomplete report, which is skipped.
            let Some(report) = fs::read(&path).ok().and_then(|text| Report::parse(&text)) else { continue };
            if report.pid == pid { gathered.own = Some(report) } else { gathered.others.push(report) }
        }
        gathered.others.sort_by_key(|report| report.pid);
        let own = folder.join(FILE_PATTERN.replace("%p", &pid.to_string()));
        gathered.is_own_cut = gathered.own.is_none() && own.exists();
        Ok(gathered)
    }

    fn all(&self) -> impl Iterator<Item = &Report> {
        self.own.iter().chain(&self.others)
    }
}

/// Writes the statistics in the given format; nothing if there are none.
pub fn write(out: &mut impl Write, gathered: &Gathered, form: Stats) -> io::Result<()> {
    match form {
        Stats::Json => results::write(out, &gathered.all().collect::<Vec<_>>()),
        Stats::Text => write_text(out, gathered),
        Stats::Report => gathered.all().try_for_each(|report| report.write_as_published(out)),
    }
}

/// The kind of a figure, which selects its format.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Bytes,
    Share,
}

/// The lines of the table: the counter's key, its label, its kind.
const LINES: [(&str, &str, Kind); 19] = [
    ("mallocs", "mallocs", Kind::Count),
    ("frees", "frees", Kind::Count),
    ("reuses", "reuses", Kind::Count),
    ("grows", "grows", Kind::Count),
    ("splits", "splits", Kind::Count),
    ("coalesces", "coalesces", Kind::Count),
    ("resizes", "resizes in place", Kind::Count),
    ("blocks", "blocks at exit", Kind::Count),
    ("bad_frees", "bad frees ignored", Kind::Count),
    ("requested", "requested", Kind::Bytes),
    ("rounded", "rounded", Kind::Bytes),
    ("live", "live at exit", Kind::Bytes),
    ("peak_live", "peak live", Kind::Bytes),
    ("peak_heap_size", "max heap", Kind::Bytes),
    ("bytes_returned", "purged (returned to OS)", Kind::Bytes),
    ("peak_resident", "peak resident", Kind::Bytes),
    ("utilisation", "utilisation", Kind::Share),
    ("internal_fragmentation", "internal fragmentation", Kind::Share),
    ("external_fragmentation", "external fragmentation", Kind::Share),
];

/// The most programs that the table of the other processes lists.
const LISTED: usize = 12;

fn write_text(out: &mut impl Write, gathered: &Gathered) -> io::Result<()> {
    if let Some(report) = &gathered.own {
        writeln!(out, "heapwright: {} [{}] under {}", report.program.shown(), report.pid, report.policy)?;
        for (key, name, kind) in LINES {
            writeln!(out, "  {name:<25} {:>20}", report.shown(key, kind))?;
        }
        writeln!(out, "  {:<25} {:>20}", "holes at exit", report.holes_shown())?;
        write_classes(out, &report.classes)?;
    }
    if gathered.others.is_empty() { Ok(()) } else { write_others(out, &gathered.others) }
}

/// A line per size class, if there are any.
fn write_classes(out: &mut impl Write, classes: &[Class]) -> io::Result<()> {
    if classes.is_empty() {
        return Ok(());
    }
    let shown = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), number::grouped);
    let mut table = Table::new(["size class", "allocated", "freed", "blocks at exit", "slabs", "free in them"]);
    for class in classes {
        table.row([
            class.size.map_or_else(|| "longer".to_owned(), number::grouped),
            shown(class.allocated),
            shown(class.freed),
            number::grouped(class.blocks),
            shown(class.slabs),
            class.free_bytes.map_or_else(|| "-".to_owned(), number::bytes),
        ]);
    }
    write!(out, "{table}")
}

/// The totals of the processes of one program.
#[derive(Default)]
struct Program<'r> {
    name: &'r str,
    processes: u64,
    mallocs: u64,
    frees: u64,
    /// The maximum over the processes, in bytes.
    peak_live: u64,
    max_heap: u64,
}

/// Writes a line per program for the processes that the program started.
fn write_others(out: &mut impl Write, others: &[Report]) -> io::Result<()> {
    let mut programs: Vec<Program> = Vec::new();
    for report in others {
        let at = programs.iter().position(|program| program.name == report.program).unwrap_or_else(|| {
            programs.push(Program { name: &report.program, ..Program::default() });
            programs.len() - 1
        });
        programs[at].add(report);
    }
    programs.sort_by_key(|program| std::cmp::Reverse(program.mallocs));
    let mut table = Table::new(["", "processes", "mallocs", "frees", "largest peak live", "largest max heap"]);
    for program in programs.iter().take(LISTED) {
        let counts = [program.processes, program.mallocs, program.frees].map(number::grouped);
        let sizes = [program.peak_live, program.max_heap].map(number::bytes);
        table.row([program.name.to_owned()].into_iter().chain(counts).chain(sizes));
    }
    write!(out, "heapwright: processes that it started\n{table}")?;
    match programs.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more programs; --stats json lists all"),
    }
}

impl Program<'_> {
    fn add(&mut self, report: &Report) {
        let figure = |key: &str| report.counters.get(key).and_then(Value::as_u64).unwrap_or(0);
        self.processes += 1;
        self.mallocs += figure("mallocs");
        self.frees += figure("frees");
        self.peak_live = self.peak_live.max(figure("peak_live"));
        self.max_heap = self.max_heap.max(figure("peak_heap_size"));
    }
}

/// The statistics of report 000 in its order: the name there, and the counter.
const PUBLISHED: [(&str, &str); 9] = [
    ("mallocs", "mallocs"),
    ("frees", "frees"),
    ("reuses", "reuses"),
    ("grows", "grows"),
    ("splits", "splits"),
    ("coalesces", "coalesces"),
    ("blocks", "blocks"),
    ("requested", "rounded"),
    ("max heap", "most_payload"),
];

impl Report {
    /// Writes the statistics of report 000. Its blocks are used and free. Its maximum heap is without headers; where
    /// blocks have none, it is the length of the heap.
    fn write_as_published(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "heapwright: {} [{}] under {}", self.program.shown(), self.pid, self.policy)?;
        for (name, key) in PUBLISHED {
            let value = match key {
                "blocks" => self.library_blocks,
                "most_payload" => self.figure(key).or_else(|| self.figure("peak_heap_size")),
                _ => self.figure(key),
            };
            let value = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            writeln!(out, "{name:<10} {value}")?;
        }
        Ok(())
    }

    fn figure(&self, key: &str) -> Option<u64> {
        self.counters.get(key).and_then(Value::as_u64)
    }

    fn shown(&self, key: &str, kind: Kind) -> String {
        let value = self.counters.get(key);
        let shown = match kind {
            Kind::Count => value.and_then(Value::as_u64).map(number::grouped),
            Kind::Bytes => value.and_then(Value::as_u64).map(number::bytes),
            Kind::Share => value.and_then(Value::as_f64).map(|share| format!("{:.1} %", share * 100.0)),
        };
        shown.unwrap_or_else(|| "-".to_owned())
    }

    fn holes_shown(&self) -> String {
        let figure = |key| self.holes.get(key).and_then(Value::as_u64);
        match (figure("count"), figure("max")) {
            (Some(count), Some(largest)) => {
                format!("{}, the largest {}", number::grouped(count), number::bytes(largest))
            }
            (Some(count), None) => number::grouped(count),
            _ => "-".to_owned(),
        }
    }
}
