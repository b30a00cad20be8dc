//! The measurement: every program alone, under each of its recordings, and alone once more, in turning order.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::launcher::{Launch, Launcher};
use heapwright_host::interruption::Interruption;
use heapwright_host::temporary::Folder;
use heapwright_show::progress::Progress;
use heapwright_stats::{Estimate, paired_ratios};

use super::case::Case;
use crate::truth::programs::Prepared;

/// The time limit of a run, in seconds.
const SECONDS: u32 = 300;

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Processor time of the program, and of the command if it is recorded.
    Processor,
    /// Time from the start to the end.
    Elapsed,
}

impl Cost {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Cost::Processor => "processor time",
            Cost::Elapsed => "elapsed",
        }
    }
}

/// What the runs of a program took, in microseconds: processor time and elapsed time of each round.
#[derive(Clone, Debug, Default, PartialEq)]
struct Runs([Vec<f64>; 2]);

impl Runs {
    fn of(&self, cost: Cost) -> &[f64] {
        &self.0[cost as usize]
    }
}

/// What a program cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Alone.
    alone: Runs,
    /// Under each recording, and last alone once more.
    others: Vec<Runs>,
}

impl Costs {
    /// Returns the costs of a program that has not run.
    pub fn new(case: &Case) -> Costs {
        Costs { alone: Runs::default(), others: vec![Runs::default(); case.recordings.len() + 1] }
    }

    /// Returns costs that were the same in each of `rounds` rounds, and the same in both measures.
    #[cfg(test)]
    pub fn of_rounds(rounds: usize, alone: f64, others: &[f64]) -> Costs {
        let runs = |cost: f64| Runs([(); 2].map(|()| vec![cost; rounds]));
        Costs { alone: runs(alone), others: others.iter().map(|&cost| runs(cost)).collect() }
    }

    /// Returns what a recording cost over the program alone, in each round; the place after the last recording is the
    /// program alone, once more. `None` when a run took no time.
    pub fn ratios(&self, recording: usize, cost: Cost) -> Option<Vec<f64>> {
        paired_ratios(self.others.get(recording)?.of(cost), self.alone.of(cost))
    }

    /// Returns the median of [`Costs::ratios`]; `None` without a round.
    pub fn over_alone(&self, recording: usize, cost: Cost) -> Option<Estimate> {
        Estimate::of(&self.ratios(recording, cost)?)
    }
}

/// The prepared programs, the command, and where traces are written.
pub struct Recorder {
    command: PathBuf,
    programs: Vec<Prepared>,
    launcher: Launcher,
    folder: Folder,
}

impl Recorder {
    /// Prepares the programs of `cases`.
    ///
    /// # Errors
    /// When a program is not there and cannot be installed, or its input cannot be made.
    pub fn new(command: PathBuf, cases: &[Case]) -> Result<Recorder> {
        let folder = Folder::new("recorder")?;
        let prepare = |(at, case): (usize, &Case)| {
            let own = folder.path().join(at.to_string());
            fs::create_dir(&own).with_context(|| format!("cannot create {}", own.display()))?;
            case.program.prepare(&own)
        };
        let programs = cases.iter().enumerate().map(prepare).collect::<Result<_>>()?;
        Ok(Recorder { command, programs, launcher: Launcher::new(folder.path())?, folder })
    }

    /// Measures `rounds` rounds of `cases`, those of [`Recorder::new`], until Ctrl-C, which ends it after a whole round
    /// of a case.
    ///
    /// # Errors
    /// When a run fails.
    pub fn measure(&self, cases: &[Case], rounds: u16, until: &Interruption) -> Result<Vec<Costs>> {
        let mut all: Vec<Costs> = cases.iter().map(Costs::new).collect();
        let runs: usize = all.iter().map(|costs| 1 + costs.others.len()).sum();
        let progress = Progress::new("recorder", usize::from(rounds) * runs);
        for round in 0..usize::from(rounds) {
            for (at, case) in cases.iter().enumerate() {
                if until.came() {
                    return Ok(all);
                }
                progress.at(case.program.name);
                let others = all[at].others.len();
                for turn in 0..=others {
                    let turn = (turn + round) % (others + 1);
                    let spent = self.run(at, case, turn).with_context(|| case.program.name.to_owned())?;
                    let runs = if turn == 0 { &mut all[at].alone } else { &mut all[at].others[turn - 1] };
                    runs.0.iter_mut().zip(spent).for_each(|(runs, spent)| runs.push(spent));
                    progress.step();
                }
            }
        }
        Ok(all)
    }

    /// Runs a program alone for turn 0 and the last, and recorded for those between; returns what it took, as [`Runs`].
    fn run(&self, at: usize, case: &Case, turn: usize) -> Result<[f64; 2]> {
        let Prepared { command, folder, settings } = &self.programs[at];
        let trace = self.folder.path().join("trace.hwt");
        let recording = turn.checked_sub(1).and_then(|turn| case.recordings.get(turn));
        let mut words = Vec::new();
        if let Some(recording) = recording {
            // Each run writes a new file.
            let _ = fs::remove_file(&trace);
            words.extend([self.command.clone().into_os_string(), "record".into()]);
            words.extend(recording.options.iter().map(OsString::from));
            words.extend(["--main-only".into(), "-o".into(), trace.clone().into(), "--".into()]);
        }
        words.extend_from_slice(command);
        let launch = Launch { command: &words, settings, times: 1, seconds: SECONDS, ends_as: ExitStatus::default() };
        let spent = self.launcher.run(&launch, &Allocator::System, |launcher| {
            launcher.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        })?;
        let run = spent.first().context("there was no run")?;
        Ok([run.cpu_us as f64, run.elapsed_ns as f64 / 1e3])
    }
}
