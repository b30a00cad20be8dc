//! One published figure beside ours.

use serde::Serialize;

/// A figure: a count keeps every digit, a measurement does not have them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// An exact whole number.
    Count(u64),
    /// Anything else.
    Real(f64),
}

/// How ours compares with what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The same, to the last published digit.
    Exact,
    /// Not the same by its nature (a time, a draw at random), but in the range that it has to be in.
    Within,
    /// Not the same; the note says why.
    Differs,
    /// Not the same, because the published figure came from a defect of the program that was measured.
    Defect,
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Within => "within",
            Verdict::Differs => "differs",
            Verdict::Defect => "defect",
        }
    }
}

/// One cell of a published table, or one of ours that belongs beside it.
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
    /// What both figures are in: `count`, `bytes`, `percent`, `seconds` or `ratio`.
    pub unit: &'static str,
    /// The published figure, if there is one.
    pub published: Option<Figure>,
    /// Our figure; none when it could not be had.
    pub ours: Option<Figure>,
    /// For what was measured several times: where a quarter of our measurements lies below, and a quarter above. For
    /// what is drawn at random: where 99 % of ours lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
    /// The percentile at which the published figure lies among ours, for what is a distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentile: Option<f64>,
    /// What ours is on average by computation, for what is a distribution that can be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<f64>,
    /// How they compare; none when there is nothing to compare.
    pub verdict: Option<Verdict>,
    /// One sentence on what the figures are, or why they differ.
    pub note: String,
    /// What the verdict has to be for the command to succeed, if it has to be anything.
    #[serde(skip)]
    pub expected: Option<Verdict>,
}

impl Row {
    /// An empty row at this place of a table.
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

    /// With this published figure.
    pub fn published(self, figure: Figure) -> Row {
        Row { published: Some(figure), ..self }
    }

    /// With this figure of ours.
    pub fn ours(self, figure: Figure) -> Row {
        Row { ours: Some(figure), ..self }
    }

    /// With this note.
    pub fn note(self, note: &str) -> Row {
        Row { note: note.to_owned(), ..self }
    }

    /// With this verdict, which nothing depends on.
    pub fn verdict(self, verdict: Verdict) -> Row {
        Row { verdict: Some(verdict), ..self }
    }

    /// Judges the two figures: they have to agree to the digits published.
    pub fn must_agree(self) -> Row {
        let verdict = if self.agrees() { Verdict::Exact } else { Verdict::Differs };
        Row { verdict: Some(verdict), expected: Some(Verdict::Exact), ..self }
    }

    /// Judges a figure that was published from a defect: it is one where the two figures differ.
    pub fn may_be_defect(self) -> Row {
        let verdict = if self.agrees() { Verdict::Exact } else { Verdict::Defect };
        Row { verdict: Some(verdict), ..self }
    }

    /// Judges a figure that must lie in `range`.
    pub fn must_lie_in(self, low: f64, high: f64) -> Row {
        let inside = self.published.is_some_and(|figure| (low..=high).contains(&figure.as_f64()));
        let verdict = if inside { Verdict::Within } else { Verdict::Differs };
        Row { verdict: Some(verdict), expected: Some(Verdict::Within), spread: Some([low, high]), ..self }
    }

    /// Judges our figure, too: it must lie within `tolerance` of what was computed.
    pub fn must_follow(self, theory: f64, tolerance: f64) -> Row {
        let follows = self.ours.is_some_and(|ours| (ours.as_f64() - theory).abs() <= tolerance);
        let verdict = match self.verdict {
            Some(verdict) if follows => verdict,
            None if follows => Verdict::Within,
            _ => Verdict::Differs,
        };
        Row { verdict: Some(verdict), expected: Some(Verdict::Within), theory: Some(theory), ..self }
    }

    /// Whether ours is a sample of a distribution, of which a mean and a range are given.
    pub fn is_distribution(&self) -> bool {
        self.spread.is_some() && (self.percentile.is_some() || self.theory.is_some())
    }

    /// Whether the verdict is what it has to be.
    pub fn holds(&self) -> bool {
        self.expected.is_none() || self.expected == self.verdict
    }

    fn agrees(&self) -> bool {
        match (self.published, self.ours) {
            (Some(Figure::Count(left)), Some(Figure::Count(right))) => left == right,
            // Four decimals are what the reports print.
            (Some(left), Some(right)) => format!("{:.4}", left.as_f64()) == format!("{:.4}", right.as_f64()),
            _ => false,
        }
    }
}

impl Figure {
    /// The figure as a floating-point number.
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
