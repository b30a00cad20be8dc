//! Real replays of a trace, as the page tells of them.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::data::Line;
use crate::allocator::{self, Allocator};
use crate::policy::MAPPED;
use crate::progress::Progress;
use crate::real::{Run, Sample, Script, Settings, run};

/// A real replay has at most so many buckets; it has about as many samples.
const BUCKETS: u64 = 256;

/// One allocator's real replay.
#[derive(Serialize)]
pub struct Resident {
    pub allocator: String,
    /// Why there are no figures.
    pub error: Option<String>,
    pub figures: Option<Figures>,
}

/// What came of it. Sizes in bytes of resident memory, the heap's alone.
#[derive(Serialize)]
pub struct Figures {
    pub peak_rss: u64,
    pub average_rss: u64,
    pub seconds: f64,
    pub faults: u64,
    pub refused: u64,
    pub line: Line,
}

/// Performs a trace under the system's malloc, these policies, and whatever other allocators there are.
pub fn measure(trace: &Path, policies: &[&str], progress: &Progress) -> Result<Vec<Resident>> {
    let script = Script::compile(trace)?;
    let wanted = allocator::all(&[]).into_iter().filter(|allocator| match allocator {
        // A mapping for every block takes thousands of times as long as the others, and tells nothing of holes.
        Allocator::NoOp | Allocator::Heapwright(MAPPED) => false,
        Allocator::Heapwright(policy) => policies.contains(policy),
        Allocator::System | Allocator::Peer(_) => true,
    });
    let measured = wanted.map(|allocator| {
        progress.at(allocator.name());
        let run = run(&script, &allocator, &Settings::default());
        Resident {
            allocator: allocator.name().to_owned(),
            error: run.as_ref().err().map(|error| format!("{error:#}")),
            figures: run.ok().map(|run| Figures::of(&run, script.events())),
        }
    });
    Ok(measured.collect())
}

impl Figures {
    fn of(run: &Run, events: u64) -> Figures {
        Figures {
            peak_rss: run.peak_rss,
            average_rss: run.average_rss,
            seconds: run.seconds,
            faults: run.faults,
            refused: run.refused,
            line: line(&run.samples, events),
        }
    }
}

/// Samples in buckets of the same width; one without a sample has what was sampled before.
fn line(samples: &[Sample], events: u64) -> Line {
    let width = events.div_ceil(BUCKETS).max(1);
    let mut line = Line { width, min: Vec::new(), max: Vec::new(), last: Vec::new() };
    let mut samples = samples.iter().peekable();
    let mut last = 0;
    for bucket in 1..=events.div_ceil(width) {
        let (mut min, mut max) = (last, last);
        let mut first = true;
        while let Some(sample) = samples.next_if(|sample| sample.event <= bucket * width) {
            (min, max) = if first { (sample.rss, sample.rss) } else { (min.min(sample.rss), max.max(sample.rss)) };
            (first, last) = (false, sample.rss);
        }
        line.min.push(min);
        line.max.push(max);
        line.last.push(last);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fall_into_buckets() {
        let samples = [(1, 5), (2, 3), (4, 9), (9, 1)].map(|(event, rss)| Sample { event, rss });
        let few = line(&samples, 9);
        assert_eq!((few.width, &few.max[..]), (1, &[5, 3, 3, 9, 9, 9, 9, 9, 1][..]));
        let many = line(&samples, 2 * BUCKETS);
        assert_eq!((many.width, many.max.len() as u64), (2, BUCKETS));
        assert_eq!((&many.min[..5], &many.max[..5], many.last[4]), (&[3, 9, 9, 9, 1][..], &[5, 9, 9, 9, 1][..], 1));
        assert!(line(&[], 0).max.is_empty());
    }
}
