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
    /// Processor time of all threads in seconds, without the recorder's.
    pub processor_seconds: Option<f64>,
    /// Time in the calls of the malloc family in seconds: the mean of the timed calls, times the number of all.
    pub malloc_seconds: Option<f64>,
    /// Peak of the resident anonymous memory in bytes.
    pub peak_anonymous: Option<u64>,
    /// Its mean over the events, by the samples.
    pub average_anonymous: Option<u64>,
    /// Resident bytes of files at the end, with those of the recorder.
    pub resident_files: Option<u64>,
    /// What the recorder adds to the resident bytes of a program that does nothing.
    pub recorder_bytes: Option<u64>,
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
        Recorded {
            elapsed_seconds: totals.elapsed_nanoseconds.map(seconds),
            processor_seconds: totals.program_nanoseconds().filter(|&time| time > 0).map(seconds),
            malloc_seconds: totals.malloc_nanoseconds(calls).map(seconds),
            peak_anonymous: totals.peak_anonymous.filter(|&bytes| bytes > 0),
            average_anonymous: None,
            resident_files: totals.resident_files,
            recorder_bytes: None,
            faults: totals.faults,
        }
    }

    /// Returns the peak of the resident memory of the whole process in bytes, without the recorder.
    pub fn peak(&self) -> Option<u64> {
        let files = self.resident_files?.saturating_sub(self.recorder_bytes.unwrap_or_default());
        Some(self.peak_anonymous?.saturating_add(files))
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
    fn the_recorder_does_not_count() {
        let totals = Totals {
            processor_nanoseconds: Some(3_000_000_000),
            recorder_nanoseconds: Some(1_000_000_000),
            peak_anonymous: Some(1000),
            resident_files: Some(300),
            ..Totals::default()
        };
        let recorded = Recorded { recorder_bytes: Some(100), ..Recorded::of_totals(&totals, 1) };
        assert_eq!((recorded.processor_seconds, recorded.peak()), (Some(2.0), Some(1200)));
        assert_eq!(Recorded { recorder_bytes: Some(301), ..recorded }.peak(), Some(1000));
        assert_eq!(Recorded { peak_anonymous: Some(u64::MAX), ..recorded }.peak(), Some(u64::MAX), "a hostile trace");
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
