//! The measurement: every run under the system's malloc, ours, and the system's again, in turning order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use heapwright_host::interruption::Interruption;
use heapwright_show::progress::Progress;

use super::figure::Run;
use crate::workspace::workspace;

/// The time limit of a process, in seconds.
const SECONDS: &str = "120";

/// The status by which a program reports that its surrounding cannot be had here.
const SKIPPED: i32 = 77;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The system's malloc.
    System,
    /// Our library.
    Ours,
    /// The system's malloc once more (A/A): the difference is noise.
    Again,
}

/// The columns, in the order of [`Samples::of`].
pub const CONTENDERS: [Contender; 3] = [Contender::System, Contender::Ours, Contender::Again];

/// The compiled programs, and the library.
pub struct Programs {
    folder: PathBuf,
    library: PathBuf,
    /// An assignment of a variable that chooses the heap.
    setting: Option<String>,
}

impl Programs {
    /// Compiles the launcher and every program of `runs` into `folder`.
    ///
    /// # Errors
    /// When the compiler is missing or finds a fault.
    pub fn compile(runs: &[&Run], folder: &Path, library: PathBuf, setting: Option<String>) -> Result<Programs> {
        let programs = Programs { folder: folder.to_owned(), library, setting };
        let mut sources: Vec<&str> = runs.iter().map(|run| run.program).chain(["under.c"]).collect();
        sources.sort_unstable();
        sources.dedup();
        sources.into_iter().try_for_each(|source| programs.compile_one(source))?;
        Ok(programs)
    }

    fn compile_one(&self, source: &str) -> Result<()> {
        let root = workspace()?;
        let mut compiler = Command::new("cc");
        // Without -fno-builtin a compiler leaves out a pair of malloc and free.
        compiler.args(["-std=gnu11", "-O1", "-g", "-Wall", "-fno-builtin", "-pthread", "-I"]);
        compiler.arg(root.join("crates/testkit/c")).arg("-o").arg(self.path(source));
        compiler.arg(root.join("crates/malloc/tests/programs").join(source));
        let output = compiler.output().context("cannot run cc")?;
        ensure!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    fn path(&self, source: &str) -> PathBuf {
        self.folder.join(source.trim_end_matches(".c"))
    }

    /// Runs the program once and returns the numbers that it prints, by their names.
    fn run(&self, run: &Run, contender: Contender) -> Result<BTreeMap<String, f64>> {
        let mut command = Command::new("timeout");
        command.args(["-k", "2", SECONDS]).arg(self.path("under.c")).args(run.surrounding);
        if contender == Contender::Ours {
            command.arg(format!("--preload={}", self.library.display()));
            command.args(self.setting.as_ref().map(|setting| format!("--set={setting}")));
        }
        let output = command.arg(self.path(run.program)).args(run.arguments).output().context("cannot run timeout")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            Some(0) => parse(&printed),
            Some(SKIPPED) => bail!("{}", printed.trim()),
            Some(124 | 137) => bail!("killed after {SECONDS} s"),
            _ => bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
        }
    }
}

/// Parses lines of a name and a number, or one number.
fn parse(printed: &str) -> Result<BTreeMap<String, f64>> {
    let figure = |line: &str| -> Result<(String, f64)> {
        let (name, number) = line.rsplit_once(' ').unwrap_or(("", line));
        let number = number.parse().with_context(|| format!("{line:?} is not a figure"))?;
        Ok((name.to_owned(), number))
    };
    printed.lines().map(figure).collect()
}

/// What was measured of a run.
#[derive(Default)]
pub struct Samples {
    /// The numbers of each contender, by name.
    of: [BTreeMap<String, Vec<f64>>; CONTENDERS.len()],
    /// The first failure of each contender.
    failures: [Option<String>; CONTENDERS.len()],
}

impl Samples {
    /// Returns the median of a figure.
    pub fn median(&self, contender: Contender, name: &str) -> Option<f64> {
        heapwright_stats::median(self.of[contender as usize].get(name)?)
    }

    /// Returns the first failure of a contender.
    pub fn failure(&self, contender: Contender) -> Option<&str> {
        self.failures[contender as usize].as_deref()
    }

    fn add(&mut self, contender: Contender, outcome: Result<BTreeMap<String, f64>>) {
        match outcome {
            Ok(figures) => {
                for (name, figure) in figures {
                    self.of[contender as usize].entry(name).or_default().push(figure);
                }
            }
            Err(error) => {
                self.failures[contender as usize].get_or_insert(format!("{error:#}"));
            }
        }
    }
}

/// Measures `runs` in `rounds` rounds, until Ctrl-C. A contender that fails a run is not measured there again.
pub fn measure(programs: &Programs, runs: &[&Run], rounds: u16, until: &Interruption) -> Vec<Samples> {
    let mut all: Vec<Samples> = runs.iter().map(|_| Samples::default()).collect();
    let progress = Progress::new("surroundings", usize::from(rounds) * runs.len() * CONTENDERS.len());
    for round in 0..usize::from(rounds) {
        for (place, run) in runs.iter().enumerate() {
            for turn in 0..CONTENDERS.len() {
                if until.came() {
                    return all;
                }
                let contender = CONTENDERS[(turn + round + place) % CONTENDERS.len()];
                progress.at(&format!("{} {}", run.program, run.arguments.join(" ")));
                if all[place].failure(contender).is_none() {
                    all[place].add(contender, programs.run(run, contender));
                }
                progress.step();
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_names_or_are_alone() {
        assert_eq!(parse("12\n").unwrap(), BTreeMap::from([(String::new(), 12.0)]));
        let two = parse("a-b 1.5\nc 2e3\n").unwrap();
        assert_eq!((two["a-b"], two["c"]), (1.5, 2000.0));
        assert!(parse("no number\n").is_err());
    }

    #[test]
    fn the_median_leaves_out_failures() {
        let mut samples = Samples::default();
        for figure in [1.0, 9.0, 2.0] {
            samples.add(Contender::Ours, Ok(BTreeMap::from([("x".to_owned(), figure)])));
        }
        samples.add(Contender::Ours, Err(anyhow::anyhow!("killed")));
        assert_eq!(samples.median(Contender::Ours, "x"), Some(2.0));
        assert_eq!((samples.median(Contender::System, "x"), samples.failure(Contender::Ours)), (None, Some("killed")));
    }
}
