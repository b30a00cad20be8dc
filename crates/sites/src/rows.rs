//! The rows of a table: call sites in groups.

use std::collections::HashMap;

use clap::ValueEnum;
use heapwright_trace::SiteId;
use serde::Serialize;

use crate::frame::Frame;
use crate::ledger::{Key, Ledger, Split};
use crate::stacks::Stacks;
use crate::tally::{Amount, Measure, Tally};

/// What the blocks of a row have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// The innermost function of the program.
    #[default]
    Function,
    /// The source line of that function.
    Line,
    /// The whole stack.
    Stack,
    /// The source file, or the module where no file is known.
    File,
    /// The program or library.
    Module,
    /// The thread that requested them.
    Thread,
    /// The requested size, rounded up to a power of two.
    Size,
}

impl Group {
    /// Returns what the ledger must be split by.
    pub fn split(self) -> Split {
        match self {
            Group::Thread => Split::Thread,
            Group::Size => Split::Size,
            _ => Split::Nothing,
        }
    }

    /// Returns the heading of the column with the names of rows.
    pub fn heading(self) -> &'static str {
        match self {
            Group::Function | Group::Line => "function",
            Group::Stack => "call stack, innermost first",
            Group::File => "file",
            Group::Module => "module",
            Group::Thread => "thread",
            Group::Size => "size",
        }
    }

    /// Returns the name that the blocks of a key have in common with others.
    fn name_of(self, key: Key, stacks: &Stacks) -> Name {
        let innermost = || stacks.innermost(key.site);
        let unknown = || "(unknown)".to_owned();
        match self {
            Group::Function => Name::Frame(Frame { line: None, file: None, ..innermost().clone() }),
            Group::Line => Name::Frame(innermost().clone()),
            Group::Stack => Name::Stack(stacks.numbers(key.site).into()),
            Group::File => {
                let Frame { file, module, .. } = innermost();
                Name::Text(file.clone().or_else(|| module.clone()).unwrap_or_else(unknown))
            }
            Group::Module => Name::Text(innermost().module.clone().unwrap_or_else(unknown)),
            Group::Thread | Group::Size => Name::Number(key.part),
        }
    }
}

/// What identifies a row.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Frame(Frame),
    Stack(Box<[u32]>),
    Text(String),
    Number(u64),
}

/// A row: the blocks of some call sites.
pub struct Row {
    /// What identifies the row in any recording: functions without their lines and modules.
    pub key: String,
    /// What the blocks have in common.
    pub name: String,
    /// The stack of the site that has most of the measure, the innermost frame first; empty for threads and sizes.
    pub stack: Vec<Frame>,
    /// The number of sites.
    pub sites: u64,
    /// The sums, estimates of the whole if the trace is sampled.
    pub tally: Tally,
    /// The sums of the sample.
    pub sampled: Tally,
}

/// Returns the rows of a ledger, as [`Measure::most_first`] orders them, then by name. `every` is the sampling period
/// of the trace.
pub fn rows(ledger: &Ledger, stacks: &Stacks, group: Group, measure: Measure, every: u64) -> Vec<Row> {
    let by_thread_or_size = group.split() != Split::Nothing;
    // Threads and sizes are known of every block, sampled or not.
    let every = if by_thread_or_size { 1 } else { every };
    let mut groups: HashMap<Name, Merged> = HashMap::new();
    for (key, tally) in &ledger.tallies {
        if key.site.is_some() || every == 1 {
            groups.entry(group.name_of(*key, stacks)).or_default().add(key.site, tally, measure);
        }
    }
    let mut rows: Vec<(Name, Row)> = groups
        .into_iter()
        .map(|(name, merged)| {
            let stack: Vec<Frame> =
                if by_thread_or_size { Vec::new() } else { stacks.frames(merged.most).cloned().collect() };
            let Merged { sampled, sites, .. } = merged;
            let row = Row {
                key: key(&name, &stack),
                name: shown(&name, &stack),
                stack,
                sites,
                tally: sampled.scaled(every),
                sampled,
            };
            (name, row)
        })
        .collect();
    rows.sort_by(|(one_name, one), (other_name, other)| {
        measure.most_first(&one.tally, &other.tally).then_with(|| one_name.cmp(other_name))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The sums of a group while it is gathered.
#[derive(Default)]
struct Merged {
    sampled: Tally,
    sites: u64,
    /// The site that has most of the measure, and how much.
    most: Option<SiteId>,
    amount: u64,
}

impl Merged {
    fn add(&mut self, site: Option<SiteId>, tally: &Tally, measure: Measure) {
        let amount = measure.of(tally);
        if self.sites == 0 || amount > self.amount {
            (self.most, self.amount) = (site, amount);
        }
        self.sites += 1;
        self.sampled.merge(tally);
    }
}

/// Returns what identifies a row in any recording.
fn key(name: &Name, stack: &[Frame]) -> String {
    match name {
        Name::Frame(Frame { function, file, line, .. }) => match (file, line) {
            (Some(file), Some(line)) => format!("{function} {file}:{line}"),
            _ => function.clone(),
        },
        Name::Stack(_) => stack.iter().map(|frame| frame.function.as_str()).collect::<Vec<_>>().join(";"),
        Name::Text(text) => text.clone(),
        Name::Number(number) => number.to_string(),
    }
}

/// Returns the name of a row whose heaviest stack is `stack`.
fn shown(name: &Name, stack: &[Frame]) -> String {
    match (name, stack.first()) {
        (Name::Frame(_), Some(frame)) => frame.to_string(),
        (Name::Frame(frame), None) => frame.to_string(),
        (Name::Stack(_), _) => stack.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ← "),
        (Name::Text(text), _) => text.clone(),
        (Name::Number(number), _) => number.to_string(),
    }
}

/// A row as `--json` writes it. Bytes are requested bytes, unless the name says otherwise.
#[derive(Serialize)]
pub struct JsonRow {
    name: String,
    stack: Vec<String>,
    sites: u64,
    held: JsonAmount,
    leaked: JsonAmount,
    temporary: JsonAmount,
    churn: JsonAmount,
    rounding_bytes: u64,
    /// Bytes of holes; 0 unless sorted by them.
    pinned_bytes: u64,
    /// The standard deviation of the bytes held; `None` unless the trace is sampled.
    held_deviation: Option<f64>,
    leaked_deviation: Option<f64>,
    churn_deviation: Option<f64>,
}

/// A number of blocks and their bytes.
#[derive(Serialize)]
pub struct JsonAmount {
    blocks: u64,
    bytes: u64,
}

impl From<&Amount> for JsonAmount {
    fn from(amount: &Amount) -> JsonAmount {
        JsonAmount { blocks: amount.blocks, bytes: amount.bytes }
    }
}

impl JsonRow {
    /// Returns the row of a trace with this sampling period.
    pub fn of(row: &Row, every: u64) -> JsonRow {
        let deviation = |measure: Measure| measure.deviation(&row.sampled, every);
        JsonRow {
            name: row.name.clone(),
            stack: row.stack.iter().map(ToString::to_string).collect(),
            sites: row.sites,
            held: JsonAmount::from(&row.tally.held),
            leaked: JsonAmount::from(&row.tally.live),
            temporary: JsonAmount::from(&row.tally.temporary),
            churn: JsonAmount::from(&row.tally.churn),
            rounding_bytes: row.tally.held.rounding,
            pinned_bytes: row.tally.pinned,
            held_deviation: deviation(Measure::Held),
            leaked_deviation: deviation(Measure::Leaked),
            churn_deviation: deviation(Measure::Churn),
        }
    }
}
