//! A published figure compared with ours.

use serde::Serialize;

/// A figure: exact for counts, rounded for measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// An exact whole number.
    Count(u64),
    /// A measurement or a mean.
    Real(f64),
}

/// How our figure compares with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Equal to the last published digit.
    Exact,
    /// Not comparable digit by digit (a time, a random figure), but within the expected range.
    Within,
    /// Different; the note says why.
    Differs,
    /// Different, because the published figure came from a defect of the measured program.
    Defect,
}

impl Verdict {
    /// Returns the word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Within => "within",
            Verdict::Differs => "differs",
            Verdict::Defect => "defect",
        }
    }
}

/// A cell of a published table, or a cell of ours that has no published figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The report's number.
    pub experiment: &'static str,
    /// The table in it.
    pub table: String,
    /// The row of that table.
    pub row: String,
    /// The column of that table.
    pub column: String,
    /// The unit of both figures: `count`, `bytes`, `percent`, `seconds` or `ratio`.
    pub unit: &'static str,
    /// The published figure, if there is one.
    pub published: Option<Figure>,
    /// Our figure, if it could be measured.
    pub ours: Option<Figure>,
    /// For repeated measurements, the 95 % confidence interval of the median, from six rounds up. For random figures,
    /// the interval that contains 99 % of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
    /// For a distribution: the percentile of the published figure among ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentile: Option<f64>,
    /// For a distribution with a computable mean: that mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<f64>,
    /// The comparison, if there are two figures.
    pub verdict: Option<Verdict>,
    /// A sentence that explains the figures or their difference.
    pub note: String,
    /// The verdict without which the command fails, if any.
    #[serde(skip)]
    pub expected: Option<Verdict>,
}

impl Row {
    /// Returns a row of a table without figures.
    pub fn new(experiment: &'static str, table: &str, row: &str, column: &str, unit: &'static str) -> Row {
        Row {
            experiment,
            table: table.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
            unit,
            published: None,
            ours: None,
            spread: None,
            percentile: None,
            theory: None,
            verdict: None,
            note: String::new(),
            expected: None,
        }
    }

    /// Sets the published figure.
    pub fn published(self, figure: Figure) -> Row {
        Row { published: Some(figure), ..self }
    }

    /// Sets our figure.
    pub fn ours(self, figure: Figure) -> Row {
        Row { ours: Some(figure), ..self }
    }

    /// Sets the note.
    pub fn note(self, note: &str) -> Row {
        Row { note: note.to_owned(), ..self }
    }

    /// Sets the verdict, which does not decide about success.
    pub fn verdict(self, verdict: Verdict) -> Row {
        Row { verdict: Some(verdict), ..self }
    }

    /// Requires that the figures agree to the last published digit.
    pub fn must_agree(self) -> Row {
        let verdict = if self.agrees() { Verdict::Exact } else { Verdict::Differs };
        Row { verdict: Some(verdict), expected: Some(Verdict::Exact), ..self }
    }

    /// Sets the verdict for a figure that was published from a defect: a defect where the figures differ.
    pub fn may_be_defect(self) -> Row {
        let verdict = if self.agrees() { Verdict::Exact } else { Verdict::Defect };
        Row { verdict: Some(verdict), ..self }
    }

    /// Requires a figure in `range`.
    pub fn must_lie_in(self, low: f64, high: f64) -> Row {
        let inside = self.published.is_some_and(|figure| (low..=high).contains(&figure.as_f64()));
        let verdict = if inside { Verdict::Within } else { Verdict::Differs };
        Row { verdict: Some(verdict), expected: Some(Verdict::Within), spread: Some([low, high]), ..self }
    }

    /// Also requires that our figure is within `tolerance` of the computed mean.
    pub fn must_follow(self, theory: f64, tolerance: f64) -> Row {
        let follows = self.ours.is_some_and(|ours| (ours.as_f64() - theory).abs() <= tolerance);
        let verdict = match self.verdict {
            Some(verdict) if follows => verdict,
            None if follows => Verdict::Within,
            _ => Verdict::Differs,
        };
        Row { verdict: Some(verdict), expected: Some(Verdict::Within), theory: Some(theory), ..self }
    }

    /// Returns whether our figure is the mean of a distribution with a range.
    pub fn is_distribution(&self) -> bool {
        self.spread.is_some() && (self.percentile.is_some() || self.theory.is_some())
    }

    /// Returns whether the verdict is the expected one, if any is.
    pub fn holds(&self) -> bool {
        self.expected.is_none() || self.expected == self.verdict
    }

    fn agrees(&self) -> bool {
        match (self.published, self.ours) {
            (Some(Figure::Count(left)), Some(Figure::Count(right))) => left == right,
            // The reports print four decimals.
            (Some(left), Some(right)) => format!("{:.4}", left.as_f64()) == format!("{:.4}", right.as_f64()),
            _ => false,
        }
    }
}

impl Figure {
    /// Returns the figure as a floating-point number.
    pub fn as_f64(self) -> f64 {
        match self {
            Figure::Count(count) => count as f64,
            Figure::Real(real) => real,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(published: Figure, ours: Figure) -> Row {
        Row::new("000", "t", "r", "c", "count").published(published).ours(ours)
    }

    #[test]
    fn agreement_is_to_the_digits_published() {
        assert!(row(Figure::Real(5.3333), Figure::Real(16.0 / 3.0)).must_agree().holds());
        assert!(!row(Figure::Real(5.3333), Figure::Real(5.3334)).must_agree().holds());
        assert!(!row(Figure::Count(1), Figure::Count(2)).must_agree().holds());
        assert_eq!(row(Figure::Count(1), Figure::Count(2)).may_be_defect().verdict, Some(Verdict::Defect));
    }

    #[test]
    fn a_figure_outside_its_range_fails() {
        assert!(row(Figure::Real(2.0), Figure::Real(1.0)).must_lie_in(1.0, 3.0).holds());
        assert!(!row(Figure::Real(4.0), Figure::Real(1.0)).must_lie_in(1.0, 3.0).holds());
    }

    #[test]
    fn a_mean_far_from_the_computed_one_fails_whatever_was_published() {
        let inside = || row(Figure::Real(2.0), Figure::Real(1.0)).must_lie_in(1.0, 3.0);
        assert!(inside().must_follow(1.25, 0.25).holds());
        assert!(!inside().must_follow(1.5, 0.25).holds());
        let outside = row(Figure::Real(4.0), Figure::Real(1.0)).must_lie_in(1.0, 3.0);
        assert!(!outside.must_follow(1.0, 0.25).holds());
    }
}
