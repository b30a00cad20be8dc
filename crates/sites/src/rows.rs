//! The rows of a table: call sites in groups.

use std::collections::{HashMap, HashSet};

use clap::ValueEnum;
use foldhash::fast::RandomState;
use heapwright_trace::SiteId;
use serde::Serialize;

use crate::frame::Frame;
use crate::labels;
use crate::ledger::{Estimate, Ledger, Split};
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

    /// Returns what the blocks of a site, and of a thread or size, have in common with others.
    fn name_of(self, site: Option<SiteId>, part: u64, stacks: &Stacks) -> Name {
        let naming = || stacks.naming(site);
        match self {
            Group::Function => Name::Frame(naming().whole_function()),
            Group::Line => Name::Frame(naming().clone()),
            Group::Stack => Name::Stack(stacks.numbers(site).into()),
            Group::File => Name::Frame(naming().without_function()),
            Group::Module => {
                let module = &stacks.innermost(site).module;
                Name::Text(module.clone().unwrap_or_else(|| "(unknown)".to_owned()))
            }
            Group::Thread | Group::Size => Name::Number(part),
        }
    }

    /// Returns the frames that a site adds to what its row is named by.
    fn frames_of(self, site: Option<SiteId>, stacks: &Stacks) -> Vec<Frame> {
        match self {
            Group::Function | Group::Line => vec![stacks.naming(site).clone()],
            Group::Stack => stacks.frames(site).cloned().collect(),
            Group::File => vec![stacks.naming(site).without_function()],
            Group::Module | Group::Thread | Group::Size => Vec::new(),
        }
    }
}

/// What identifies a row in its trace.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Frame(Frame),
    Stack(Box<[u32]>),
    Text(String),
    Number(u64),
}

/// A row: the blocks of some call sites.
pub struct Row {
    /// What the blocks have in common.
    pub name: String,
    /// What rows for functions, lines, stacks and files are named by, the innermost frame first: what all blocks of the
    /// row have in common. Empty for others.
    pub named_by: Vec<Frame>,
    /// The stack of the site that has most of the measure, the innermost frame first; empty for threads and sizes.
    pub stack: Vec<Frame>,
    /// The number of sites.
    pub sites: u64,
    /// The sums, estimates of the whole if the trace is sampled.
    pub tally: Tally,
    /// The sums of the blocks that stand for others.
    pub sampled: Tally,
    /// For how many blocks each of those stands; 1 where the sums are exact.
    pub every: u64,
}

/// Returns the rows of a ledger, as [`Measure::most_first`] orders them, then by name.
pub fn rows(ledger: &Ledger, stacks: &Stacks, group: Group, measure: Measure) -> Vec<Row> {
    let by_thread_or_size = group.split() != Split::Nothing;
    let mut groups: HashMap<Name, Merged> = HashMap::new();
    let mut add = |site, part, estimate: &Estimate| {
        let merged = groups.entry(group.name_of(site, part, stacks)).or_default();
        merged.add(site, estimate, measure);
        merged.name(|| group.frames_of(site, stacks));
    };
    if by_thread_or_size {
        // They are known of every block, sampled or not.
        for (key, tally) in &ledger.tallies {
            let exact = Estimate { whole: *tally, ..Estimate::default() };
            add(key.site, key.part, &exact);
        }
    } else {
        ledger.estimates().iter().for_each(|(site, estimate)| add(*site, 0, estimate));
    }
    let every = if by_thread_or_size { 1 } else { ledger.sampling.every };
    let mut rows: Vec<(Name, Row)> = groups
        .into_iter()
        .map(|(name, merged)| {
            let stack: Vec<Frame> =
                if by_thread_or_size { Vec::new() } else { stacks.frames(merged.most).cloned().collect() };
            let Merged { sum: Estimate { whole: tally, sampled }, sites, named_by, .. } = merged;
            let sites = sites.len() as u64;
            let row = Row { name: text_of(&name), named_by, stack, sites, tally, sampled, every };
            (name, row)
        })
        .collect();
    rows.sort_by(|(one_name, one), (other_name, other)| {
        measure.most_first(&one.tally, &other.tally).then_with(|| one_name.cmp(other_name))
    });
    let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    let names = labels::of(rows.iter().map(|row| row.named_by.as_slice()));
    for (row, name) in rows.iter_mut().zip(names).filter(|(row, _)| !row.named_by.is_empty()) {
        row.name = name;
    }
    rows
}

/// The sums of a group while it is gathered.
#[derive(Default)]
struct Merged {
    sum: Estimate,
    sites: HashSet<Option<SiteId>, RandomState>,
    /// The site that has most of the measure, and how much.
    most: Option<SiteId>,
    amount: u64,
    /// What all sites have in common.
    named_by: Vec<Frame>,
}

impl Merged {
    fn add(&mut self, site: Option<SiteId>, estimate: &Estimate, measure: Measure) {
        let amount = measure.of(&estimate.whole);
        if self.sites.is_empty() || amount > self.amount {
            (self.most, self.amount) = (site, amount);
        }
        self.sites.insert(site);
        self.sum.merge(estimate);
    }

    /// Keeps of the frames that name the row what the latest site has in common with the others.
    fn name(&mut self, frames: impl FnOnce() -> Vec<Frame>) {
        let frames = frames();
        if self.sites.len() == 1 {
            self.named_by = frames;
        } else {
            self.named_by.iter_mut().zip(&frames).for_each(|(frame, other)| frame.keep_common(other));
        }
    }
}

/// Returns the name of a row that no frame names.
fn text_of(name: &Name) -> String {
    match name {
        Name::Frame(_) | Name::Stack(_) => String::new(),
        Name::Text(text) => text.clone(),
        Name::Number(number) => number.to_string(),
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
    /// Bytes of holes; `None` unless sorted by them.
    pinned_bytes: Option<u64>,
    /// The standard deviation of the bytes held; `None` where they are exact.
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
    /// Returns the row as it is written, sorted by a measure.
    pub fn of(row: &Row, by: Measure) -> JsonRow {
        let deviation = |measure: Measure| measure.deviation(&row.sampled, row.every);
        JsonRow {
            name: row.name.clone(),
            stack: row.stack.iter().map(ToString::to_string).collect(),
            sites: row.sites,
            held: JsonAmount::from(&row.tally.held),
            leaked: JsonAmount::from(&row.tally.live),
            temporary: JsonAmount::from(&row.tally.temporary),
            churn: JsonAmount::from(&row.tally.churn),
            rounding_bytes: row.tally.held.rounding,
            pinned_bytes: (by == Measure::Pinned).then_some(row.tally.pinned),
            held_deviation: deviation(Measure::Held),
            leaked_deviation: deviation(Measure::Leaked),
            churn_deviation: deviation(Measure::Churn),
        }
    }
}
