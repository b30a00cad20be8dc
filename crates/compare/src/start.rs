//! The cost of starting a program under an allocator: its library is loaded, and it prepares itself. The time and the
//! memory of replays do not contain this, because they begin when it is done.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::launcher::{Launch, Launcher};
use heapwright_bench::{COUNT, Spent};
use heapwright_host::temporary::Folder;
use heapwright_real::Script;
use heapwright_recording::{Options, Printed, program};
use heapwright_stats::median;
use serde::{Deserialize, Serialize};

use super::recorded::Recorded;

/// Time limit of a start, in seconds.
const LIMIT: u32 = 30;

/// Number of blocks of the program that is recorded: as many as make the recorder do all that it does in longer
/// programs.
const PAIRS: &str = "20000";

/// Number of starts in a round, of a few milliseconds each.
const STARTS: u32 = 3;

/// Number of recordings of it.
const RECORDINGS: u32 = 5;

/// What a program takes that starts, and allocates and frees one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Processor time in seconds, until it has ended.
    pub cpu_seconds: f64,
    /// Resident bytes of a replay before its first call, files included.
    #[serde(alias = "peak_rss")]
    pub rss: u64,
}

/// Starts the program that does nothing.
pub struct Starter {
    launcher: Launcher,
    folder: Folder,
}

impl Starter {
    /// Returns a starter.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn new() -> Result<Starter> {
        let folder = Folder::new("start")?;
        let launcher = Launcher::new(folder.path())?;
        Ok(Starter { launcher, folder })
    }

    /// Returns the program with its arguments, which allocates and frees this many blocks.
    fn command(&self, pairs: &str) -> Vec<OsString> {
        let program = self.launcher.program().as_os_str().to_owned();
        [program].into_iter().chain([COUNT, "16", pairs].map(OsString::from)).collect()
    }

    /// Records a program that allocates and frees one block again and again, and returns how many resident bytes more
    /// the recording tells than the program has by itself; `None` if that cannot be measured. The kernel counts both by
    /// approximation: the medians of some runs.
    pub fn recorder_bytes(&self) -> Option<u64> {
        let command = self.command(PAIRS);
        let recorded: Option<Vec<f64>> = (0..RECORDINGS).map(|at| self.recorded_peak(&command, at)).collect();
        let peaks: Vec<f64> =
            self.run(&command, &Allocator::System).ok()?.iter().map(|run| run.peak_kib as f64 * 1024.0).collect();
        Some((median(&recorded?)? - median(&peaks)?).max(0.0) as u64)
    }

    fn recorded_peak(&self, command: &[OsString], at: u32) -> Option<f64> {
        let trace = self.folder.path().join(format!("recorded-{at}.hwt"));
        let options = Options { printed: Printed::Discarded, ..Options::usual(trace) };
        let recording = program(command, &options).ok()?;
        Some(Recorded::of(&Script::compile(&recording.main().path).ok()?).peak()? as f64)
    }

    /// Starts a program that does nothing a few times under `allocator`; returns the least processor time in seconds,
    /// which nothing disturbed.
    ///
    /// # Errors
    /// When it does not start, or ends with an error.
    pub fn start(&self, allocator: &Allocator) -> Result<f64> {
        let least = self.run(&self.command("1"), allocator)?.iter().map(|run| run.cpu_us).min();
        Ok(least.context("there was no start")? as f64 / 1e6)
    }

    fn run(&self, command: &[OsString], allocator: &Allocator) -> Result<Vec<Spent>> {
        let launch = Launch { command, settings: &[], times: STARTS, seconds: LIMIT, ends_as: ExitStatus::default() };
        let quiet = |launcher: &mut std::process::Command| {
            launcher.stdin(Stdio::null()).stdout(Stdio::null());
        };
        self.launcher.run(&launch, allocator, quiet).context("a program that does nothing fails under it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwright_allocators::peers::Peer;
    use heapwright_allocators::policy;

    #[test]
    fn starts_are_measured() {
        let starter = Starter::new().unwrap();
        for allocator in [Allocator::System, Allocator::Heapwright(policy::CACHED)] {
            assert!(starter.start(&allocator).unwrap() > 0.0);
        }
        assert!(starter.recorder_bytes().is_some_and(|bytes| bytes < 4 << 20));
    }

    #[test]
    fn a_library_that_cannot_be_loaded_is_named() {
        let peer = Peer { name: "none".to_owned(), library: "/nowhere/libnone.so".into() };
        let error = format!("{:#}", Starter::new().unwrap().start(&Allocator::Peer(peer)).unwrap_err());
        assert!(error.contains("does nothing fails under it") && error.contains("libnone.so"), "{error}");
    }
}
