//! Real replays in rounds. Each round runs every allocator once, each in a worker process of its own and in random
//! order, so that a disturbance of the machine affects all alike.

use std::time::Instant;

use fastrand::Rng;

use super::pace::{Pace, comparisons};
use super::row::{Kind, Round, Row, Sample, TimedRound};
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
            let planned = self.course.pace.rounds(comparisons(rivals), measured.rounds, start.elapsed(), each);
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
            let kind = self.rows[at].kind;
            // Only while each call is watched it is known what the system's malloc has from the system.
            let watch = if kind == Kind::System { Latencies::On } else { Latencies::Off };
            if kind.is_a_choice()
                && let Some(run) = self.run(at, Payload::Full, watch)
            {
                self.rows[at].refused = Some(run.refused);
                system_peak = system_peak.or(run.system_peak);
            }
            progress.step();
        }
        system_peak
    }

    /// Measures every subject, and times each call if a timed round is due; `false` when interrupted.
    fn round(&mut self, measured: &mut Measured, rng: &mut Rng, progress: &Progress) -> bool {
        let is_timed = self.course.latencies == Latencies::On && measured.rounds.is_multiple_of(TIMED_EVERY);
        let Some(runs) = self.everybody(Latencies::Off, rng, progress) else { return false };
        measured.rounds += 1;
        for (at, run) in runs {
            let row = &mut self.rows[at];
            if row.rounds.is_empty() {
                row.samples = samples(&run);
            }
            row.rounds.push(Round::of(&run));
        }
        if !is_timed {
            return true;
        }
        let Some(runs) = self.everybody(Latencies::On, rng, progress) else { return false };
        measured.timed_rounds += 1;
        runs.iter().for_each(|(at, run)| self.rows[*at].timed_rounds.extend(TimedRound::of(run)));
        true
    }

    /// Runs every subject that has not failed, in random order; `None` when interrupted.
    fn everybody(&mut self, latencies: Latencies, rng: &mut Rng, progress: &Progress) -> Option<Vec<(usize, Run)>> {
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
                let row = &mut self.rows[at];
                row.note = Some(format!("{error:#}"));
                (row.rounds, row.timed_rounds) = (Vec::new(), Vec::new());
                None
            }
        }
    }

    /// How many runs a round has, the occasional timed one included.
    fn steps_per_round(&self) -> usize {
        let alive = self.rows.iter().filter(|row| row.note.is_none()).count();
        match self.course.latencies {
            Latencies::Off => alive,
            Latencies::On => alive + alive / TIMED_EVERY as usize,
        }
    }
}

fn samples(run: &Run) -> Vec<Sample> {
    run.samples.iter().map(|sample| Sample { event: sample.event, rss: sample.rss }).collect()
}

impl Round {
    fn of(run: &Run) -> Round {
        let Run { seconds, cpu_seconds, peak_rss, average_rss, faults, .. } = *run;
        Round { seconds, cpu_seconds, peak_rss, average_rss, faults }
    }
}

impl TimedRound {
    fn of(run: &Run) -> Option<TimedRound> {
        let latency = run.latency?;
        Some(TimedRound { p50: latency.p50, p99: latency.p99, p9999: latency.p9999, max: latency.max })
    }
}
