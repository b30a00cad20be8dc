//! Real replays in rounds. Each round runs every allocator once, each in a worker process of its own and in random
//! order, so that a disturbance of the machine affects all alike.

use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;

use super::background::Background;
use super::pace::{Pace, Stage, comparisons};
use super::recorded::{Recorded, curve};
use super::row::{Kind, Round, Row, Sample, TimedRound};
use super::start::{Start, Starter};
use super::subject::Subject;
use heapwright_host::interruption::Interruption;
use heapwright_real as real;
use heapwright_real::Latencies;
use heapwright_real::Payload;
use heapwright_real::Run;
use heapwright_real::Script;
use heapwright_real::Settings;
use heapwright_real::Threads;
use heapwright_show::progress::Progress;
use heapwright_stats::Estimate;

/// The first round, and every third one after it, is followed by a round that times each call.
const TIMED_EVERY: u32 = 3;

/// How real replays are made.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How many rounds there are.
    pub pace: Pace,
    /// The threads that make the calls.
    pub threads: Threads,
    /// Whether there are rounds in which each call is timed.
    pub latencies: Latencies,
    /// The seed of the orders.
    pub seed: u64,
}

/// The outcome of the rounds, apart from the figures of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Rounds that measured every subject.
    pub rounds: u32,
    /// Rounds in which each call was timed.
    pub timed_rounds: u32,
    /// The most bytes that the system's malloc got from the system, where that is known.
    pub system_peak: Option<u64>,
}

/// Rows, and the subject of each.
pub struct Rounds<'a> {
    /// The rows.
    pub rows: &'a mut [Row],
    /// Their subjects, in the same order.
    pub subjects: &'a [Subject],
    /// What is replayed.
    pub script: &'a Script,
    /// How.
    pub course: &'a Course,
    /// Ends the measurement after the current run.
    pub until: &'a Interruption,
    /// What is measured for predictions of the program.
    pub extras: Extras,
}

/// What is measured in each round beside replays.
#[derive(Default)]
pub struct Extras {
    /// The memory of the recorded process in the course of its events, if its peak is known.
    memory: Option<Vec<Sample>>,
    /// Measures the start of programs.
    starter: Option<Starter>,
}

impl Extras {
    /// Returns what the recorder adds to the memory of a program that does nothing, if that is of use.
    pub fn recorder_bytes(&self) -> Option<u64> {
        self.memory.as_ref()?;
        self.starter.as_ref()?.recorder_bytes()
    }

    /// Returns what is of use with these figures of the recorded process.
    ///
    /// # Errors
    /// When programs cannot be started.
    pub fn of(script: &Script, recorded: &Recorded) -> Result<Extras> {
        let memory = recorded.peak().map(|_| curve(script));
        Ok(Extras { memory, starter: Some(Starter::new()?) })
    }
}

impl Rounds<'_> {
    /// Verifies and measures. An interruption discards the round that it falls into.
    pub fn measure(mut self) -> Measured {
        let start = Instant::now();
        let mut measured = Measured { system_peak: self.verify(), ..Measured::default() };
        let mut rng = Rng::with_seed(self.course.seed);
        let mut each = start.elapsed();
        let rivals = self.rows.iter().filter(|row| row.kind.is_a_rival() && row.note.is_none()).count();
        let progress = Progress::new("measure", 0);
        loop {
            let stage = Stage { done: measured.rounds, elapsed: start.elapsed(), each, noise: noise(self.rows) };
            let planned = self.course.pace.rounds(comparisons(rivals), stage);
            progress.expect(planned as usize * self.steps_per_round());
            if measured.rounds >= planned {
                break;
            }
            let round = Instant::now();
            if !self.round(&mut measured, &mut rng, &progress) {
                break;
            }
            each = round.elapsed();
        }
        measured
    }

    /// Runs every subject once, writing and checking every byte. An allocator that corrupts a block is excluded from
    /// the measurement. Returns the most bytes that the system's malloc got from the system.
    fn verify(&mut self) -> Option<u64> {
        let progress = Progress::new("verify", self.rows.len());
        let mut system_peak = None;
        for at in 0..self.rows.len() {
            progress.at(&self.rows[at].name);
            // While each call is timed, the memory that the system's malloc has from the system is known, and the
            // usable sizes of all blocks.
            if self.rows[at].kind.is_a_choice()
                && let Some(run) = self.run(at, Payload::Full, Latencies::On)
            {
                self.rows[at].refused = Some(run.refused);
                self.rows[at].usable = run.usable_at_peak;
                system_peak = system_peak.or(run.system_peak);
            }
            progress.step();
        }
        system_peak
    }

    /// Measures every subject, and times each call if a timed round is due; `false` when interrupted.
    fn round(&mut self, measured: &mut Measured, rng: &mut Rng, progress: &Progress) -> bool {
        let is_timed = self.course.latencies == Latencies::On && measured.rounds.is_multiple_of(TIMED_EVERY);
        let Some(runs) = self.run_all(Latencies::Off, rng, progress) else { return false };
        if !self.start_programs(&runs) {
            return false;
        }
        measured.rounds += 1;
        self.keep(&runs);
        if !is_timed {
            return true;
        }
        let Some(runs) = self.run_all(Latencies::On, rng, progress) else { return false };
        measured.timed_rounds += 1;
        runs.iter().for_each(|(at, run)| self.rows[*at].timed_rounds.extend(TimedRound::of(run)));
        true
    }

    /// Adds a round to the rows of its runs.
    fn keep(&mut self, runs: &[(usize, Run)]) {
        let system = runs.iter().find(|(at, _)| self.rows[*at].kind == Kind::System).map(|(_, run)| samples(run));
        let memory = self.extras.memory.as_ref().zip(system.as_ref());
        let background = memory.map(|(memory, system)| (Background::of(memory, system), system));
        for (at, run) in runs {
            let (row, samples) = (&mut self.rows[*at], samples(run));
            if row.note.is_some() {
                continue;
            }
            row.rounds.push(Round {
                rise: background.as_ref().map(|(background, system)| background.rise(&samples, system)),
                ..Round::of(run)
            });
            if row.samples.is_empty() {
                row.samples = samples;
            }
        }
    }

    /// Starts a program that does nothing under every subject that was run; `false` when interrupted. A subject
    /// under which it fails has a note, and is not run again.
    fn start_programs(&mut self, runs: &[(usize, Run)]) -> bool {
        let Some(starter) = self.extras.starter.as_ref() else { return true };
        for (at, run) in runs {
            let row = &mut self.rows[*at];
            if self.until.came() {
                return false;
            }
            if row.kind == Kind::NoOp || row.note.is_some() {
                continue;
            }
            match starter.start(&self.subjects[*at].allocator) {
                Ok(cpu_seconds) => row.starts.push(Start { cpu_seconds, rss: run.start_rss }),
                Err(_) if self.until.came() => return false,
                Err(error) => row.fail(&error),
            }
        }
        true
    }

    /// Runs every subject that has not failed, in random order; `None` when interrupted.
    fn run_all(&mut self, latencies: Latencies, rng: &mut Rng, progress: &Progress) -> Option<Vec<(usize, Run)>> {
        let mut order: Vec<usize> = (0..self.rows.len()).filter(|&at| self.rows[at].note.is_none()).collect();
        rng.shuffle(&mut order);
        let mut runs = Vec::new();
        for at in order {
            progress.at(&self.rows[at].name);
            let run = self.run(at, Payload::Touch, latencies);
            if self.until.came() {
                return None;
            }
            runs.extend(run.map(|run| (at, run)));
            progress.step();
        }
        Some(runs)
    }

    /// Runs one subject. After a failure its row has a note, and it is not run again.
    fn run(&mut self, at: usize, payload: Payload, latencies: Latencies) -> Option<Run> {
        if self.until.came() {
            return None;
        }
        let settings = Settings { payload, threads: self.course.threads, latencies };
        match real::run(self.script, &self.subjects[at].allocator, &settings) {
            Ok(run) => Some(run),
            Err(_) if self.until.came() => None,
            Err(error) => {
                self.rows[at].fail(&error);
                None
            }
        }
    }

    /// Returns how many runs a round has, the occasional timed one included.
    fn steps_per_round(&self) -> usize {
        let alive = self.rows.iter().filter(|row| row.note.is_none()).count();
        match self.course.latencies {
            Latencies::Off => alive,
            Latencies::On => alive + alive / TIMED_EVERY as usize,
        }
    }
}

impl Row {
    /// Notes why it cannot be measured, and drops its rounds.
    fn fail(&mut self, error: &anyhow::Error) {
        self.note = Some(real::reason(error));
        (self.rounds, self.timed_rounds, self.starts) = (Vec::new(), Vec::new(), Vec::new());
    }
}

/// Returns the share by which the processor times of the system's malloc and of its second row may differ; `None`
/// before there is an interval.
fn noise(rows: &[Row]) -> Option<f64> {
    let times = |kind| {
        let row = rows.iter().find(|row| row.kind == kind)?;
        Some(row.rounds.iter().map(|round| round.cpu_seconds).collect::<Vec<f64>>())
    };
    Estimate::of_paired_ratios(&times(Kind::SystemAgain)?, &times(Kind::System)?)?.distance_from_one()
}

fn samples(run: &Run) -> Vec<Sample> {
    run.samples.iter().map(|sample| Sample { event: sample.event, rss: sample.rss }).collect()
}

impl Round {
    fn of(run: &Run) -> Round {
        let Run { seconds, cpu_seconds, peak_rss, average_rss, faults, fault_seconds, .. } = *run;
        Round { seconds, cpu_seconds, peak_rss, average_rss, faults, fault_seconds, rise: None }
    }
}

impl TimedRound {
    fn of(run: &Run) -> Option<TimedRound> {
        let latency = run.latency?;
        Some(TimedRound { p50: latency.p50, p99: latency.p99, p9999: latency.p9999, max: latency.max })
    }
}
