//! Figures of the recorded process as a whole. They are texts of the trace, because a recording that was cut short, and
//! traces from elsewhere, do not have them.

use crate::about::About;

/// What the recorded process used, and how long its calls took. Figures that a trace does not contain are `None`.
///
/// ```
/// use heapwright_trace::{About, Totals};
/// let totals = Totals { faults: Some(7), huge_pages_off: true, ..Totals::default() };
/// let mut about = About::default();
/// totals.texts().for_each(|(name, text)| about.set(name, &text));
/// assert_eq!(Totals::of(&about), totals);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Elapsed time from the beginning of the recording to the end of the process, in nanoseconds.
    pub elapsed_nanoseconds: Option<u64>,
    /// Processor time of all threads, in nanoseconds, with that of the recorder.
    pub processor_nanoseconds: Option<u64>,
    /// Processor time of the recorder in the process, in nanoseconds, estimated.
    pub recorder_nanoseconds: Option<u64>,
    /// Peak of the resident anonymous memory, in bytes.
    pub peak_anonymous: Option<u64>,
    /// Resident pages of files at the end of the process, in bytes: the program and its libraries, with the recorder's.
    pub resident_files: Option<u64>,
    /// Page faults, without those of the recorder's stream.
    pub faults: Option<u64>,
    /// Peak of the bytes that glibc's malloc had from the system.
    pub peak_system: Option<u64>,
    /// Number of calls of the malloc family that were timed.
    pub timed_calls: Option<u64>,
    /// Duration of the timed calls in nanoseconds, without that of reading the clock, weighted as if they had been
    /// chosen evenly: their mean is the mean of all calls.
    pub timed_nanoseconds: Option<u64>,
    /// Whether the process had turned transparent huge pages off for itself.
    pub huge_pages_off: bool,
}

const ELAPSED: &str = "elapsed nanoseconds";
const PROCESSOR: &str = "processor nanoseconds";
const RECORDER: &str = "recorder nanoseconds";
const PEAK_ANONYMOUS: &str = "peak anonymous bytes";
const RESIDENT_FILES: &str = "resident file bytes";
const FAULTS: &str = "page faults";
const PEAK_SYSTEM: &str = "glibc peak system bytes";
const TIMED_CALLS: &str = "timed calls";
const TIMED_NANOSECONDS: &str = "timed nanoseconds";
const HUGE_PAGES: &str = "huge pages";
const OFF: &str = "off";

impl Totals {
    /// Returns the processor time of the program alone, in nanoseconds: without that of the recorder.
    #[must_use]
    pub fn program_nanoseconds(&self) -> Option<u64> {
        Some(self.processor_nanoseconds?.saturating_sub(self.recorder_nanoseconds.unwrap_or(0)))
    }

    /// Returns the processor time that `calls` calls took, all of the process, in nanoseconds, estimated.
    #[must_use]
    pub fn malloc_nanoseconds(&self, calls: u64) -> Option<u64> {
        let timed = self.timed_calls.filter(|&timed| timed > 0)?;
        Some((u128::from(self.timed_nanoseconds?) * u128::from(calls) / u128::from(timed)) as u64)
    }

    /// Returns the figures in the texts of a trace. Texts that are not numbers are ignored.
    #[must_use]
    pub fn of(about: &About) -> Totals {
        let number = |name: &str| about.get(name)?.trim().parse().ok();
        Totals {
            elapsed_nanoseconds: number(ELAPSED),
            processor_nanoseconds: number(PROCESSOR),
            recorder_nanoseconds: number(RECORDER),
            peak_anonymous: number(PEAK_ANONYMOUS),
            resident_files: number(RESIDENT_FILES),
            faults: number(FAULTS),
            peak_system: number(PEAK_SYSTEM),
            timed_calls: number(TIMED_CALLS),
            timed_nanoseconds: number(TIMED_NANOSECONDS),
            huge_pages_off: about.get(HUGE_PAGES) == Some(OFF),
        }
    }

    /// Returns the known figures as names and texts of a trace.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let numbers = [
            (ELAPSED, self.elapsed_nanoseconds),
            (PROCESSOR, self.processor_nanoseconds),
            (RECORDER, self.recorder_nanoseconds),
            (PEAK_ANONYMOUS, self.peak_anonymous),
            (RESIDENT_FILES, self.resident_files),
            (FAULTS, self.faults),
            (PEAK_SYSTEM, self.peak_system),
            (TIMED_CALLS, self.timed_calls),
            (TIMED_NANOSECONDS, self.timed_nanoseconds),
        ];
        let known = numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string())));
        known.chain(self.huge_pages_off.then(|| (HUGE_PAGES, OFF.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_calls_is_that_of_the_timed_ones_scaled() {
        let timed = Totals { timed_calls: Some(3), timed_nanoseconds: Some(100), ..Totals::default() };
        assert_eq!(timed.malloc_nanoseconds(1 << 60), Some(((1_u128 << 60) * 100 / 3) as u64));
        assert_eq!(Totals { timed_calls: Some(0), ..timed }.malloc_nanoseconds(7), None);
        let used = Totals { processor_nanoseconds: Some(10), recorder_nanoseconds: Some(3), ..timed };
        assert_eq!((used.program_nanoseconds(), timed.program_nanoseconds()), (Some(7), None));
    }
}
