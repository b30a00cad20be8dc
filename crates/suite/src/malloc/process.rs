//! Runs workloads and programs by the small launcher, and reads what they print.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result};
use heapwright_bench::{COUNT, CPU, Counts, ELAPSED, MALLOC, SLOW_CALL, Spent, WORK, Workload};

use super::figures::{Figures, Kept};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::launcher::{Launch, Launcher};
use heapwright_host::identity::ensure_preloaded;
use heapwright_host::names::Shown;

/// Time limit of a run, in seconds.
const TIME_LIMIT: u32 = 120;

/// The launcher, and a folder for the files that it exchanges with this process.
pub struct Base {
    launcher: Launcher,
    folder: PathBuf,
}

/// A program to be started.
pub struct Start<'a> {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Additional environment variables.
    pub settings: &'a [(&'a str, OsString)],
    /// Its standard input.
    pub input: &'a Path,
    /// Number of runs, one after the other.
    pub times: u32,
}

/// The results of a program.
pub struct Ended {
    /// The mean of all runs.
    pub figures: Figures,
    /// Its standard output.
    pub output: String,
}

impl Base {
    /// Returns a base that starts programs in `folder`, an absolute path. Programs may leave files there.
    ///
    /// # Errors
    /// When the launcher cannot be written to disk.
    pub fn new(folder: &Path) -> Result<Base> {
        Ok(Base { launcher: Launcher::new(folder)?, folder: folder.to_owned() })
    }

    /// Runs one of our own workloads and returns its figures, then those of each of its parts.
    ///
    /// # Errors
    /// As [`Base::start`]; also when its malloc did not come from `allocator`.
    pub fn work(&self, workload: &Workload, share: f64, sizes: &Path, allocator: &Allocator) -> Result<Vec<Figures>> {
        let command = [self.launcher.program().as_os_str(), WORK.as_ref(), workload.name.as_ref()].map(OsString::from);
        let mut command = command.to_vec();
        command.extend([OsString::from(share.to_string()), sizes.into()]);
        let start = Start { command, settings: &[], input: Path::new("/dev/null"), times: 1 };
        let Ended { figures, output } = self.start(&start, allocator)?;
        let notes = parse_output(&output, allocator)?;
        let numbers = notes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        let numbers: BTreeMap<String, u64> = numbers.collect();
        let seconds = |name: &str| numbers.get(name).map(|&nanoseconds| nanoseconds as f64 / 1e9);
        let whole = Figures {
            cpu_seconds: seconds(CPU).filter(|_| matches!(workload.counts, Counts::Both | Counts::Cpu)),
            elapsed_seconds: seconds(ELAPSED).filter(|_| workload.counts == Counts::Both),
            peak_rss: figures.peak_rss.filter(|_| workload.counts != Counts::Calls),
            slow_call_seconds: seconds(SLOW_CALL),
            kept: Kept::of(&numbers),
        };
        let part = |part: &&str| Figures { cpu_seconds: seconds(part), ..Figures::default() };
        Ok([whole].into_iter().chain(workload.parts.iter().map(part)).collect())
    }

    /// Calls malloc and free `pairs` times for a block of `bytes` under `valgrind`, and returns callgrind's profile of
    /// that.
    ///
    /// # Errors
    /// As [`Base::work`].
    pub fn count(&self, valgrind: &Path, bytes: usize, pairs: usize, allocator: &Allocator) -> Result<String> {
        let profile = self.folder.join("profile");
        let mut to = OsString::from("--callgrind-out-file=");
        to.push(&profile);
        let mut command = [valgrind.as_os_str(), "-q".as_ref(), "--tool=callgrind".as_ref(), to.as_ref()]
            .map(OsString::from)
            .to_vec();
        command.extend([
            self.launcher.program().into(),
            COUNT.into(),
            bytes.to_string().into(),
            pairs.to_string().into(),
        ]);
        let start = Start { command, settings: &[], input: Path::new("/dev/null"), times: 1 };
        parse_output(&self.start(&start, allocator)?.output, allocator)?;
        fs::read_to_string(&profile).context("callgrind left no profile")
    }

    /// Runs a program and waits for it.
    ///
    /// # Errors
    /// When it cannot be started, fails, hangs, or runs without the allocator's library.
    pub fn start(&self, start: &Start, allocator: &Allocator) -> Result<Ended> {
        let input = File::open(start.input).with_context(|| format!("cannot read {}", start.input.shown()))?;
        let output = self.folder.join("output");
        let to = File::create(&output).with_context(|| format!("cannot write {}", output.shown()))?;
        let Start { command, settings, times, .. } = start;
        let launch = Launch { command, settings, times: *times, seconds: TIME_LIMIT, ends_as: ExitStatus::default() };
        let spent = self.launcher.run(&launch, allocator, |launcher| {
            launcher.current_dir(&self.folder).stdin(input).stdout(to);
        })?;
        let output = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
        Ok(Ended { figures: mean(&spent).context("there was no run")?, output })
    }
}

/// Parses the output of our own program, by name, and checks that its malloc was `allocator`'s.
fn parse_output<'a>(output: &'a str, allocator: &Allocator) -> Result<BTreeMap<&'a str, &'a str>> {
    let notes: BTreeMap<&str, &str> = output.lines().filter_map(|line| line.split_once(' ')).collect();
    let malloc = notes.get(MALLOC).copied().unwrap_or_default();
    ensure_preloaded(allocator.library()?.as_deref(), Path::new(malloc))?;
    Ok(notes)
}

fn mean(spent: &[Spent]) -> Option<Figures> {
    let count = u64::try_from(spent.len()).ok().filter(|&count| count > 0)?;
    let sum = |figure: fn(&Spent) -> u64| spent.iter().map(figure).sum::<u64>();
    Some(Figures {
        cpu_seconds: Some(sum(|run| run.cpu_us) as f64 / 1e6 / count as f64),
        elapsed_seconds: Some(sum(|run| run.elapsed_ns) as f64 / 1e9 / count as f64),
        peak_rss: Some(sum(|run| run.peak_kib) * 1024 / count),
        slow_call_seconds: None,
        kept: None,
    })
}
