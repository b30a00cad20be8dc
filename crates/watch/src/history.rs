//! Samples of a heap over time in bounded memory, and rates of its counters.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use heapwright_placement::Counters;

/// Above this number, every second point is dropped.
const MOST: usize = 1024;

/// Window of the rates.
const WINDOW: Duration = Duration::from_millis(1500);

/// A sample of a heap at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes from the region's start to the heap's end.
    pub heap: u64,
    /// Live bytes: bytes in allocated blocks.
    pub live: u64,
    /// External fragmentation: the share of free bytes outside the largest hole; `None` without holes.
    pub external: Option<f64>,
}

/// Points at equal distances in time, from the start on.
#[derive(Default)]
pub struct History {
    points: Vec<Point>,
    /// Number of points dropped between two that are kept.
    skipped_between: usize,
    skipped: usize,
    last: Option<Point>,
}

impl History {
    /// Adds a point.
    pub fn add(&mut self, point: Point) {
        self.last = Some(point);
        if self.skipped < self.skipped_between {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        self.points.push(point);
        if self.points.len() == MOST {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.skipped_between = 2 * self.skipped_between + 1;
        }
    }

    /// Returns the last point, even if it was dropped.
    pub fn last(&self) -> Option<Point> {
        self.last
    }

    /// Reads a figure at up to `columns` moments from the first to the last.
    pub fn columns<T>(&self, columns: usize, read: impl Fn(&Point) -> T) -> Vec<T> {
        let (count, columns) = (self.points.len(), columns.min(self.points.len()));
        let at = |column: usize| if columns < 2 { count - 1 } else { column * (count - 1) / (columns - 1) };
        (0..columns).map(|column| read(&self.points[at(column)])).collect()
    }
}

/// Rates per second, from counters at several moments.
#[derive(Default)]
pub struct Rates {
    seen: VecDeque<(Instant, Counters)>,
}

impl Rates {
    /// Records the counters at `now`.
    pub fn add(&mut self, now: Instant, counters: Counters) {
        self.seen.push_back((now, counters));
        while self.seen.len() > 2 && self.seen.get(1).is_some_and(|&(at, _)| now.duration_since(at) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Returns the growth of `read` per second; `None` until there are enough samples.
    pub fn per_second(&self, read: impl Fn(&Counters) -> u64) -> Option<f64> {
        let ((first, before), (last, after)) = (self.seen.front()?, self.seen.back()?);
        let seconds = last.duration_since(*first).as_secs_f64();
        (seconds > 0.0).then(|| read(after).saturating_sub(read(before)) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(heap: u64) -> Point {
        Point { heap, live: 0, external: None }
    }

    #[test]
    fn a_history_is_bounded_and_keeps_its_ends() {
        let mut history = History::default();
        assert!(history.columns(10, |point| point.heap).is_empty());
        for moment in 0..100_000 {
            history.add(point(moment));
        }
        assert!(history.points.len() < MOST);
        let seen = history.columns(5, |point| point.heap);
        assert_eq!((seen.len(), seen[0]), (5, 0));
        assert!(seen.is_sorted() && seen[4] > 99_000 && seen[2].abs_diff(50_000) < 1000, "{seen:?}");
    }

    #[test]
    fn a_short_history_is_shown_as_it_is() {
        let mut history = History::default();
        (0..3).for_each(|moment| history.add(point(moment)));
        assert_eq!(history.columns(10, |point| point.heap), [0, 1, 2]);
        assert_eq!(history.columns(1, |point| point.heap), [2]);
        assert_eq!(history.columns(2, |point| point.heap), [0, 2]);
    }

    #[test]
    fn rates_are_of_the_last_moments() {
        let mut rates = Rates::default();
        let start = Instant::now();
        let at = |tenths: u32, mallocs| {
            (start + tenths * Duration::from_millis(100), Counters { mallocs, ..Counters::default() })
        };
        let mut add = |(now, counters)| rates.add(now, counters);
        add(at(0, 0));
        (1..=100).for_each(|tenth| add(at(tenth, 1000 * u64::from(tenth.min(50)))));
        assert_eq!(rates.per_second(|counters| counters.mallocs), Some(0.0));
        rates.add(at(101, 51_600).0, at(101, 51_600).1);
        let rate = rates.per_second(|counters| counters.mallocs).unwrap();
        assert!((900.0..1100.0).contains(&rate), "{rate}");
        assert_eq!(Rates::default().per_second(|counters| counters.mallocs), None);
    }
}
