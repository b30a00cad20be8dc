//! The marks of a column: its best row, and the rows that are shown to be as good.

use super::comparison::Comparison;
use super::figures::EQUAL;
use super::metric::{Metric, Origin};
use super::row::Row;

/// How a figure stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The best.
    Best,
    /// Not the best, but shown to be as good: at most a twentieth worse.
    Tie,
    /// Neither.
    None,
}

impl Mark {
    /// Returns the character behind the figure.
    pub fn sign(self) -> &'static str {
        match self {
            Mark::Best => "*",
            Mark::Tie => "~",
            Mark::None => "",
        }
    }
}

/// Returns the marks of all rows in a column. No row is marked when all tie, or when there were too few rounds for an
/// interval.
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

/// Returns whether `row` is shown to be as good as the best: the whole interval of the ratio within a twentieth. A
/// simulated figure has to read the same.
fn is_as_good(comparison: &Comparison, row: &Row, best: &Row, metric: Metric) -> bool {
    if metric.origin() == Origin::Simulated {
        let read = |row: &Row| row.median(metric).map(|figure| metric.show(figure));
        return read(row) == read(best);
    }
    comparison.ratio(row, best, metric).is_some_and(|ratio| !ratio.may_be_above(1.0 + EQUAL))
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    #[test]
    fn only_what_is_shown_to_be_as_good_ties_with_the_best() {
        let rows = || [row("best", 0.80, 1.0), row("close", 0.81, 1.0), row("far", 0.9, 1.0)];
        let of = |noise: f64| marks(&Synthetic::beside(rows()).noise(noise).build(), Metric::Time);
        assert_eq!(of(0.01)[1..4], [Mark::Best, Mark::Tie, Mark::None]);
        assert_eq!(of(0.3)[2], Mark::None, "what cannot be told apart is not shown to be equal");
    }
}
