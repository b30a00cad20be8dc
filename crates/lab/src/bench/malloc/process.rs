//! Programs, each started by the small launcher in a process of its own, and what they took.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail, ensure};
use heapwright_bench::{COUNT, CPU, Counts, ELAPSED, LAUNCH, MALLOC, Spent, WORK, Workload};

use super::figures::{Figures, Kept};
use crate::allocator::Allocator;
use crate::child::is_same_file;
use crate::preload::{self, LD_PRELOAD};

/// What runs longer has hung, in seconds.
const TIME_LIMIT: u32 = 120;

/// How `ld.so` says that it goes on without a library.
const NOT_LOADED: &str = "cannot be preloaded";

/// Where programs are started from: the launcher, and a folder for what passes between it and this process.
pub struct Base {
    launcher: PathBuf,
    folder: PathBuf,
}

/// A program to be started.
pub struct Start<'a> {
    /// It and its arguments.
    pub command: Vec<OsString>,
    /// Its environment, beside the usual.
    pub settings: &'a [(&'a str, OsString)],
    /// Its standard input.
    pub input: &'a Path,
    /// How often, one after the other.
    pub times: u32,
}

/// What came of it.
pub struct Ended {
    /// The mean of all times.
    pub figures: Figures,
    /// Its standard output.
    pub output: String,
}

impl Base {
    /// Programs are started in `folder`, an absolute path, and may leave there what they want.
    ///
    /// # Errors
    /// When the launcher cannot be put anywhere.
    pub fn new(folder: &Path) -> Result<Base> {
        let launcher = preload::bench_program()?.canonicalize().context("cannot find the launcher")?;
        Ok(Base { launcher, folder: folder.to_owned() })
    }

    /// Runs one of our own workloads and returns its figures, and those of each of its parts.
    ///
    /// # Errors
    /// As [`Base::start`]; also when its malloc did not come from `allocator`.
    pub fn work(&self, workload: &Workload, share: f64, sizes: &Path, allocator: &Allocator) -> Result<Vec<Figures>> {
        let command = [self.launcher.as_os_str(), WORK.as_ref(), workload.name.as_ref()].map(OsString::from);
        let mut command = command.to_vec();
        command.extend([OsString::from(share.to_string()), sizes.into()]);
        let start = Start { command, settings: &[], input: Path::new("/dev/null"), times: 1 };
        let Ended { figures, output } = self.start(&start, allocator)?;
        let told = told(&output, allocator)?;
        let numbers = told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        let numbers: BTreeMap<String, u64> = numbers.collect();
        let seconds = |name: &str| numbers.get(name).map(|&nanoseconds| nanoseconds as f64 / 1e9);
        let whole = Figures {
            cpu_seconds: seconds(CPU).filter(|_| workload.counts != Counts::Neither),
            elapsed_seconds: seconds(ELAPSED).filter(|_| workload.counts == Counts::Both),
            peak_rss: figures.peak_rss,
            kept: Kept::of(&numbers),
        };
        let part = |part: &&str| Figures { cpu_seconds: seconds(part), ..Figures::default() };
        Ok([whole].into_iter().chain(workload.parts.iter().map(part)).collect())
    }

    /// Calls malloc and free `pairs` times for a block of `bytes` under `valgrind`, and returns callgrind's profile of that.
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
            self.launcher.clone().into(),
            COUNT.into(),
            bytes.to_string().into(),
            pairs.to_string().into(),
        ]);
        let start = Start { command, settings: &[], input: Path::new("/dev/null"), times: 1 };
        told(&self.start(&start, allocator)?.output, allocator)?;
        fs::read_to_string(&profile).context("callgrind left no profile")
    }

    /// Runs a program and waits for it.
    ///
    /// # Errors
    /// When it cannot be started, fails, hangs, or runs without the allocator's library.
    pub fn start(&self, start: &Start, allocator: &Allocator) -> Result<Ended> {
        let [report, output, complaints] = ["report", "output", "complaints"].map(|name| self.folder.join(name));
        let file = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let mut launcher = Command::new(&self.launcher);
        launcher.arg(LAUNCH).arg(&report).arg(start.times.to_string()).arg(TIME_LIMIT.to_string());
        launcher.args(settings(start, allocator)?).arg("--").args(&start.command);
        preload::VARIABLES.into_iter().for_each(|variable| {
            launcher.env_remove(variable);
        });
        let input = File::open(start.input).with_context(|| format!("cannot read {}", start.input.display()))?;
        launcher.current_dir(&self.folder).stdin(input).stdout(file(&output)?).stderr(file(&complaints)?);
        let launched = launcher.status().context("cannot start the launcher")?;
        let complaint = || fs::read_to_string(&complaints).unwrap_or_default();
        ensure!(launched.success(), "the launcher failed: {}", first_line(&complaint()));
        let report = fs::read_to_string(&report).context("the launcher left no report")?;
        let spent: Vec<Spent> = report.lines().filter_map(Spent::parse).collect();
        for run in &spent {
            let status = ExitStatus::from_raw(run.status);
            if status.signal() == Some(libc::SIGALRM) {
                bail!("it was still at work after {TIME_LIMIT} s and was ended");
            }
            ensure!(status.success(), "it failed ({status}) {}", first_line(&complaint()));
        }
        let complaint = complaint();
        let unloaded = complaint.lines().find(|line| line.contains(NOT_LOADED));
        ensure!(unloaded.is_none(), "its library was not loaded: {}", unloaded.unwrap_or_default());
        let output = String::from_utf8_lossy(&fs::read(&output)?).into_owned();
        Ok(Ended { figures: mean(&spent).context("the launcher's report cannot be read")?, output })
    }
}

/// What a process of ours said, by name, when its malloc was `allocator`'s.
fn told<'a>(output: &'a str, allocator: &Allocator) -> Result<BTreeMap<&'a str, &'a str>> {
    let told: BTreeMap<&str, &str> = output.lines().filter_map(|line| line.split_once(' ')).collect();
    if let Some(library) = allocator.library()? {
        let malloc = told.get(MALLOC).copied().unwrap_or_default();
        ensure!(is_same_file(Path::new(malloc), &library), "it was not loaded: malloc came from {malloc}");
    }
    Ok(told)
}

/// The environment that makes a program run under `allocator`, as the launcher takes it.
fn settings(start: &Start, allocator: &Allocator) -> Result<Vec<OsString>> {
    let mut settings: Vec<(OsString, OsString)> =
        start.settings.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    if let Some(library) = allocator.library()? {
        settings.retain(|(name, _)| name != LD_PRELOAD);
        // Where programs are started, a relative path leads elsewhere.
        settings.push((LD_PRELOAD.into(), library.canonicalize()?.into_os_string()));
    }
    settings.extend(allocator.settings());
    let join = |(mut setting, value): (OsString, OsString)| {
        setting.push("=");
        setting.push(value);
        setting
    };
    Ok(settings.into_iter().map(join).collect())
}

fn mean(spent: &[Spent]) -> Option<Figures> {
    let count = u64::try_from(spent.len()).ok().filter(|&count| count > 0)?;
    let sum = |figure: fn(&Spent) -> u64| spent.iter().map(figure).sum::<u64>();
    Some(Figures {
        cpu_seconds: Some(sum(|run| run.cpu_us) as f64 / 1e6 / count as f64),
        elapsed_seconds: Some(sum(|run| run.elapsed_ns) as f64 / 1e9 / count as f64),
        peak_rss: Some(sum(|run| run.peak_kib) * 1024 / count),
        kept: None,
    })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
