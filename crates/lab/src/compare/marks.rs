//! Which rows of a column are best, as far as can be known.

use super::comparison::{Comparison, Row};
use super::estimate::Estimate;
use super::metric::{Metric, Origin};

/// How a figure stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The best.
    Best,
    /// Not the best, but the difference may be noise.
    Tie,
    /// Neither.
    None,
}

impl Mark {
    /// What stands behind the figure.
    pub fn sign(self) -> &'static str {
        match self {
            Mark::Best => "*",
            Mark::Tie => "~",
            Mark::None => "",
        }
    }
}

/// The marks of all rows in a column. Nobody is marked when nothing tells the rows apart, or when there were too few rounds to
/// tell.
pub fn marks(comparison: &Comparison, metric: Metric) -> Vec<Mark> {
    let candidates = || comparison.rows.iter().filter(|row| row.kind.is_a_choice() && row.median(metric).is_some());
    let by_median =
        |a: &&Row, b: &&Row| a.median(metric).partial_cmp(&b.median(metric)).unwrap_or(std::cmp::Ordering::Equal);
    let Some(best) = candidates().min_by(by_median) else { return vec![Mark::None; comparison.rows.len()] };
    let mark = |row: &Row| {
        if std::ptr::eq(row, best) {
            Mark::Best
        } else if row.kind.is_a_choice() && is_as_good(comparison, row, best, metric) {
            Mark::Tie
        } else {
            Mark::None
        }
    };
    let can_tell = metric.origin() == Origin::Simulated || best.figures[&metric].interval.is_some();
    let tells_apart = candidates().any(|row| mark(row) == Mark::None);
    if can_tell && tells_apart {
        comparison.rows.iter().map(mark).collect()
    } else {
        vec![Mark::None; comparison.rows.len()]
    }
}

/// Whether what is known does not tell `row` from the best.
fn is_as_good(comparison: &Comparison, row: &Row, best: &Row, metric: Metric) -> bool {
    let (Some(own), Some(bests)) = (row.figures.get(&metric), best.figures.get(&metric)) else { return false };
    if metric.show(own.median) == metric.show(bests.median) {
        return true;
    }
    match metric {
        Metric::TimeOverSystem => is_as_good(comparison, row, best, Metric::Time),
        Metric::PeakOverAsked => is_as_good(comparison, row, best, Metric::Peak),
        Metric::Time => reaches(comparison.ratio(row, best, metric), 1.0 + comparison.noise().unwrap_or(0.0)),
        Metric::Peak | Metric::Average | Metric::Faults => reaches(comparison.ratio(row, best, metric), 1.0),
        _ => own.interval.is_some() && own.low() <= bests.high(),
    }
}

/// Whether a ratio may be as low as `limit`.
fn reaches(ratio: Option<Estimate>, limit: f64) -> bool {
    ratio.is_some_and(|ratio| ratio.low() <= limit)
}
