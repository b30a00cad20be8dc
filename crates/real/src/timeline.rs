//! When the events of a trace happened, in a bounded number of marks.

use heapwright_host::lazy::Plain;
use heapwright_trace::Sample;

/// Maximal number of marks.
pub const MOST: usize = 4096;

/// The shortest pause, and the shortest time between two marks, in nanoseconds.
const SHORTEST: u64 = 10_000_000;

/// The latest time, in nanoseconds, which a clock can show: 146 years.
const LATEST: u64 = 1 << 62;

/// The time at one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Mark {
    /// The number of the event.
    pub event: u64,
    /// When it happened, in nanoseconds since the beginning of the trace.
    pub nanoseconds: u64,
    /// Length of the pauses since the mark before, in nanoseconds. Only pauses of at least 10 ms count.
    pub pause: u64,
}

// SAFETY: a mark consists of integers without padding: any bytes are a valid value.
unsafe impl Plain for Mark {}

/// Collects marks. There is one at each event that happened at least 10 ms, or more in a long trace, after the mark
/// before. The end of every pause of that length thus has a mark.
#[derive(Debug)]
pub struct Timeline {
    marks: Vec<Mark>,
    /// The shortest time between two marks.
    grain: u64,
    /// The time of the event before; `None` before the first.
    latest: Option<u64>,
    /// The pauses since the last mark.
    pause: u64,
}

impl Timeline {
    /// Without marks.
    pub fn new() -> Timeline {
        Timeline { marks: Vec::new(), grain: SHORTEST, latest: None, pause: 0 }
    }

    /// Returns the timeline of a trace that has samples only. Between two samples, events are taken to be equally far
    /// from one another.
    #[cfg(test)]
    pub fn of_samples(samples: &[Sample]) -> Timeline {
        let mut interpolated = Interpolated::new();
        samples.iter().for_each(|sample| interpolated.push(sample));
        interpolated.timeline
    }

    /// Whether any time is known.
    pub fn is_known(&self) -> bool {
        self.latest.is_some()
    }

    /// Adds the time of an event. Neither number nor time is less than those of the event before.
    #[inline]
    pub fn push(&mut self, event: u64, nanoseconds: u64) {
        let nanoseconds = nanoseconds.min(LATEST);
        let gap = nanoseconds.saturating_sub(self.latest.unwrap_or(nanoseconds));
        self.push_after(if gap >= SHORTEST { gap } else { 0 }, event, nanoseconds);
    }

    /// Adds the time of an event after a pause.
    #[inline]
    fn push_after(&mut self, pause: u64, event: u64, nanoseconds: u64) {
        self.latest = Some(nanoseconds);
        self.pause += pause;
        if nanoseconds.saturating_sub(self.last_mark()) >= self.grain {
            self.mark(event, nanoseconds);
        }
    }

    fn last_mark(&self) -> u64 {
        self.marks.last().map_or(0, |mark| mark.nanoseconds)
    }

    fn mark(&mut self, event: u64, nanoseconds: u64) {
        let pause = std::mem::take(&mut self.pause);
        match self.marks.last_mut() {
            Some(last) if last.event == event => {
                (last.nanoseconds, last.pause) = (nanoseconds, last.pause + pause);
            }
            _ => self.marks.push(Mark { event, nanoseconds, pause }),
        }
        while self.marks.len() > MOST {
            self.coarsen();
        }
    }

    /// Doubles the time between marks. The pauses of a mark that is dropped are added to those of the next one.
    fn coarsen(&mut self) {
        self.grain *= 2;
        let (mut last, mut carried) = (0, 0);
        self.marks.retain_mut(|mark| {
            carried += mark.pause;
            let stays = mark.nanoseconds - last >= self.grain;
            if stays {
                (last, mark.pause) = (mark.nanoseconds, std::mem::take(&mut carried));
            }
            stays
        });
        self.pause += carried;
    }

    /// Returns the marks, in their order.
    pub fn into_marks(self) -> Vec<Mark> {
        self.marks
    }
}

/// Collects the timeline of a trace that has samples only.
#[derive(Debug)]
pub struct Interpolated {
    pub timeline: Timeline,
    last: Option<Sample>,
}

impl Interpolated {
    /// Without samples.
    pub fn new() -> Interpolated {
        Interpolated { timeline: Timeline::new(), last: None }
    }

    /// Adds the next sample. The events since the one before are taken to be equally far from one another.
    pub fn push(&mut self, sample: &Sample) {
        let Some(last) = self.last.replace(*sample) else { return };
        let (events, time) = (sample.event - last.event, sample.nanoseconds - last.nanoseconds);
        // Each event is at least one shortest pause after the one before, or there is none.
        let is_pause = time / events.max(1) >= SHORTEST;
        let steps = (time / self.timeline.grain).clamp(1, events.clamp(1, MOST as u64));
        for step in 1..=steps {
            let part = |of: u64, step: u64| (u128::from(of) * u128::from(step) / u128::from(steps)) as u64;
            let pause = if is_pause { part(time, step) - part(time, step - 1) } else { 0 };
            // The first event that can have happened then: the one with which the step begins, if it has any.
            let event = last.event + part(events, step).saturating_sub(1);
            self.timeline.push_after(pause, event, last.nanoseconds + part(time, step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MILLISECOND;

    fn mark(event: u64, nanoseconds: u64, pause: u64) -> Mark {
        Mark { event, nanoseconds, pause }
    }

    fn sample(event: u64, nanoseconds: u64) -> Sample {
        Sample { event, nanoseconds, ..Sample::default() }
    }

    #[test]
    fn a_wide_gap_takes_a_bounded_number_of_steps() {
        let marks = Timeline::of_samples(&[sample(0, 0), sample(1 << 60, LATEST)]).into_marks();
        assert!(marks.len() <= MOST && marks.last().is_some_and(|last| last.nanoseconds <= LATEST));
    }

    #[test]
    fn a_pause_ends_at_the_event_after_it() {
        let mut timeline = Timeline::new();
        for event in 0..1000 {
            timeline.push(event, event * 1000 + if event < 500 { 0 } else { 60 * SECOND });
        }
        assert_eq!(timeline.into_marks(), [mark(500, 60 * SECOND + 500_000, 60 * SECOND + 1000)]);
    }

    #[test]
    fn time_that_passes_without_pauses_has_marks_too() {
        let mut timeline = Timeline::new();
        (0..100).for_each(|event| timeline.push(event, event * 6 * MILLISECOND));
        let marks = timeline.into_marks();
        assert_eq!(marks.len(), 49);
        assert!(marks.iter().all(|mark| mark.pause == 0 && mark.nanoseconds == mark.event * 6 * MILLISECOND));
        assert!(marks.windows(2).all(|pair| pair[1].event - pair[0].event == 2));
    }

    #[test]
    fn many_marks_are_thinned_and_pauses_are_kept() {
        let mut timeline = Timeline::new();
        (0..100_000).for_each(|event| timeline.push(event, event * 20 * MILLISECOND));
        let pending = timeline.pause;
        let marks = timeline.into_marks();
        assert!((MOST / 2..=MOST).contains(&marks.len()), "{}", marks.len());
        let pauses = marks.iter().map(|mark| mark.pause).sum::<u64>();
        assert_eq!(pauses + pending, 99_999 * 20 * MILLISECOND);
        assert!(marks.windows(2).all(|pair| pair[0].event < pair[1].event));
    }

    #[test]
    fn samples_without_events_between_them_are_a_pause() {
        let samples = [sample(0, 0), sample(500, MILLISECOND), sample(500, 60 * SECOND), sample(900, 60 * SECOND)];
        let marks = Timeline::of_samples(&samples).into_marks();
        let [pause] = marks[..] else { panic!("{marks:?}") };
        assert_eq!((pause.nanoseconds, pause.pause), (60 * SECOND, 60 * SECOND - MILLISECOND));
        assert!((499..=500).contains(&pause.event), "{pause:?}");
    }

    #[test]
    fn events_between_samples_are_spread_evenly() {
        let marks = Timeline::of_samples(&[sample(0, 0), sample(100_000, SECOND)]).into_marks();
        assert_eq!(marks.len(), 100);
        assert!(marks.iter().all(|mark| mark.pause == 0));
        assert!(marks.iter().all(|mark| mark.nanoseconds.abs_diff(mark.event * 10_000) <= 10_000), "{marks:?}");
    }

    #[test]
    fn one_event_after_a_long_time_follows_a_pause() {
        let marks = Timeline::of_samples(&[sample(0, 0), sample(500, 1000), sample(501, 9 * SECOND)]).into_marks();
        assert_eq!(marks, [mark(500, 9 * SECOND, 9 * SECOND - 1000)]);
    }
}
