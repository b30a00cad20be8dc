//! Real replays of a trace, as the page reads them; `heapwright compare` makes and judges them.

use std::path::Path;

use anyhow::Result;
use heapwright_replay::Outcome;
use serde::Serialize;

use super::line::Line;
use heapwright_compare::Comparison;
use heapwright_compare::Estimate;
use heapwright_compare::Metric;
use heapwright_compare::Parts;
use heapwright_compare::Plan;
use heapwright_compare::Recommendation;
use heapwright_compare::Row;
use heapwright_compare::Sample;
use heapwright_compare::gather_around;

/// The most buckets of a real replay, which has about as many samples.
const BUCKETS: u64 = 256;

/// The real replays of all allocators.
#[derive(Serialize)]
pub struct Real {
    /// What `heapwright compare` recommends.
    pub recommendation: Option<Recommendation>,
    /// Number of measurement rounds; 0 without real replays.
    pub rounds: u32,
    /// By which share two replays of the same allocator may differ, as far as is known.
    pub noise: Option<f64>,
    /// Empty without real replays.
    pub rows: Vec<Resident>,
}

/// One allocator's real replays.
#[derive(Serialize)]
pub struct Resident {
    pub allocator: String,
    /// Why there are no figures.
    pub error: Option<String>,
    pub figures: Option<Figures>,
    /// What the whole program would take. `None` where the recording has too little to predict it from.
    pub predicted: Option<Predicted>,
}

/// What `heapwright compare` predicts of the whole program. A figure that cannot be predicted is missing.
#[derive(Serialize)]
pub struct Predicted {
    /// Seconds of processor time.
    pub seconds: Option<Estimate>,
    pub time_over_system: Option<Estimate>,
    /// The peak of resident memory, in bytes.
    pub peak: Option<Estimate>,
    pub peak_over_system: Option<Estimate>,
}

/// What came of them: medians. Sizes in bytes of resident memory, the heap's alone.
#[derive(Serialize)]
pub struct Figures {
    pub peak_rss: f64,
    pub average_rss: f64,
    /// Of the processor.
    pub seconds: f64,
    /// Over the system malloc's.
    pub time_over_system: Option<Estimate>,
    pub faults: f64,
    pub refused: Option<u64>,
    /// Of the peak.
    pub parts: Option<Parts>,
    /// Of the first replay.
    pub line: Line,
}

/// Compares allocators around simulations, by real replays if the plan has any.
pub fn compare(trace: &Path, outcomes: &[&Outcome], plan: &Plan) -> Result<Real> {
    let comparison = gather_around(outcomes, trace, plan)?;
    let rows = comparison.rows.iter().filter(|row| plan.course.is_some() && row.kind.is_a_choice());
    Ok(Real {
        rounds: comparison.settings.rounds,
        noise: comparison.noise(),
        rows: rows.map(|row| Resident::of(row, &comparison)).collect(),
        recommendation: comparison.recommendation,
    })
}

impl Resident {
    fn of(row: &Row, comparison: &Comparison) -> Resident {
        Resident {
            allocator: row.name.clone(),
            error: row.note.clone(),
            figures: Figures::of(row, comparison),
            predicted: Predicted::of(row),
        }
    }
}

impl Predicted {
    fn of(row: &Row) -> Option<Predicted> {
        let figure = |metric| row.figures.get(&metric).copied();
        let predicted = Predicted {
            seconds: figure(Metric::ProgramTime),
            time_over_system: figure(Metric::ProgramTimeOverSystem),
            peak: figure(Metric::ProgramPeak),
            peak_over_system: figure(Metric::ProgramPeakOverSystem),
        };
        (predicted.seconds.is_some() || predicted.peak.is_some()).then_some(predicted)
    }
}

impl Figures {
    fn of(row: &Row, comparison: &Comparison) -> Option<Figures> {
        let start = comparison.start_over_system(row) as i64;
        let (events, positions) = (comparison.trace.events, comparison.trace.end().max(1));
        // Samples are at positions, changes of threads among them, and the page's axis is of calls. What is between two
        // calls is as good as evenly spread.
        let event_of = |position: u64| (u128::from(position) * u128::from(events) / u128::from(positions)) as u64;
        let with_start =
            |sample: &Sample| Sample { event: event_of(sample.event), rss: sample.rss.saturating_add_signed(start) };
        let samples: Vec<Sample> = row.samples.iter().map(with_start).collect();
        Some(Figures {
            peak_rss: row.median(Metric::Peak)?,
            average_rss: row.median(Metric::Average)?,
            seconds: row.median(Metric::Time)?,
            time_over_system: row.figures.get(&Metric::TimeOverSystem).copied(),
            faults: row.median(Metric::Faults)?,
            refused: row.refused,
            parts: row.parts,
            line: line(&samples, events),
        })
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
