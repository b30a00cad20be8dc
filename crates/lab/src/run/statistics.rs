//! The statistics that the processes of a run have left, one file each.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cli::Stats;
use crate::number;
use crate::results;
use crate::table::Table;

/// The name of a process' file; the drop-in library puts the process number for `%p`.
pub const FILE_PATTERN: &str = "%p.json";

/// What one process says of its heap. Its figures are passed on as they are.
#[derive(Deserialize, Serialize)]
pub struct Report {
    /// The program's name.
    program: String,
    /// Its process number.
    pid: u32,
    /// The policy that it ran under.
    policy: String,
    /// The counters, by name; `null` for what is not known.
    counters: Map<String, Value>,
    /// The holes at the end.
    holes: Map<String, Value>,
    /// The size classes of the default malloc; no policy has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<Class>,
}

/// A size class at the end. What is not known is `null`.
#[derive(Deserialize, Serialize)]
struct Class {
    /// How long its blocks are, in bytes; `null` for blocks of no class.
    size: Option<u64>,
    allocated: Option<u64>,
    freed: Option<u64>,
    /// Blocks that were not freed.
    blocks: u64,
    slabs: Option<u64>,
    free_bytes: Option<u64>,
}

impl Report {
    /// Whether anything was ever asked for, as far as is known.
    pub fn has_mallocs(&self) -> bool {
        self.counters.get("mallocs").and_then(Value::as_u64) != Some(0)
    }
}

/// All reports of a run.
pub struct Gathered {
    /// That of the program itself.
    pub own: Option<Report>,
    /// Those of the processes that it started, by process number.
    pub others: Vec<Report>,
}

impl Gathered {
    /// Reads all reports in `folder`; `pid` is the program's own process.
    pub fn from(folder: &Path, pid: u32) -> Result<Gathered> {
        let mut gathered = Gathered { own: None, others: Vec::new() };
        for entry in fs::read_dir(folder).context("the statistics are gone")? {
            let path = entry?.path();
            // A process that was ended while it wrote leaves half a report, which says nothing.
            let Some(report) = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Report>(&text).ok())
            else {
                continue;
            };
            if report.pid == pid { gathered.own = Some(report) } else { gathered.others.push(report) }
        }
        gathered.others.sort_by_key(|report| report.pid);
        Ok(gathered)
    }

    fn all(&self) -> impl Iterator<Item = &Report> {
        self.own.iter().chain(&self.others)
    }
}

/// Writes the statistics in the form asked for; nothing when there are none.
pub fn write(out: &mut impl Write, gathered: &Gathered, form: Stats) -> io::Result<()> {
    match form {
        Stats::Json => results::write(out, &gathered.all().collect::<Vec<_>>()),
        Stats::Text => write_text(out, gathered),
    }
}

/// What a figure is, for showing it.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Bytes,
    Share,
}

/// The lines of the table: the counter's key, what people call it, what it is.
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
    ("bytes_returned", "given back to the system", Kind::Bytes),
    ("peak_resident", "peak resident", Kind::Bytes),
    ("utilisation", "utilisation", Kind::Share),
    ("internal_fragmentation", "internal fragmentation", Kind::Share),
    ("external_fragmentation", "external fragmentation", Kind::Share),
];

/// How many programs the table of the other processes lists.
const LISTED: usize = 12;

fn write_text(out: &mut impl Write, gathered: &Gathered) -> io::Result<()> {
    if let Some(report) = &gathered.own {
        writeln!(out, "heapwright: {} [{}] under {}", report.program, report.pid, report.policy)?;
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

/// What the processes of one program come to.
#[derive(Default)]
struct Program<'r> {
    name: &'r str,
    processes: u64,
    mallocs: u64,
    frees: u64,
    /// The largest of any process, in bytes.
    peak_live: u64,
    max_heap: u64,
}

/// The processes that the program started, those of one program in one line.
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
        more => writeln!(out, "  and {more} more programs, all of them in --stats json"),
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

impl Report {
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
