//! What `heapwright record` may be told.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;

use super::program::Options;

pub const EXAMPLES: &str = "\
Examples:
  heapwright record -- /usr/bin/python3 job.py       writes python3.hwt
  heapwright record -o build.hwt -- make             make, and all that it runs
  heapwright record --only cc1plus -- g++ -c a.cpp   the compiler proper, not its driver
  heapwright record --main-only -o sh.hwt -- sh x.sh the shell alone
  heapwright record --sites -- sqlite3 a.db          with the call sites of one request in 16
  heapwright record --sites=1 -- sqlite3 a.db        with those of every request

The program itself is T.hwt: what its process ran last, where one program replaces itself by another
(as env and many wrappers do). Every other process has a trace beside it: T.PID.hwt, and T.PID-2.hwt
when it replaces its program; those with few events are not kept. A program that is killed, crashes or
runs out of disk leaves all that was called until then.

Exit code: as of run; 125 also when nothing was recorded, or a trace could not be written.";

/// What `record` may be told.
#[derive(Args)]
pub struct Arguments {
    /// Where the program's trace goes [default: PROGRAM.hwt in the current directory].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Record only processes that run a program of this name; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Leave out the processes that the program starts.
    #[arg(long)]
    main_only: bool,

    /// Keep traces of other processes than the program's from so many events on; 0 keeps all.
    #[arg(long, value_name = "N", default_value_t = Options::USUAL_LEAST)]
    min_events: u64,

    /// Record the time of every call too.
    #[arg(long)]
    times: bool,

    /// Record where requests came from too: the call sites of one in N, chosen at random; 1 for all [default: 16].
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    sites: Option<NonZero<u32>>,

    /// The program.
    #[arg(value_name = "PROGRAM")]
    program: OsString,

    /// Its arguments.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Arguments {
    /// The program and its arguments.
    pub fn command(&self) -> Vec<OsString> {
        std::iter::once(&self.program).chain(&self.args).cloned().collect()
    }

    /// The same, as the recording takes it.
    pub fn options(&self) -> Options {
        Options {
            output: self.output(),
            only: self.only.clone(),
            main_only: self.main_only,
            times: self.times,
            sites: self.sites,
            least_events: self.min_events,
        }
    }

    /// Where the trace goes: where it was asked for, else into the current directory under the program's name.
    fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| {
            let mut name = Path::new(&self.program).file_name().unwrap_or(&self.program).to_owned();
            name.push(".hwt");
            PathBuf::from(name)
        })
    }
}
