//! Comparisons with made-up figures, for tests.

use super::comparison::{Comparison, SCHEMA, Settings};
use super::metric::Metric;
use super::recorded::Recorded;
use super::row::{Kind, Round, Row, Start};
use super::trace::Trace;
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_host::machine::Machine;
use heapwright_stats::Estimate;

/// A comparison under construction: rows, and the system's malloc.
pub struct Synthetic {
    rows: Vec<(String, f64, f64)>,
    kind: Kind,
    rounds: u32,
    noise: f64,
    harness: Option<f64>,
    peak: f64,
    over_asked: f64,
    policies: Vec<(&'static str, f64)>,
    recorded: Recorded,
}

/// Returns an allocator with its time and memory over the system's.
pub fn row(name: &str, time: f64, memory: f64) -> (String, f64, f64) {
    (name.to_owned(), time, memory)
}

impl Synthetic {
    /// Returns the system's malloc, `rows`, the system's again: 12 rounds, 1 % noise, 64 MiB.
    pub fn beside(rows: impl IntoIterator<Item = (String, f64, f64)>) -> Synthetic {
        Synthetic {
            rows: rows.into_iter().collect(),
            kind: Kind::Allocator,
            rounds: 12,
            noise: 0.01,
            harness: None,
            peak: 64e6,
            over_asked: 1.05,
            policies: Vec::new(),
            recorded: Recorded::default(),
        }
    }

    /// Returns these with a recording, which says what the program used. In replays, the system's malloc takes a
    /// second.
    pub fn recorded(self, recorded: Recorded) -> Synthetic {
        Synthetic { recorded, ..self }
    }

    /// Makes the rows policies.
    pub fn policies(self) -> Synthetic {
        Synthetic { kind: Kind::Policy, ..self }
    }

    /// Sets the number of rounds.
    pub fn rounds(self, rounds: u32) -> Synthetic {
        Synthetic { rounds, ..self }
    }

    /// Sets the share by which times differ at random.
    pub fn noise(self, noise: f64) -> Synthetic {
        Synthetic { noise, ..self }
    }

    /// Adds the harness, with its time over the system's and its own together.
    pub fn harness(self, harness: f64) -> Synthetic {
        Synthetic { harness: Some(harness), ..self }
    }

    /// Sets the bytes that the system's malloc takes.
    pub fn peak(self, peak: f64) -> Synthetic {
        Synthetic { peak, ..self }
    }

    /// Sets the memory of the system's malloc over what was asked for.
    pub fn over_asked(self, over_asked: f64) -> Synthetic {
        Synthetic { over_asked, ..self }
    }

    /// Adds policies with their simulated heaps over what was asked for.
    pub fn simulated(self, policies: &[(&'static str, f64)]) -> Synthetic {
        Synthetic { policies: policies.to_vec(), ..self }
    }

    /// Returns the comparison.
    pub fn build(self) -> Comparison {
        let system = std::iter::once((Kind::System, row("system", 1.0, 1.0)));
        let others = self.rows.iter().map(|other| (self.kind, other.clone()));
        let again = std::iter::once((Kind::SystemAgain, row(SYSTEM_AGAIN, 1.0, 1.0)));
        let harness = self.harness.map(|time| (Kind::NoOp, row("no-op", time, 0.0)));
        let rows = system
            .chain(others)
            .chain(again)
            .chain(harness)
            .enumerate()
            .map(|(at, (kind, row))| self.measured(at, kind, &row));
        let asked = self.peak / self.over_asked;
        let simulated = self.policies.iter().map(|&(name, ratio)| {
            let mut row = Row::new(name, Kind::Policy);
            row.set(Metric::Heap, Some(Estimate::exact(ratio * asked)));
            row.set(Metric::HeapOverAsked, Some(Estimate::exact(ratio)));
            row
        });
        let mut comparison = Comparison {
            schema: SCHEMA,
            heapwright: "0".to_owned(),
            trace: Trace { peak_asked: asked as u64, events: 1000, is_whole: true, ..Trace::default() },
            machine: Machine { kernel: None, cpu: None, cores: None, memory: None },
            settings: Settings { rounds: self.rounds, ..Settings::default() },
            recorded: self.recorded,
            fidelity: None,
            confirmation: None,
            recommendation: None,
            rows: rows.chain(simulated).collect(),
        };
        comparison.settle();
        comparison
    }

    fn measured(&self, at: usize, kind: Kind, (name, time, memory): &(String, f64, f64)) -> Row {
        let round = |round: u32| {
            // Each row has its own good and bad rounds, to both sides alike.
            let wobble = (f64::from(round * 7 + at as u32 * 5) * 2.4).sin() * self.noise / 2.0;
            Round {
                seconds: time * (1.0 + wobble),
                cpu_seconds: time * (1.0 + wobble),
                peak_rss: (memory * self.peak) as u64,
                average_rss: (memory * self.peak / 2.0) as u64,
                faults: 100,
                fault_seconds: 0.0,
                rise: Some(((memory - 1.0) * self.peak) as i64),
            }
        };
        Row {
            rounds: (0..self.rounds).map(round).collect(),
            starts: vec![Start { cpu_seconds: 0.001, rss: 2 << 20 }; self.rounds as usize],
            refused: Some(0),
            ..Row::new(name, kind)
        }
    }
}
