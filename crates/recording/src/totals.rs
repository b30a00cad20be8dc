//! What a process used, in samples while it runs and as totals at its end.

use heapwright_os::{Usage, now_nanoseconds, usage_by, usage_of};
use heapwright_stream::Timed;
use heapwright_trace::{Totals, WriteError};
use heapwright_translation::{Rate, Source, Translation, threads_of};

/// The time without a sample after which a process is looked at from outside, in nanoseconds. A process that makes many
/// calls adds samples itself, one per millisecond.
const QUIET: u64 = 9_000_000;

/// Adds the sample with which the recording began.
pub fn sample_first(source: &Source, translation: &mut Translation) -> Result<(), WriteError> {
    let first = source.header().first_usage;
    if first.nanoseconds == 0 { Ok(()) } else { translation.sample(&first) }
}

/// Adds a sample of a process that has been quiet. Everything has been read that was in its stream at the last look.
pub fn sample_when_quiet(source: &Source, translation: &mut Translation) -> Result<(), WriteError> {
    if now_nanoseconds().saturating_sub(translation.samples().last_time()) < QUIET {
        return Ok(());
    }
    match source.producer().seen().and_then(|seen| usage(seen.pid)) {
        // Checked after the look: it was at this program then.
        Some(usage) if source.is_running() => {
            let faults = usage.faults.saturating_sub(source.header().own_faults());
            translation.sample(&Usage { faults, ..usage })
        }
        _ => Ok(()),
    }
}

/// Returns the usage of a process, by any of its threads: the first one may have ended before the others.
fn usage(pid: u32) -> Option<Usage> {
    usage_of(pid).or_else(|| threads_of(pid).find_map(|thread| usage_by(pid, thread)))
}

/// Adds the sample of the end of a process that has exited.
pub fn sample_last(source: &Source, translation: &mut Translation) -> Result<(), WriteError> {
    source.header().last().map_or(Ok(()), |last| translation.sample(&last.usage))
}

/// Returns the totals of a process up to its last sample.
pub fn totals(source: &Source, translation: &Translation) -> Totals {
    let header = source.header();
    let (first, last) = (header.first_usage, header.last());
    let sample = translation.samples().last();
    // What a process did before it ran this program is not the program's.
    let before = if source.producer().image() == 0 { Default::default() } else { first };
    let durations = Durations::of(source);
    let calls = translation.figures().events();
    let timed = durations.of_calls(calls);
    // Nothing is known of a program that ended before there was another sample.
    let since = |last: u64, first: u64| Some(last.saturating_sub(first)).filter(|&more| more > 0);
    let processor = sample.and_then(|sample| since(sample.processor_nanoseconds, before.processor_nanoseconds));
    let totals = Totals {
        elapsed_nanoseconds: sample.and_then(|sample| since(sample.nanoseconds, 0)),
        processor_nanoseconds: processor,
        recorder_nanoseconds: None,
        peak_anonymous: translation.samples().peak(),
        resident_files: last.and_then(|last| last.files),
        faults: sample.and_then(|sample| since(sample.faults, before.faults)),
        peak_system: header.peak_system_bytes(),
        timed_calls: timed.map(|timed| timed.0),
        timed_nanoseconds: timed.map(|timed| timed.1),
        huge_pages_off: last.is_some_and(|last| last.are_huge_pages_off),
    };
    let recorder = durations.of_recorder(calls);
    if translation.sampled().is_some() && hides_the_program(recorder, processor) {
        return Totals { processor_nanoseconds: None, ..totals };
    }
    // Both are estimates, and of the time that there was.
    let rest = processor.map_or(u64::MAX, |time| time.saturating_sub(totals.malloc_nanoseconds(calls).unwrap_or(0)));
    Totals { recorder_nanoseconds: recorder.map(|time| time.min(rest)), ..totals }
}

/// Returns the share of the calls in the processor time of a process, if the estimate is of use: not when the recording
/// ended before the process, whose time is that of more calls.
pub fn share_of_calls(source: &Source, calls: u64, totals: &Totals) -> Option<f64> {
    if source.lost() > 0 {
        return None;
    }
    let whole = totals.program_nanoseconds().filter(|&time| time > 0)?;
    let all = totals.malloc_nanoseconds(calls)?;
    Durations::of(source).show_the_share(calls, whole).then_some(all as f64 / whole as f64)
}

/// Whether the recorder, which took stacks, took so much of the processor's time that the program's is not known: what
/// is left of a long time, of which an estimate from few stacks is subtracted, is mostly the estimate's error.
fn hides_the_program(recorder: Option<u64>, processor: Option<u64>) -> bool {
    let (recorder, whole) = (recorder.unwrap_or(0), processor.unwrap_or(u64::MAX));
    recorder > whole / 2
}

/// How often something was timed, and how long it took in all, in nanoseconds.
type Duration = (u64, u64);

/// What was timed in a process.
struct Durations {
    sampled: Duration,
    long: Duration,
    recorder_sampled: Duration,
    pages: Duration,
    /// The recorder's other work.
    own: u64,
}

impl Durations {
    fn of(source: &Source) -> Durations {
        let header = source.header();
        let rate = Rate::since(header.first_ticks, header.first_nanoseconds);
        let of = |which| {
            let (calls, ticks) = header.timed(which);
            (calls, rate.nanoseconds(0, ticks))
        };
        Durations {
            sampled: of(Timed::Sampled),
            long: of(Timed::Long),
            recorder_sampled: of(Timed::RecorderSampled),
            pages: of(Timed::Pages),
            own: header.own_nanoseconds(),
        }
    }

    /// Returns the number of calls that were timed, of `calls`, and their duration. Calls for long blocks were all
    /// timed, and are weighted as if they had been sampled as the others.
    fn of_calls(&self, calls: u64) -> Option<Duration> {
        let timed = self.sampled.0 + self.long.0;
        if timed == 0 || calls == 0 {
            return None;
        }
        let whole = mean(self.sampled) * calls.saturating_sub(self.long.0) as f64 + self.long.1 as f64;
        Some((timed, (whole * timed as f64 / calls as f64) as u64))
    }

    /// Whether the time of `calls` calls in `whole` nanoseconds of processor time is more than noise.
    ///
    /// Its error is that of few slow calls, each of which stands for some 512. Nearly all calls take some 20 ns. One in
    /// some thirty of a growing heap asks the system for memory, for 1 µs: of a thousand that are timed, 33 ± 6 do, an
    /// error of 6 ns per call. A thread may also lose its processor in a call, which then counts for 10 µs, but hardly
    /// in the 50 µs that a thousand take. Of fewer calls the estimate is of use if one that counts for 10 µs changes it
    /// by a twentieth of the whole at most. Calls for long blocks are all timed, and each stands for itself.
    fn show_the_share(&self, calls: u64, whole: u64) -> bool {
        const ENOUGH: u64 = 1000;
        const SLOW: u64 = Timed::Sampled.most_nanoseconds();
        let count = self.sampled.0;
        let stands_for = calls.saturating_sub(self.long.0) as f64 / count.max(1) as f64;
        count >= ENOUGH || stands_for * SLOW as f64 <= whole as f64 / 20.0
    }

    /// Returns the recorder's time, if it was timed.
    fn of_recorder(&self, calls: u64) -> Option<u64> {
        let per_call = mean(self.recorder_sampled) * calls as f64;
        (self.recorder_sampled.0 > 0).then_some(per_call as u64 + self.pages.1 + self.own)
    }
}

fn mean((times, nanoseconds): Duration) -> f64 {
    nanoseconds as f64 / times.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(sampled: Duration, long: Duration) -> Durations {
        Durations { sampled, long, recorder_sampled: sampled, pages: (1, 3), own: 4 }
    }

    #[test]
    fn long_blocks_count_as_often_as_they_were_asked_for() {
        // A thousand calls: 10 of 990 short ones took 20 ns each, and all 10 long ones 1 ms.
        let (timed, nanoseconds) = durations((10, 200), (10, 10_000_000)).of_calls(1000).unwrap();
        assert_eq!((timed, nanoseconds * 1000 / timed / 10_000), (20, (990 * 20 + 10_000_000) / 10_000));
        assert_eq!(durations((5, 100), (0, 0)).of_calls(2500), Some((5, 100)));
        assert_eq!(durations((0, 0), (3, 300)).of_calls(3), Some((3, 300)));
        assert_eq!(durations((0, 0), (0, 0)).of_calls(3), None);
    }

    #[test]
    fn the_share_of_calls_is_shown_where_one_slow_call_does_not_decide_it() {
        let show = |sampled, long, calls, whole| durations(sampled, long).show_the_share(calls, whole);
        // 8 of 4,096 calls were timed. A slow one counts for 5 ms.
        assert!(!show((8, 160), (0, 0), 4096, 55_000_000));
        assert!(!show((8, 10_140), (0, 0), 4096, 55_000_000));
        assert!(show((8, 160), (0, 0), 4096, 110_000_000));
        // A thousand say how many are slow.
        assert!(show((1000, 12_000), (0, 0), 512_000, 30_000_000));
        assert!(!show((999, 12_000), (0, 0), 511_488, 30_000_000));
        // Where none of the short ones was timed, nothing is known of any; long ones are all timed.
        assert!(!show((0, 0), (7, 9_000_000), 307, 55_000_000));
        assert!(show((0, 0), (7, 9_000_000), 7, 55_000_000));
    }

    #[test]
    fn a_small_rest_beside_the_recorders_time_is_not_the_programs_time() {
        assert!(hides_the_program(Some(2_900), Some(3_000)));
        assert!(!hides_the_program(Some(1_400), Some(3_000)));
        assert!(!hides_the_program(None, Some(3_000)));
        assert!(!hides_the_program(Some(2_900), None));
    }

    #[test]
    fn the_recorder_takes_what_it_adds_to_each_call_and_more() {
        assert_eq!(durations((5, 100), (0, 0)).of_recorder(1000), Some(20_007));
        assert_eq!(durations((0, 0), (0, 0)).of_recorder(1000), None);
    }
}
