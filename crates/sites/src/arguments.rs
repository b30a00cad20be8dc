//! Command-line arguments of `heapwright sites`.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use heapwright_show::number::parse_duration;

use crate::ledger::Moment;
use crate::rows::Group;
use crate::tally::Measure;
use crate::tree::Direction;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright sites -- ./server --once             which functions hold the memory at the peak?
  heapwright sites --by leaked -- ./job           which allocate what is never freed?
  heapwright sites t.hwt --by temporary           which allocate blocks that they free at once?
  heapwright sites --python -- python3 job.py     Python, with all its objects
  heapwright sites t.hwt --group stack            one row per call stack
  heapwright sites t.hwt --tree                   from main down; --tree=bottom-up: functions, then callers
  heapwright sites t.hwt --at 2.5s                held after 2.5 s (needs `record --times`)
  heapwright sites t.hwt --folded > t.folded      for flame graphs
  heapwright sites t.hwt --json --by churn        for a program to read

A trace has call sites when it was recorded with `record --sites`, better `--sites=1`, or imported from heaptrack,
memray or jemalloc.
Rows are named by the innermost function that is not part of an allocator or of a language's standard library;
--all-frames names it whatever it is. A block that is never freed may still be reachable: a recording does not
show it. Of a sampled trace all figures of rows are estimates, and ± is their standard deviation.

Exit code: 0, or 1 when the trace cannot be read or has no call sites.";

/// Arguments of `sites`.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record --sites` or `heapwright import`.
    #[arg(value_name = "TRACE", required_unless_present = "program", conflicts_with = "program")]
    pub trace: Option<PathBuf>,

    /// The measure that rows are sorted by, and that trees and folded lines show.
    #[arg(long, value_enum, value_name = "MEASURE", default_value_t)]
    pub by: Measure,

    /// What the blocks of a row have in common.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t, conflicts_with_all = ["tree", "folded"])]
    pub group: Group,

    /// Count held memory at this moment: `peak`, after a number of events, or at a time such as 2.5s or 300ms.
    #[arg(long, value_name = "MOMENT", default_value = "peak", value_parser = parse_moment)]
    pub at: Moment,

    /// Show a tree instead of a table.
    #[arg(long, value_enum, value_name = "DIRECTION", num_args = 0..=1, require_equals = true,
          default_missing_value = "top-down", conflicts_with_all = ["folded", "json"])]
    pub tree: Option<Direction>,

    /// Print one line per stack: its functions, the outermost first, separated by semicolons, and the measure.
    #[arg(long, conflicts_with = "json")]
    pub folded: bool,

    /// Print one object with all rows.
    #[arg(long)]
    pub json: bool,

    /// Maximum number of rows; 0 is all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,

    /// Least share of the whole that a line of a tree has, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, requires = "tree", value_parser = parse_percent)]
    pub least: f64,

    /// Name rows by allocators and standard libraries, too.
    #[arg(long)]
    pub all_frames: bool,

    /// Record the stack of one request in N of a program, chosen at random, and of all of 64 KiB or more: faster, and
    /// figures are estimates.
    #[arg(long, value_name = "N", default_value = "1", requires = "program", conflicts_with = "trace")]
    pub every: NonZero<u32>,

    /// Record the objects of Python, too: sets PYTHONMALLOC=malloc, so that they are blocks of malloc.
    #[arg(long, requires = "program", conflicts_with = "trace")]
    pub python: bool,

    /// Record only what the program requests within blocks that it marks, such as `with heapwright.record():`.
    #[arg(long, requires = "program", conflicts_with = "trace")]
    pub marked: bool,

    /// A program and its arguments, instead of a trace: it is recorded, and the trace is not kept.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Parses `--at`.
fn parse_moment(text: &str) -> Result<Moment, String> {
    if text == "peak" {
        return Ok(Moment::Peak);
    }
    if let Ok(events) = text.replace([',', '_'], "").parse() {
        return Ok(Moment::Event(events));
    }
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let time = parse_duration(text).ok().filter(|_| has_unit);
    let time = time.ok_or("a moment is `peak`, a number of events, or a time with its unit, as in 2.5s")?;
    Ok(Moment::Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// Parses `--least`.
fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a share is a number of percent from 0 to 100, as in 5 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        for (text, moment) in [
            ("peak", Moment::Peak),
            ("0", Moment::Event(0)),
            ("1,200_000", Moment::Event(1_200_000)),
            ("2s", Moment::Time(2_000_000_000)),
            ("300ms", Moment::Time(300_000_000)),
        ] {
            assert_eq!(parse_moment(text), Ok(moment), "{text}");
        }
        for text in ["", "end", "-1", "2.5", "s", "1e3"] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }
}
