//! Command-line arguments of `heapwright record`.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use heapwright_host::names::STANDARD_OUTPUT;
use heapwright_show::number::parse_bytes;
use heapwright_translation::Redaction;

use super::options::{Options, Printed};

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright record -- sqlite3 a.db .dump            writes sqlite3.hwt
  heapwright record --python -- python3 job.py       Python, with all its objects
  heapwright record --marked --python -- python3 a.py  only within `with heapwright.record():`
  heapwright record -o build.hwt -- make             make, and all that it runs
  heapwright record --only cc1plus -- g++ -c a.cpp   the compiler only, not its driver
  heapwright record --main-only -o sh.hwt -- sh x.sh the shell alone
  heapwright record --sites -- sqlite3 a.db          with the call sites of one request in 16
  heapwright record --sites=1 -- sqlite3 a.db        with those of every request
  heapwright record --max-size 100MiB -- ./server    the first 100 MiB of each trace
  heapwright record --redact -- ./job --token X      to be shown to others

The program itself is T.hwt: what its process ran last, where one program replaces itself by another
(as env and many wrappers do). Every other process has a trace beside it: T.PID.hwt, and T.PID-2.hwt
when it replaces its program; those with few events are not kept. While it is written, and if it cannot
be completed, a trace is named T.hwt.partial; every command reads it. An older T.hwt stays until then, and a
file that is not a trace is never replaced. A program that is killed or crashes leaves all that was called
until then. Python keeps small objects in an allocator of its own,
which is not recorded; --python makes them blocks of malloc.

Exit code: as of run; 125 also when nothing was recorded, when the program's trace could not be completed
(there is no T.hwt then), or another one could not be written; 130 when the end of the recording was
interrupted.";

/// Arguments of `record`.
#[derive(Args)]
pub struct Arguments {
    /// Path of the program's trace [default: PROGRAM.hwt in the current directory].
    #[arg(long, short, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file))]
    output: Option<PathBuf>,

    /// Record only processes that run a program of this name; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Leave out the processes that the program starts.
    #[arg(long)]
    main_only: bool,

    /// Minimum number of events for a trace of another process to be kept; 0 keeps all. [default: 10000; 0 with --only]
    #[arg(long, value_name = "N")]
    min_events: Option<u64>,

    /// Record the time of every call as well.
    #[arg(long)]
    times: bool,

    /// Record call sites as well: of one request in N, chosen at random, and of all of 64 KiB or more; 1 records every
    /// request [default: 16].
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    sites: Option<NonZero<u32>>,

    /// Record the objects of Python, too: sets PYTHONMALLOC=malloc, so that they are blocks of malloc.
    #[arg(long)]
    python: bool,

    /// Record only what the program requests within blocks that it marks, such as `with heapwright.record():`.
    #[arg(long)]
    marked: bool,

    /// Limit the trace of each process to this size, such as 100MiB; the process then continues unrecorded.
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    max_size: Option<u64>,

    /// Leave out of the traces what is private: arguments, environment and paths.
    #[arg(long)]
    redact: bool,

    /// The program to run.
    #[arg(value_name = "PROGRAM")]
    program: OsString,

    /// Arguments of the program.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Arguments {
    /// Returns the program and its arguments.
    pub fn command(&self) -> Vec<OsString> {
        std::iter::once(&self.program).chain(&self.args).cloned().collect()
    }

    /// Returns the options for the recording.
    pub fn options(&self) -> Options {
        Options {
            output: self.output(),
            only: self.only.clone(),
            main_only: self.main_only,
            times: self.times,
            sites: self.sites,
            least_events: self.min_events.unwrap_or(Options::usual_least(&self.only)),
            python: self.python,
            marked: self.marked,
            max_size: self.max_size,
            redaction: if self.redact { Redaction::Private } else { Redaction::Nothing },
            printed: Printed::Inherited,
        }
    }

    /// Returns the path of the trace: the one given, otherwise the program's name in the current directory.
    fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| {
            let mut name = Path::new(&self.program).file_name().unwrap_or(&self.program).to_owned();
            name.push(".hwt");
            PathBuf::from(name)
        })
    }
}

/// Parses `--output`, which is no standard output: the program writes there.
fn file(path: PathBuf) -> Result<PathBuf, String> {
    if path.as_os_str() == STANDARD_OUTPUT {
        Err("a trace cannot go to standard output, where the program writes: name a file (./- is one)".to_owned())
    } else {
        Ok(path)
    }
}

/// Parses `--max-size`.
fn parse_limit(text: &str) -> Result<u64, String> {
    /// A trace that is shorter says nothing.
    const LEAST: u64 = 64 << 10;
    let bytes = parse_bytes(text)? as u64;
    if bytes < LEAST { Err("the least is 64KiB".to_owned()) } else { Ok(bytes) }
}
