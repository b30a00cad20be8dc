//! The axis across of plots over time: events, or the time at which they happened.

use super::axes::{self, LEFT, RIGHT, Scale};
use crate::number;
use crate::report::data::Clock;

const SECOND: u64 = 1_000_000_000;

/// What plots over time are drawn against.
#[derive(Clone, Copy)]
pub struct Across<'c> {
    events: u64,
    clock: Option<&'c Clock>,
}

impl<'c> Across<'c> {
    /// So many events.
    pub fn events(events: u64) -> Across<'c> {
        Across { events, clock: None }
    }

    /// The time at which so many events happened.
    pub fn time(events: u64, clock: &'c Clock) -> Across<'c> {
        Across { events, clock: Some(clock) }
    }

    /// Where an event is drawn; one behind the end is drawn there.
    pub fn place(&self, event: f64) -> f64 {
        let event = event.min(self.events as f64);
        match self.clock {
            None => Scale::across(self.events).place(event),
            Some(clock) => place_in(clock, time_of(clock, self.events, event)),
        }
    }

    /// What the axis shows.
    pub fn label(&self) -> &'static str {
        if self.clock.is_some() { "time" } else { "events" }
    }

    /// Marks: where, and what is written there.
    pub fn marks(&self) -> Vec<(f64, String)> {
        let Some(clock) = self.clock else {
            let marks = axes::round_marks(self.events).into_iter();
            return marks.map(|mark| (self.place(mark as f64), axes::count(mark))).collect();
        };
        let (start, end) = ends(clock);
        let step = time_step(end - start);
        let marks = (start.div_ceil(step)..=end / step).map(|mark| mark * step);
        marks.map(|mark| (place_in(clock, mark as f64), time_text(mark, step, end))).collect()
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

/// When an event happened: linear between those that are known.
fn time_of(clock: &Clock, events: u64, event: f64) -> f64 {
    let width = clock.width as f64;
    let at = ((event / width) as usize).min(clock.ends.len().saturating_sub(1));
    let before = at.checked_sub(1).map_or(clock.start, |before| clock.ends[before]) as f64;
    let after = clock.ends.get(at).map_or(before, |&end| end as f64);
    let first = at as f64 * width;
    let length = (events as f64 - first).min(width).max(1.0);
    before + ((event - first) / length).clamp(0.0, 1.0) * (after - before)
}

/// A step of at most seven marks.
fn time_step(span: u64) -> u64 {
    const LONG: [u64; 13] = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
    const DAY: u64 = 86_400 * SECOND;
    let least = span.div_ceil(7).max(1);
    if least <= 10 * SECOND {
        let power = 10_u64.pow(least.ilog10());
        return [1, 2, 5, 10].into_iter().map(|factor| factor * power).find(|&step| step >= least).unwrap_or(least);
    }
    LONG.into_iter().map(|step| step * SECOND).find(|&step| step >= least).unwrap_or(least.next_multiple_of(DAY))
}

/// A time as a mark: to the step, in the unit that suits the longest; from two minutes on in minutes and hours.
fn time_text(time: u64, step: u64, longest: u64) -> String {
    if time == 0 {
        return "0".to_owned();
    }
    if longest >= 120 * SECOND && step >= SECOND {
        return long_time(time / SECOND);
    }
    let units = [(SECOND, "s"), (1_000_000, "ms"), (1000, "µs"), (1, "ns")];
    let (unit, name) = units.into_iter().find(|(unit, _)| longest >= *unit).unwrap_or((1, "ns"));
    let decimals = (0..10).find(|&decimals| step * 10_u64.pow(decimals) >= unit).unwrap_or(0) as usize;
    format!("{:.decimals$} {name}", time as f64 / unit as f64)
}

/// As in "2 min", "1 h 30 min", "3 d 6 h".
fn long_time(seconds: u64) -> String {
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let told = parts.iter().skip_while(|(count, _)| *count == 0).take(2).filter(|(count, _)| *count > 0);
    told.map(|(count, unit)| format!("{} {unit}", number::grouped(*count))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(start: u64, end: u64) -> Vec<String> {
        let clock = Clock { width: 10, start, ends: vec![end] };
        Across::time(10, &clock).marks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn times_are_in_units_that_people_read() {
        assert_eq!(texts(0, 3 * SECOND / 2), ["0", "0.5 s", "1.0 s", "1.5 s"]);
        assert_eq!(texts(12_000_000, 30_000_000), ["15 ms", "20 ms", "25 ms", "30 ms"]);
        assert_eq!(texts(0, 400 * SECOND), ["0", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min"]);
        assert_eq!(texts(0, 3 * 3600 * SECOND), ["0", "30 min", "1 h", "1 h 30 min", "2 h", "2 h 30 min", "3 h"]);
        assert_eq!(texts(0, 9 * 86_400 * SECOND), ["0", "2 d", "4 d", "6 d", "8 d"]);
        assert_eq!(texts(7, 7), ["7 ns"]);
        for power in 0..64 {
            let marks = texts(0, 1 << power);
            assert!((2..=8).contains(&marks.len()), "{power}: {marks:?}");
            assert!(marks.windows(2).all(|two| two[0] != two[1]), "{marks:?}");
        }
    }

    #[test]
    fn events_lie_where_their_times_are() {
        let clock = Clock { width: 10, start: 100, ends: vec![200, 1000, 1100] };
        let across = Across::time(25, &clock);
        let share = |event: f64| (across.place(event) - LEFT) / (RIGHT - LEFT);
        for (event, share_of_time) in
            [(0.0, 0.0), (5.0, 0.05), (10.0, 0.1), (15.0, 0.5), (20.0, 0.9), (22.5, 0.95), (25.0, 1.0)]
        {
            assert!((share(event) - share_of_time).abs() < 1e-9, "{event}");
        }
        assert_eq!(across.label(), "time");
        let nothing = Clock { width: 1, start: 0, ends: Vec::new() };
        assert!(Across::time(0, &nothing).place(0.0).is_finite());
    }
}
