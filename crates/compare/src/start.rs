//! The cost of starting a program under an allocator: its library is loaded, and it prepares itself. Replays do not
//! contain this, because they begin when it is done.

use std::ffi::OsString;
use std::process::Stdio;

use anyhow::{Context, Result};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::launcher::{Launch, Launcher};
use heapwright_allocators::peers::Peer;
use heapwright_allocators::preload;
use heapwright_bench::COUNT;
use heapwright_host::temporary::Folder;
use heapwright_stats::median;
use serde::{Deserialize, Serialize};

/// Time limit of a start, in seconds.
const LIMIT: u32 = 30;

/// Number of starts in a round, of a few milliseconds each.
const STARTS: u32 = 3;

/// What a program takes that starts, allocates and frees one block, and ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Processor time in seconds.
    pub cpu_seconds: f64,
    /// Peak resident bytes.
    pub peak_rss: u64,
}

/// Starts the program that does nothing.
pub struct Starter {
    launcher: Launcher,
    command: Vec<OsString>,
    _folder: Folder,
}

impl Starter {
    /// Returns a starter.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn new() -> Result<Starter> {
        let folder = Folder::new("start")?;
        let launcher = Launcher::new(folder.path())?;
        let program = launcher.program().as_os_str().to_owned();
        let command = [program].into_iter().chain([COUNT, "16", "1"].map(OsString::from)).collect();
        Ok(Starter { launcher, command, _folder: folder })
    }

    /// Returns what the recorder adds to the memory of a start; `None` if it cannot be measured.
    pub fn recorder_bytes(&self) -> Option<u64> {
        let recorder = Peer { name: "recorder".to_owned(), library: preload::recorder().ok()? };
        let [own, bare] = [Allocator::Peer(recorder), Allocator::System].map(|it| self.start(&it).ok());
        Some(own?.peak_rss.saturating_sub(bare?.peak_rss))
    }

    /// Starts it a few times under `allocator`; returns the least time, which nothing disturbed, and the median of the
    /// memory, which the kernel counts by approximation.
    ///
    /// # Errors
    /// When it does not start, or ends with an error.
    pub fn start(&self, allocator: &Allocator) -> Result<Start> {
        let launch = Launch { command: &self.command, settings: &[], times: STARTS, seconds: LIMIT };
        let quiet = |launcher: &mut std::process::Command| {
            launcher.stdin(Stdio::null()).stdout(Stdio::null());
        };
        let spent =
            self.launcher.run(&launch, allocator, quiet).context("a program that does nothing fails under it")?;
        let time = spent.iter().map(|run| run.cpu_us).min().context("there was no start")?;
        let memory = median(&spent.iter().map(|run| run.peak_kib as f64).collect::<Vec<f64>>());
        let memory = memory.context("there was no start")?;
        Ok(Start { cpu_seconds: time as f64 / 1e6, peak_rss: memory as u64 * 1024 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwright_allocators::policy;

    #[test]
    fn starts_are_measured() {
        let starter = Starter::new().unwrap();
        let [system, own] =
            [Allocator::System, Allocator::Heapwright(policy::CACHED)].map(|it| starter.start(&it).unwrap());
        assert!(system.cpu_seconds > 0.0 && system.peak_rss > 100 << 10, "{system:?}");
        assert!(own.peak_rss > system.peak_rss / 2, "{own:?} {system:?}");
        assert!(starter.recorder_bytes().is_some_and(|bytes| bytes < 4 << 20));
    }

    #[test]
    fn a_library_that_cannot_be_loaded_is_named() {
        let peer = Peer { name: "none".to_owned(), library: "/nowhere/libnone.so".into() };
        let error = format!("{:#}", Starter::new().unwrap().start(&Allocator::Peer(peer)).unwrap_err());
        assert!(error.contains("does nothing fails under it") && error.contains("libnone.so"), "{error}");
    }
}
