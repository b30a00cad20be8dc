//! `heapwright sites`: which call sites hold the memory of a program; `heapwright diff`: what changed between two.
//!
//! From the bottom up: `frame` (names of stack frames taken apart), `internal` (frames of allocators and standard
//! libraries), `whole_names` (names of which a part is known), `stacks` (the stacks of a trace), `tally` (sums and
//! measures), `ledger` (a trace read once), `live` (what is live at several moments), `pinned` (holes, by simulation),
//! `labels` (names of rows), `rows` (groups of sites), `matching` (rows of two recordings), `tree` (trees and folded
//! lines), `analysis` (all of it for one trace), `table` (what is printed), `arguments`, `condition` (of `--fail-if`),
//! `diff` (two recordings compared), `pprof` (an export).

mod analysis;
mod arguments;
mod condition;
pub mod diff;
mod frame;
mod internal;
mod labels;
mod ledger;
mod live;
mod matching;
mod pinned;
pub mod pprof;
mod rows;
mod stacks;
mod table;
mod tally;
mod tree;
mod whole_names;

use std::process::ExitCode;

use anyhow::{Result, bail};
use heapwright_host::files::ensure_rereadable;
use heapwright_host::names::Shown;
use heapwright_recording::Printed;
use heapwright_recording::source::Source;
use heapwright_show::number;
use heapwright_show::{terminal, usage};

pub use self::analysis::{Analysis, Json, Query};
pub use self::arguments::{Arguments, EXAMPLES};
pub use self::frame::Frame;
pub use self::internal::callers;
pub use self::ledger::{Key, Ledger, Moment, Split};
pub use self::live::Live;
pub use self::rows::{Group, JsonAmount, JsonRow, Row};
pub use self::stacks::{Kept, Stacks};
pub use self::tally::{Amount, Measure, Tally};
pub use self::tree::{Direction, Node};

/// Prints the call sites of a trace, or of a program that is recorded first.
///
/// # Errors
/// When the program cannot be recorded, or the trace cannot be read or has no call sites.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let source = Source::of(arguments.trace.as_deref(), &arguments.program, |options| {
        options.sites = Some(arguments.every);
        options.python = arguments.python;
        options.marked = arguments.marked;
        options.times = matches!(arguments.at, Moment::Time(_));
        if arguments.json || arguments.folded {
            options.printed = Printed::ToErrors;
        }
    })?;
    if arguments.by == Measure::Pinned {
        ensure_rereadable(&source.trace)?;
    }
    let kept = if arguments.all_frames { Kept::All } else { Kept::Callers };
    let query = Query { moment: arguments.at, split: arguments.group.split(), kept };
    let mut analysis = match (Analysis::read(&source.trace, query), source.why_no_stacks) {
        (Err(_), Some(why)) => bail!("all stacks of {} lead nowhere: {why}", arguments.program[0].shown()),
        (read, _) => read?,
    };
    if arguments.by == Measure::Pinned {
        if query.split != Split::Nothing {
            usage::refuse("pinned holes are those of call sites: `--group thread` and `size` have none");
        }
        analysis.find_pinned(&source.trace)?;
    }
    analysis.warn(&source.trace);
    if arguments.folded {
        let lines = tree::folded(&analysis, arguments.by);
        lines.iter().for_each(|line| heapwright_show::println!("{line}"));
    } else if let Some(direction) = arguments.tree {
        print_tree(&analysis, arguments, direction);
    } else {
        let mut rows = analysis.rows(arguments.group, arguments.by);
        let all = rows.len();
        if arguments.limit > 0 {
            rows.truncate(arguments.limit);
        }
        if arguments.json {
            let json = serde_json::to_string_pretty(&analysis.json(&rows, arguments.by))?;
            heapwright_show::println!("{json}");
        } else {
            table::print(&analysis, arguments, &rows, all);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_tree(analysis: &Analysis, arguments: &Arguments, direction: Direction) {
    let root = Node::root(analysis, arguments.by, direction);
    let least = (root.value as f64 * arguments.least.max(0.0) / 100.0).ceil() as u64;
    let show = |value| if arguments.by.is_bytes() { number::bytes(value) } else { number::grouped(value) };
    heapwright_show::println!("{}\n", terminal::fitted(&table::heading(analysis)));
    tree::lines(&root, &analysis.stacks, least, &show).iter().for_each(|line| heapwright_show::println!("{line}"));
}
