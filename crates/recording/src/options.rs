//! What to record, and which traces to keep.

use std::num::NonZero;
use std::path::PathBuf;

use heapwright_translation::Redaction;

/// Where the program's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// To this command's standard output.
    Inherited,
    /// To this command's standard error: standard output has nothing but the result.
    ToErrors,
    /// Nowhere.
    Discarded,
}

/// What to record, and which traces to keep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the program's trace; the traces of other processes lie next to it.
    pub output: PathBuf,
    /// Names of the programs to record; empty for all.
    pub only: Vec<String>,
    /// Whether to leave out the processes that the program starts.
    pub main_only: bool,
    /// Whether to record the time of every call.
    pub times: bool,
    /// Sampling period of call sites: one request in this many; `None` records no sites.
    pub sites: Option<NonZero<u32>>,
    /// Minimum number of events for a trace of another process to be kept.
    pub least_events: u64,
    /// Whether Python takes its objects from malloc, so that they are recorded.
    pub python: bool,
    /// Whether only what is requested within marked blocks is recorded.
    pub marked: bool,
    /// Limit of the length of each trace in bytes.
    pub max_size: Option<u64>,
    /// What the traces leave out.
    pub redaction: Redaction,
    /// Where the program's standard output goes.
    pub printed: Printed,
}

impl Options {
    /// Returns the default minimum number of events: a shorter trace says too little about an allocator to be worth
    /// keeping, unless its program was named.
    pub fn usual_least(only: &[String]) -> u64 {
        const OF_ANY: u64 = 10_000;
        if only.is_empty() { OF_ANY } else { 0 }
    }

    /// The default options, with the trace at `output`.
    pub fn usual(output: PathBuf) -> Options {
        Options {
            output,
            only: Vec::new(),
            main_only: false,
            times: false,
            sites: None,
            least_events: Options::usual_least(&[]),
            python: false,
            marked: false,
            max_size: None,
            redaction: Redaction::Nothing,
            printed: Printed::Inherited,
        }
    }
}
