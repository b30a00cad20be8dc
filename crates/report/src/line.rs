//! Quantities and times over the events of a trace, as the page reads them.

use heapwright_replay::history::{Census, Series};
use serde::Serialize;

/// A quantity over time.
#[derive(Serialize)]
pub struct Line {
    /// How many events each entry stands for.
    pub width: u64,
    pub min: Vec<u64>,
    pub max: Vec<u64>,
    pub last: Vec<u64>,
}

impl From<&Series> for Line {
    fn from(series: &Series) -> Line {
        let buckets = series.buckets();
        Line {
            width: series.width(),
            min: buckets.iter().map(|bucket| bucket.min).collect(),
            max: buckets.iter().map(|bucket| bucket.max).collect(),
            last: buckets.iter().map(|bucket| bucket.last).collect(),
        }
    }
}

/// When events happened, in nanoseconds since the beginning.
#[derive(Serialize)]
pub struct Clock {
    /// How many events each entry of `ends` stands for.
    pub width: u64,
    /// The first event.
    pub start: u64,
    /// The last of the events of each entry.
    pub ends: Vec<u64>,
    /// The event at which most is live, by its number from 1, and its time.
    pub peak: (u64, u64),
}

impl Clock {
    /// Returns the times of a trace, if it has some.
    pub fn of(census: &Census) -> Option<Clock> {
        let series = census.times.as_ref()?;
        let buckets = series.buckets();
        Some(Clock {
            width: series.width(),
            start: buckets.first().map_or(0, |bucket| bucket.min),
            ends: buckets.iter().map(|bucket| bucket.last).collect(),
            peak: (census.peak_requested.1, census.peak_requested_time),
        })
    }
}
