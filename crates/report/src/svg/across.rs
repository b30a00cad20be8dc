//! The horizontal axis of plots over time: events, or the time at which they happened.

use super::axes::{LEFT, RIGHT, Scale};
use super::marks::{self, CHART, Unit};
use crate::line::Clock;

/// What plots over time are drawn against.
#[derive(Clone, Copy)]
pub struct Across<'c> {
    events: u64,
    clock: Option<&'c Clock>,
}

impl<'c> Across<'c> {
    /// An axis of events.
    pub fn events(events: u64) -> Across<'c> {
        Across { events, clock: None }
    }

    /// An axis of the times at which the events happened.
    pub fn time(events: u64, clock: &'c Clock) -> Across<'c> {
        Across { events, clock: Some(clock) }
    }

    /// Returns where an event is drawn; one after the end is drawn at the end.
    pub fn place(&self, event: f64) -> f64 {
        let event = event.min(self.events as f64);
        self.place_of(self.clock.map_or(event, |clock| time_of(clock, self.events, event)))
    }

    /// What the axis shows.
    pub fn label(&self) -> &'static str {
        if self.clock.is_some() { "time" } else { "events" }
    }

    /// Marks: where, and what is written there.
    pub fn marks(&self) -> Vec<(f64, String)> {
        let steps = CHART.marks.across;
        let marks = match self.clock {
            None => Unit::Count.marks(self.events as f64, steps),
            Some(clock) => {
                let (start, end) = ends(clock);
                marks::of_times(start as f64, end as f64, steps)
            }
        };
        marks.into_iter().map(|mark| (self.place_of(mark.at), mark.text)).collect()
    }

    /// Where a value of the axis is drawn: an event or a time.
    fn place_of(&self, value: f64) -> f64 {
        match self.clock {
            None => Scale::across(self.events).place(value),
            Some(clock) => place_in(clock, value),
        }
    }
}

/// When the first and the last event happened.
fn ends(clock: &Clock) -> (u64, u64) {
    (clock.start, clock.ends.last().copied().unwrap_or(clock.start).max(clock.start))
}

fn place_in(clock: &Clock, time: f64) -> f64 {
    let (start, end) = ends(clock);
    LEFT + (time - start as f64) / (end - start).max(1) as f64 * (RIGHT - LEFT)
}

/// When an event happened: linear between those that are known, the ends of buckets and the peak.
pub fn time_of(clock: &Clock, events: u64, event: f64) -> f64 {
    let at = ((event / clock.width as f64) as usize).min(clock.ends.len().saturating_sub(1));
    let before = at.checked_sub(1).map_or(clock.start, |before| clock.ends[before]);
    let after = clock.ends.get(at).copied().unwrap_or(before);
    let first = at as u64 * clock.width;
    let last = events.min(first + clock.width);
    let (peak, peak_time) = clock.peak;
    let is_inside = first < peak && peak < last;
    let (from, to) = match (is_inside, event < peak as f64) {
        (false, _) => ((first, before), (last, after)),
        (true, true) => ((first, before), (peak, peak_time)),
        (true, false) => ((peak, peak_time), (last, after)),
    };
    let length = (to.0.saturating_sub(from.0) as f64).max(1.0);
    from.1 as f64 + ((event - from.0 as f64) / length).clamp(0.0, 1.0) * (to.1 as f64 - from.1 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_lie_where_their_times_are() {
        let clock = Clock { width: 10, start: 100, ends: vec![200, 1000, 1100], peak: (15, 300) };
        let across = Across::time(25, &clock);
        let share = |event: f64| (across.place(event) - LEFT) / (RIGHT - LEFT);
        for (event, share_of_time) in
            [(0.0, 0.0), (5.0, 0.05), (10.0, 0.1), (15.0, 0.2), (17.5, 0.55), (20.0, 0.9), (22.5, 0.95), (25.0, 1.0)]
        {
            assert!((share(event) - share_of_time).abs() < 1e-9, "{event}");
        }
        assert_eq!(across.label(), "time");
        let nothing = Clock { width: 1, start: 0, ends: Vec::new(), peak: (0, 0) };
        assert!(Across::time(0, &nothing).place(0.0).is_finite());
    }
}
