//! Runs programs by the small launcher, which measures their time and memory. The peak of a child's resident memory
//! begins with that of its parent, and this process is large.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use heapwright_bench::{LAUNCH, Spent};
use heapwright_host::names::Shown;
use heapwright_host::process::is_alarm;

use crate::allocator::Allocator;
use crate::preload::{self, VARIABLES};

/// The part of the dynamic linker's warning that names a library that it cannot load.
const NOT_LOADED: &str = "cannot be preloaded";

/// How long a program that was just written may be busy.
const PATIENCE: Duration = Duration::from_secs(1);

/// The launcher, and the files by which it answers.
pub struct Launcher {
    program: PathBuf,
    report: PathBuf,
    complaints: PathBuf,
}

/// A program to run.
pub struct Launch<'a> {
    /// The program's path and its arguments.
    pub command: &'a [OsString],
    /// Environment variables in addition to the inherited ones and the allocator's.
    pub settings: &'a [(&'a str, OsString)],
    /// Number of runs, one after the other.
    pub times: u32,
    /// Time limit of a run, in seconds.
    pub seconds: u32,
    /// How each run must end; the default is success.
    pub ends_as: ExitStatus,
}

impl Launcher {
    /// Returns a launcher whose files are in `folder`, an absolute path.
    ///
    /// # Errors
    /// When the launcher cannot be written to disk.
    pub fn new(folder: &Path) -> Result<Launcher> {
        let program = preload::bench_program()?.canonicalize().context("cannot find the launcher")?;
        Ok(Launcher { program, report: folder.join("report"), complaints: folder.join("complaints") })
    }

    /// Returns the path of the launcher, which is the program of the built-in workloads too.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs a program under `allocator` and returns the resources of each run. `prepare` sets standard input, standard
    /// output and the current directory.
    ///
    /// # Errors
    /// When the program cannot be started, fails, exceeds its time limit, or runs without the allocator's library.
    pub fn run(
        &self,
        launch: &Launch,
        allocator: &Allocator,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Vec<Spent>> {
        let mut launcher = Command::new(&self.program);
        launcher.arg(LAUNCH).arg(&self.report).arg(launch.times.to_string()).arg(launch.seconds.to_string());
        launcher.args(environment(launch, allocator)?).arg("--").args(launch.command);
        VARIABLES.into_iter().for_each(|variable| {
            launcher.env_remove(variable);
        });
        prepare(&mut launcher);
        let complaints = File::create(&self.complaints);
        launcher.stderr(complaints.with_context(|| format!("cannot write {}", self.complaints.shown()))?);
        let launched = run_to_the_end(&mut launcher).context("cannot start the launcher")?;
        let complaint = fs::read(&self.complaints).unwrap_or_default();
        let complaint = String::from_utf8_lossy(&complaint);
        ensure!(launched.success(), "the launcher failed: {}", last_line(&complaint));
        let report = fs::read_to_string(&self.report).context("the launcher left no report")?;
        let spent: Vec<Spent> = report.lines().filter_map(Spent::parse).collect();
        ensure!(spent.len() == launch.times as usize, "the launcher's report cannot be read");
        for run in &spent {
            let status = ExitStatus::from_raw(run.status);
            if status.signal().is_some_and(is_alarm) {
                bail!("it was still at work after {} s and was ended", launch.seconds);
            }
            ensure!(status.success() || status == launch.ends_as, "it failed ({status}) {}", last_line(&complaint));
            ensure!(status == launch.ends_as, "it ended with {status}, not with {}", launch.ends_as);
        }
        let unloaded = complaint.lines().find(|line| line.contains(NOT_LOADED));
        ensure!(unloaded.is_none(), "its library was not loaded: {}", unloaded.unwrap_or_default());
        Ok(spent)
    }
}

/// Runs a command whose program may have been written a moment ago. A child that another thread has just forked has the
/// file open for writing until it executes its own program, and until then the system refuses to execute the file.
fn run_to_the_end(command: &mut Command) -> io::Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        match command.status() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && begun.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            status => return status,
        }
    }
}

/// Returns the variables of a run as `NAME=VALUE`; the allocator's take precedence.
fn environment(launch: &Launch, allocator: &Allocator) -> Result<Vec<OsString>> {
    let own = allocator.environment()?;
    let is_free = |name: &str| own.iter().all(|(other, _)| other != name);
    let given = launch.settings.iter().filter(|(name, _)| is_free(name));
    let given = given.map(|(name, value)| (OsString::from(name), value.clone()));
    let all = given.chain(own.clone());
    Ok(all.map(|(name, value)| [name.as_os_str(), OsStr::new("="), &value].into_iter().collect()).collect())
}

/// Returns the last line that is not empty: where programs name their error.
fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(command: &[&str], seconds: u32) -> Result<Vec<Spent>> {
        let folder = tempfile::tempdir().unwrap();
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let launch = Launch {
            command: &command,
            settings: &[("GREETING", "hello".into())],
            times: 2,
            seconds,
            ends_as: ExitStatus::default(),
        };
        Launcher::new(folder.path())?.run(&launch, &Allocator::System, |_| ())
    }

    #[test]
    fn every_run_is_measured_under_the_given_settings() {
        let busy = "test \"$GREETING\" = hello || exit 1; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let spent = launched(&["/bin/sh", "-c", busy], 60).unwrap();
        assert_eq!(spent.len(), 2);
        assert!(spent.iter().all(|run| run.cpu_us > 0 && run.peak_kib > 100), "{spent:?}");
    }

    #[test]
    fn a_program_that_is_still_open_for_writing_is_started_when_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("true");
        fs::copy("/bin/true", &program).unwrap();
        let writer = File::options().append(true).open(&program).unwrap();
        let error = Command::new(&program).status().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExecutableFileBusy);
        let closes = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(writer);
        });
        assert!(run_to_the_end(&mut Command::new(&program)).unwrap().success());
        closes.join().unwrap();
    }

    #[test]
    fn a_failure_is_explained() {
        let error = |command: &[&str], seconds| launched(command, seconds).unwrap_err().to_string();
        let failed = error(&["/bin/sh", "-c", "echo first >&2; echo alas >&2; exit 3"], 60);
        assert!(failed.contains("exit status: 3") && failed.contains("alas") && !failed.contains("first"), "{failed}");
        assert!(error(&["/bin/sleep", "60"], 1).contains("after 1 s"));
        assert!(error(&["/nowhere"], 60).contains("127"));
    }
}
