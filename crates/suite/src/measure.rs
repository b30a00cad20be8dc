//! Measures cases: prepares worker processes, interleaves their rounds, and collects the figures.
//!
//! All contenders of a case are prepared first, each in a process of its own. In every round, each of them does the
//! same work once, in an order that rotates. A disturbance of the machine thus affects all of them alike. Latencies are
//! measured afterwards, because reading the clock around every operation changes the total time. Contenders that do not
//! fit into memory together are measured in groups, each with the system's malloc as its baseline.

use std::time::Duration;

use anyhow::Result;

use super::contender::Contender;
use super::runner::Runner;
use heapwright_show::progress::Progress;
use heapwright_workloads::probe::{PartLatency, PartTime};
use heapwright_workloads::worker::Task;
use heapwright_workloads::workloads::Workload;

/// The measurements of a table.
pub struct Case {
    /// The workload.
    pub workload: Workload,
    /// Whether blocks are written to.
    pub touched: bool,
    /// The contenders; the first one is the baseline.
    pub contenders: Vec<Contender>,
}

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds timed as a whole.
    pub rounds: usize,
    /// Rounds in which every operation is timed.
    pub latency_rounds: usize,
    /// The time limit for preparing a heap, and for each round.
    pub patience: Duration,
    /// Maximal memory in use at one time, in bytes.
    pub memory: usize,
}

/// The results of one contender of a case.
#[derive(Default)]
pub struct Outcome {
    /// Its rounds.
    pub rounds: Vec<Vec<PartTime>>,
    /// The same rounds of the baseline.
    pub base: Vec<Vec<PartTime>>,
    /// The rounds in which every operation was timed.
    pub latencies: Vec<Vec<PartLatency>>,
    /// Why figures are missing, if any are.
    pub note: Option<String>,
}

impl Case {
    fn task(&self, contender: &Contender, effort: &Effort) -> Task {
        Task {
            workload: self.workload,
            implementation: contender.implementation,
            patience: effort.patience.as_millis() as u64,
            touched: self.touched,
        }
    }

    fn footprint(&self, contender: usize) -> usize {
        let (live, blocks) = self.workload.demand();
        self.contenders[contender].implementation.footprint(live, blocks)
    }

    /// Returns the contenders in groups that fit into `memory`. Each group starts with the baseline. A contender that
    /// does not fit beside the baseline is in no group.
    fn groups(&self, memory: usize) -> Vec<Vec<usize>> {
        let lead = self.footprint(0);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut free = 0;
        for contender in 1..self.contenders.len() {
            let needed = self.footprint(contender);
            if lead.saturating_add(needed) > memory {
                continue;
            }
            if groups.is_empty() || needed > free {
                groups.push(vec![0]);
                free = memory - lead;
            }
            free -= needed;
            if let Some(group) = groups.last_mut() {
                group.push(contender);
            }
        }
        groups
    }

    /// Returns the number of progress steps of [`Case::measure`].
    pub fn steps(&self, effort: &Effort) -> usize {
        let turns: usize = self.groups(effort.memory).iter().map(Vec::len).sum();
        turns * (1 + effort.rounds + effort.latency_rounds)
    }

    /// Measures all contenders. The outcomes are in the order of the contenders.
    pub fn measure(&self, effort: &Effort, progress: &Progress) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = self.contenders.iter().map(|_| Outcome::default()).collect();
        let groups = self.groups(effort.memory);
        for group in &groups {
            let mut turns: Vec<Turn> = group.iter().map(|&at| Turn::new(self, at, effort)).collect();
            for turn in &mut turns {
                turn.prepare(self.workload.kind.is_whole_program());
                progress.step();
            }
            take_turns(&mut turns, effort.rounds, progress, Turn::play);
            take_turns(&mut turns, effort.latency_rounds, progress, Turn::sample);
            let base: Vec<_> = turns.iter().filter(|turn| turn.at == 0).flat_map(|turn| turn.rounds.clone()).collect();
            for turn in turns {
                turn.settle_into(&base, &mut outcomes);
            }
        }
        for (at, outcome) in outcomes.iter_mut().enumerate() {
            if !groups.iter().any(|group| group.contains(&at)) {
                let gigabytes = (self.footprint(0) + self.footprint(at)) as f64 / 1e9;
                outcome.note = Some(format!("needs {gigabytes:.1} GB of memory, which is more than is available"));
            }
        }
        outcomes
    }
}

/// Calls `act` once per round for each contender, in an order that rotates.
fn take_turns<'c>(turns: &mut [Turn<'c>], rounds: usize, progress: &Progress, act: impl Fn(&mut Turn<'c>)) {
    for round in 0..rounds {
        let (last, first) = turns.split_at_mut(round % turns.len().max(1));
        for turn in first.iter_mut().chain(last) {
            act(turn);
            progress.step();
        }
    }
}

/// A contender in a group, with its results so far.
struct Turn<'c> {
    at: usize,
    contender: &'c Contender,
    task: Task,
    runner: Option<Runner>,
    rounds: Vec<Vec<PartTime>>,
    latencies: Vec<Vec<PartLatency>>,
    failure: Option<String>,
}

impl<'c> Turn<'c> {
    fn new(case: &'c Case, at: usize, effort: &Effort) -> Turn<'c> {
        let contender = &case.contenders[at];
        let task = case.task(contender, effort);
        Turn { at, contender, task, runner: None, rounds: Vec::new(), latencies: Vec::new(), failure: None }
    }

    /// Starts a worker for all rounds. A whole program gets a fresh worker in each round instead.
    fn prepare(&mut self, fresh_each_time: bool) {
        if !fresh_each_time {
            match Runner::start(self.contender, &self.task) {
                Ok(runner) => self.runner = Some(runner),
                Err(error) => self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: anyhow::Error) {
        self.failure = Some(format!("{error:#}"));
        self.runner = None;
    }

    /// Calls `act` with the prepared worker, or with a fresh one.
    fn with_runner<T>(&mut self, act: impl FnOnce(&mut Runner) -> Result<T>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        let result = match &mut self.runner {
            Some(runner) => act(runner),
            None => Runner::start(self.contender, &self.task).and_then(|mut runner| act(&mut runner)),
        };
        result.map_err(|error| self.fail(error)).ok()
    }

    fn play(&mut self) {
        let times = self.with_runner(Runner::round);
        self.rounds.extend(times);
    }

    fn sample(&mut self) {
        let latencies = self.with_runner(Runner::latency);
        self.latencies.extend(latencies);
    }

    /// Stores the results in `outcomes`. For the baseline, which is in several groups, the first group counts.
    fn settle_into(self, base: &[Vec<PartTime>], outcomes: &mut [Outcome]) {
        let outcome = &mut outcomes[self.at];
        if outcome.rounds.is_empty() {
            *outcome =
                Outcome { rounds: self.rounds, base: base.to_vec(), latencies: self.latencies, note: self.failure };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::contender::{Field, Layer};
    use super::*;
    use heapwright_workloads::workloads::Kind;

    fn case() -> Case {
        let layers = vec![Layer::Engine, Layer::Malloc];
        let field = Field { layers, policies: vec!["first", "best"], allocators: Some(Vec::new()), peers: Vec::new() };
        let workload = Workload { kind: Kind::Steady, size: 1_000_000 };
        Case { workload, touched: false, contenders: field.contenders(Kind::Steady) }
    }

    #[test]
    fn groups_fit_into_memory_and_contain_every_contender_that_fits() {
        let case = case();
        let malloc = case.footprint(0);
        for memory in [malloc * 2, malloc * 5 / 2, malloc * 3, malloc * 100] {
            let groups = case.groups(memory);
            let mut followers: Vec<usize> = groups.iter().flat_map(|group| &group[1..]).copied().collect();
            followers.sort_unstable();
            assert_eq!(followers, (1..case.contenders.len()).collect::<Vec<_>>());
            for group in &groups {
                assert_eq!(group[0], 0, "the system's malloc leads");
                assert!(group.iter().map(|&at| case.footprint(at)).sum::<usize>() <= memory, "{groups:?}");
            }
        }
        assert_eq!(case.groups(malloc * 100).len(), 1);
    }

    #[test]
    fn a_contender_that_does_not_fit_beside_the_baseline_is_in_no_group() {
        let case = case();
        let groups = case.groups(case.footprint(0) * 3 / 2);
        let grouped = |layer: Layer| {
            let is_in = |at: &usize| groups.iter().any(|group| group[1..].contains(at));
            (1..case.contenders.len()).filter(|&at| case.contenders[at].layer == layer).filter(is_in).count()
        };
        assert_eq!((grouped(Layer::Engine), grouped(Layer::Malloc)), (3, 0));
        assert!(case.groups(0).is_empty());
    }
}
