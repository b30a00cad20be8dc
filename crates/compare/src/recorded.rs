//! What the trace says of the recorded process as a whole.

use heapwright_real::Script;
use heapwright_trace::Totals;
use serde::{Deserialize, Serialize};

use super::row::Sample;

/// What the recorded process used. Figures that the trace does not contain are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Elapsed time in seconds.
    pub elapsed_seconds: Option<f64>,
    /// Processor time of all threads in seconds.
    pub processor_seconds: Option<f64>,
    /// Time in the calls of the malloc family in seconds: the mean of the timed calls, times the number of all.
    pub malloc_seconds: Option<f64>,
    /// Peak of the resident anonymous memory in bytes.
    pub peak_anonymous: Option<u64>,
    /// Its mean over the events, by the samples.
    pub average_anonymous: Option<u64>,
    /// Resident bytes of files at the end.
    pub resident_files: Option<u64>,
    /// Page faults.
    pub faults: Option<u64>,
}

impl Recorded {
    /// Returns the figures in the trace of a script.
    pub fn of(script: &Script) -> Recorded {
        let curve = curve(script);
        Recorded { average_anonymous: average(&curve), ..Recorded::of_totals(script.totals(), script.operations()) }
    }

    fn of_totals(totals: &Totals, calls: u64) -> Recorded {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let timed = totals.timed_calls.filter(|&timed| timed > 0).zip(totals.timed_nanoseconds);
        Recorded {
            elapsed_seconds: totals.elapsed_nanoseconds.map(seconds),
            processor_seconds: totals.processor_nanoseconds.filter(|&time| time > 0).map(seconds),
            malloc_seconds: timed.map(|(timed, time)| seconds(time) / timed as f64 * calls as f64),
            peak_anonymous: totals.peak_anonymous.filter(|&bytes| bytes > 0),
            average_anonymous: None,
            resident_files: totals.resident_files,
            faults: totals.faults,
        }
    }

    /// Returns the peak of the resident memory of the whole process in bytes.
    pub fn peak(&self) -> Option<u64> {
        Some(self.peak_anonymous? + self.resident_files?)
    }

    /// Returns the share of its processor time that the process spent in the malloc family.
    pub fn malloc_share(&self) -> Option<f64> {
        Some((self.malloc_seconds? / self.processor_seconds?).min(1.0))
    }
}

/// Returns the resident anonymous memory of the recorded process in the course of its events.
pub fn curve(script: &Script) -> Vec<Sample> {
    let sample = |sample: &heapwright_trace::Sample| Sample { event: sample.event, rss: sample.resident };
    script.recorded_samples().iter().map(sample).collect()
}

/// Returns the mean over the events from the first sample to the last.
fn average(samples: &[Sample]) -> Option<u64> {
    let events = samples.last()?.event - samples.first()?.event;
    let area =
        |pair: &[Sample]| (pair[0].rss as f64 + pair[1].rss as f64) / 2.0 * (pair[1].event - pair[0].event) as f64;
    (events > 0).then(|| (samples.windows(2).map(area).sum::<f64>() / events as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_recorded_is_not_known() {
        assert_eq!(Recorded::of_totals(&Totals::default(), 10), Recorded::default());
        let totals = Totals { timed_calls: Some(0), timed_nanoseconds: Some(0), ..Totals::default() };
        assert_eq!(Recorded::of_totals(&totals, 10).malloc_seconds, None);
        assert_eq!(Recorded { peak_anonymous: Some(1), ..Recorded::default() }.peak(), None);
    }

    #[test]
    fn a_sample_of_calls_stands_for_all() {
        let totals = Totals {
            processor_nanoseconds: Some(2_000_000_000),
            timed_calls: Some(100),
            timed_nanoseconds: Some(5_000),
            ..Totals::default()
        };
        let recorded = Recorded::of_totals(&totals, 2_000_000);
        assert!((recorded.malloc_seconds.unwrap() - 0.1).abs() < 1e-12);
        assert!((recorded.malloc_share().unwrap() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn the_mean_is_over_events() {
        let samples = [(0, 0), (10, 100), (40, 100)].map(|(event, rss)| Sample { event, rss });
        assert_eq!(average(&samples), Some(87));
        assert_eq!(average(&samples[..1]), None);
    }
}
