//! Predicts what the whole program takes with another allocator, from replays and from what is known of the recorded
//! process. `docs/compare.md` states the formulas.

use super::comparison::Comparison;
use super::metric::Metric;
use super::row::{Kind, Round, Row};
use heapwright_stats::{median, paired_ratios};

/// The least ratio of the recorded time of calls to the replayed one without page faults, and the greatest ratio to the
/// replayed time with them, with which times are predicted. Some page faults of a replay happen in its calls, others
/// when it touches blocks.
pub const ALIKE: [f64; 2] = [0.25, 4.0];

/// The share of malloc and free in the program's processor time up to which that ratio does not matter.
const SMALL: f64 = 0.05;

impl Comparison {
    /// Returns a predicted figure of the program with a row's allocator, by each of the rounds; empty where nothing can
    /// be predicted.
    pub fn predicted_in_each_round(&self, row: &Row, metric: Metric) -> Vec<f64> {
        if row.kind == Kind::NoOp {
            return Vec::new();
        }
        let over_system = |metric| {
            let predicted = |row| self.predicted_in_each_round(row, metric);
            self.system().and_then(|system| paired_ratios(&predicted(row), &predicted(system)))
        };
        let predicted = match metric {
            Metric::ProgramTime => self.times(row),
            Metric::ProgramTimeOverSystem => over_system(Metric::ProgramTime),
            Metric::ProgramPeak => self.peaks(row),
            Metric::ProgramPeakOverSystem => over_system(Metric::ProgramPeak),
            _ => None,
        };
        predicted.unwrap_or_default()
    }

    /// Returns whether the recorded calls took about as long as those of replays of the system's malloc, or are a small
    /// part of the program's time. True where one of them is not known.
    pub fn are_calls_alike(&self) -> bool {
        let is_small = self.recorded.malloc_share().is_some_and(|share| share <= SMALL);
        let both = self.recorded.malloc_seconds.zip(self.replayed_malloc_seconds());
        let are_alike = |(recorded, replayed): (f64, f64)| {
            let without_faults = self.replayed_without_faults().unwrap_or(replayed);
            recorded >= ALIKE[0] * without_faults && recorded <= ALIKE[1] * replayed
        };
        is_small || both.is_none_or(are_alike)
    }

    /// Returns the share of malloc and free in the program's processor time: by the recorded calls that were timed, or
    /// by the replays, whichever is less. Timing a call makes it longer; replays touch the blocks as well.
    pub fn malloc_share(&self) -> Option<f64> {
        let replayed = self.replayed_malloc_seconds().unwrap_or(f64::INFINITY) / self.recorded.processor_seconds?;
        Some(self.recorded.malloc_share()?.min(replayed))
    }

    /// Returns the processor time of replays of the system's malloc, net of the harness: that of the calls, and of
    /// touching the blocks.
    pub fn replayed_malloc_seconds(&self) -> Option<f64> {
        self.net_of_harness(|_| 0.0).filter(|&seconds| seconds > 0.0)
    }

    /// Returns the same without page faults, which are those of the calls and of touching the blocks; at least 0.
    pub fn replayed_without_faults(&self) -> Option<f64> {
        Some(self.net_of_harness(|round| round.faults as f64 * round.fault_seconds)?.max(0.0))
    }

    /// Returns the processor time of replays of the system's malloc without that of the harness and `others`.
    fn net_of_harness(&self, others: fn(&Round) -> f64) -> Option<f64> {
        let harness = self.rows.iter().find(|row| row.kind == Kind::NoOp)?;
        let pairs = self.system()?.rounds.iter().zip(&harness.rounds);
        let net = pairs.map(|(system, harness)| system.cpu_seconds - harness.cpu_seconds - others(system));
        median(&net.collect::<Vec<f64>>())
    }

    /// Processor time: the recorded one, plus the difference of the replays, plus that of the starts.
    fn times(&self, row: &Row) -> Option<Vec<f64>> {
        if self.is_threaded_by_one() || !self.are_calls_alike() {
            return None;
        }
        let recorded = self.recorded.processor_seconds?;
        let system = self.system()?;
        let start = median(&self.start_differences(row, |start| start.cpu_seconds))?;
        let pairs = row.rounds.iter().zip(&system.rounds);
        let difference = pairs.map(|(own, system)| own.cpu_seconds - system.cpu_seconds);
        Some(difference.map(|difference| (recorded + difference + start).max(0.0)).collect())
    }

    /// Peak: the recorded one, plus the rise by the curves of the heaps, plus the difference of the starts.
    fn peaks(&self, row: &Row) -> Option<Vec<f64>> {
        let recorded = self.recorded.peak()? as f64;
        let starts = self.start_differences(row, |start| start.rss as f64);
        // A start that was not measured is as the last that was.
        let starts = starts.iter().chain(std::iter::repeat(starts.last()?));
        let rounds = row.rounds.iter().zip(starts);
        rounds.map(|(round, start)| Some((recorded + round.rise? as f64 + start).max(0.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Recorded;
    use super::super::row::Start;
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    const MIB: u64 = 1 << 20;

    /// 4 s of processor time, of which one in malloc; 100 MiB, of which 64 MB are the heap.
    fn recorded() -> Recorded {
        Recorded {
            processor_seconds: Some(4.0),
            malloc_seconds: Some(1.0),
            peak_anonymous: Some(90 * MIB),
            resident_files: Some(10 * MIB),
            ..Recorded::default()
        }
    }

    fn comparison(recorded: Recorded) -> Comparison {
        Synthetic::beside([row("mine", 0.6, 1.25)]).noise(0.0).harness(0.0).recorded(recorded).build()
    }

    fn figure(comparison: &Comparison, name: &str, metric: Metric) -> Option<f64> {
        comparison.row(name).unwrap().median(metric)
    }

    #[track_caller]
    fn near(figure: Option<f64>, expected: f64) {
        assert!((figure.unwrap() - expected).abs() < 1e-6, "{figure:?} {expected}");
    }

    #[test]
    fn the_system_predicts_what_was_recorded() {
        let comparison = comparison(recorded());
        for name in ["system", "system (A/A)"] {
            near(figure(&comparison, name, Metric::ProgramTime), 4.0);
            near(figure(&comparison, name, Metric::ProgramTimeOverSystem), 1.0);
            near(figure(&comparison, name, Metric::ProgramPeak), (100 * MIB) as f64);
        }
    }

    #[test]
    fn differences_of_replays_and_starts_are_added() {
        let mut comparison = comparison(recorded());
        comparison.rows[1].starts = vec![Start { cpu_seconds: 0.101, rss: 5 * MIB }; 12];
        comparison.settle();
        near(figure(&comparison, "mine", Metric::ProgramTime), 4.0 - 0.4 + 0.1);
        near(figure(&comparison, "mine", Metric::ProgramPeak), (103 * MIB) as f64 + 16e6);
        let program = comparison.row("mine").unwrap().program.unwrap();
        near(program.processor_over_system.map(|ratio| ratio.median), 3.7 / 4.0);
        assert!(program.peak_over_system.unwrap().interval.is_some());
        let json = serde_json::to_value(comparison.row("mine").unwrap()).unwrap();
        for name in ["peak", "processor", "processor_over_system", "peak_over_system"] {
            assert!(json["program"][name]["median"].as_f64().unwrap() > 0.0, "{name}");
        }
    }

    #[test]
    fn recorded_calls_that_took_much_longer_or_shorter_predict_no_time() {
        let at = |malloc_seconds| {
            let comparison = comparison(Recorded { malloc_seconds: Some(malloc_seconds), ..recorded() });
            figure(&comparison, "mine", Metric::ProgramTime)
        };
        near(at(2.0), 4.0 - 0.4);
        near(at(0.25), 4.0 - 0.4);
        assert_eq!((at(0.24), at(4.1)), (None, None));
    }

    #[test]
    fn page_faults_of_a_replay_are_no_calls() {
        let at = |fault_seconds| {
            let mut comparison = comparison(Recorded { malloc_seconds: Some(0.21), ..recorded() });
            let rounds = comparison.rows.iter_mut().flat_map(|row| &mut row.rounds);
            rounds.for_each(|round| (round.faults, round.fault_seconds) = (1000, fault_seconds));
            comparison.settle();
            figure(&comparison, "mine", Metric::ProgramTime)
        };
        // Of the second that the replays take, 0.15 s are faults, or 0.17 s, or all of it.
        assert_eq!((at(0.0), at(0.15e-3)), (None, None));
        near(at(0.17e-3), 4.0 - 0.4);
        near(at(2e-3), 4.0 - 0.4);
    }

    #[test]
    fn how_long_calls_took_does_not_matter_where_they_are_a_small_part() {
        let at = |processor_seconds| {
            let processor_seconds = Some(processor_seconds);
            let recorded = Recorded { processor_seconds, malloc_seconds: Some(5.0), ..recorded() };
            figure(&comparison(recorded), "mine", Metric::ProgramTime)
        };
        assert_eq!(at(99.0), None);
        near(at(101.0), 101.0 - 0.4);
    }

    /// What the system says of the memory of starts differs from one to the next.
    #[test]
    fn starts_that_differ_make_peaks_uncertain() {
        let mut comparison = comparison(recorded());
        for (round, start) in comparison.rows[1].starts.iter_mut().enumerate() {
            start.rss = (2 << 20) + (round as u64 % 3) * 100_000 - 100_000;
        }
        comparison.settle();
        let of = |metric| comparison.rows[1].figures[&metric];
        let over_system = of(Metric::ProgramPeakOverSystem);
        assert!(over_system.low() < over_system.median && over_system.median < over_system.high(), "{over_system:?}");
        let peak = of(Metric::ProgramPeak);
        assert!(peak.high() - peak.low() >= 2.0 * 256.0 * 1024.0 + 200_000.0, "{peak:?}");
    }

    #[test]
    fn what_the_trace_does_not_say_is_not_predicted() {
        let of = |recorded| {
            let comparison = comparison(recorded);
            [Metric::ProgramTime, Metric::ProgramPeak].map(|metric| figure(&comparison, "mine", metric).is_some())
        };
        assert_eq!(of(recorded()), [true, true]);
        assert_eq!(of(Recorded { processor_seconds: None, ..recorded() }), [false, true]);
        assert_eq!(of(Recorded { malloc_seconds: None, ..recorded() }), [true, true]);
        assert_eq!(of(Recorded { resident_files: None, ..recorded() }), [true, false]);
        assert!(comparison(Recorded::default()).row("mine").unwrap().program.is_none());
    }

    #[test]
    fn one_thread_for_several_and_the_harness_predict_no_time() {
        let mut comparison = comparison(recorded());
        assert!(comparison.row("no-op").unwrap().program.is_none());
        comparison.trace.threads = 2;
        comparison.settle();
        assert_eq!(figure(&comparison, "mine", Metric::ProgramTime), None);
    }

    #[test]
    fn without_its_start_nothing_is_predicted() {
        let mut comparison = comparison(recorded());
        comparison.rows[1].starts.clear();
        comparison.settle();
        assert!(comparison.row("mine").unwrap().program.is_none());
    }
}
