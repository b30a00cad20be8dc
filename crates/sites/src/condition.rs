//! Conditions of `heapwright diff --fail-if`, as in `leaked > +1MiB`.

use std::fmt;

use heapwright_show::number::{bytes, grouped, parse_bytes};

use crate::tally::{Measure, Tally};

/// The form that conditions have.
const FORM: &str =
    "a condition is MEASURE > LIMIT, as in `leaked > +1MiB`, `peak > +5%`, `calls > 1.1x` or `peak > 2GiB`";

/// A condition on the totals of two recordings.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    measure: Measure,
    limit: Limit,
}

/// What a measure must exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// This value after.
    Value(u64),
    /// This much more than before.
    Growth(u64),
    /// This multiple of what was before.
    Ratio(f64),
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// A description of the expected form.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let (name, limit) = text.split_once('>').ok_or(FORM)?;
        let measure = match name.trim() {
            "peak" => Measure::Held,
            name => Measure::ALL.into_iter().find(|measure| measure.name() == name).ok_or_else(|| {
                let names: Vec<&str> = Measure::ALL.into_iter().map(Measure::name).collect();
                format!("there is no measure `{name}`; there are peak, {}", names.join(", "))
            })?,
        };
        let limit = limit.trim();
        let limit = Limit::parse(limit).ok_or_else(|| {
            let size = limit.trim_start_matches('+').trim_start();
            // A number with another unit, as in 500KB.
            let is_size = size.starts_with(|c: char| c.is_ascii_digit()) && !size.ends_with(['%', 'x']);
            parse_bytes(size).err().filter(|_| is_size).unwrap_or_else(|| FORM.to_owned())
        })?;
        Ok(Condition { text: text.trim().to_owned(), measure, limit })
    }

    /// Returns what the condition limits.
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// Returns whether the limit depends on the earlier recording.
    pub fn is_relative(&self) -> bool {
        !matches!(self.limit, Limit::Value(_))
    }

    /// Returns why the condition holds of these totals; `None` if it does not hold.
    pub fn holds(&self, before: &Tally, after: &Tally) -> Option<String> {
        let (before, after) = (self.measure.of(before), self.measure.of(after));
        let holds = match self.limit {
            Limit::Value(limit) => after > limit,
            Limit::Growth(limit) => after > before.saturating_add(limit),
            Limit::Ratio(limit) => after as f64 > before as f64 * limit,
        };
        let show = |value| if self.measure.is_bytes() { bytes(value) } else { grouped(value) };
        holds.then(|| format!("`{self}` holds: {} before, {} after", show(before), show(after)))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Limit {
    fn parse(text: &str) -> Option<Limit> {
        let factor =
            |digits: &str| digits.trim().parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
        let value = |text: &str| Some(parse_bytes(text.trim()).ok()? as u64);
        match text.strip_prefix('+') {
            Some(growth) => match growth.strip_suffix('%') {
                Some(percent) => Some(Limit::Ratio(1.0 + factor(percent)? / 100.0)),
                None => value(growth).map(Limit::Growth),
            },
            None => match text.strip_suffix('x') {
                Some(ratio) => factor(ratio).map(Limit::Ratio),
                None => value(text).map(Limit::Value),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(live: u64) -> Tally {
        let mut tally = Tally::default();
        tally.live.add(live);
        tally
    }

    #[test]
    fn conditions_hold_above_their_limit_only() {
        for (text, before, at, above) in [
            ("leaked > +1MiB", 5, (1 << 20) + 5, (1 << 20) + 6),
            ("leaked>+0", 5, 5, 6),
            ("leaked > 1KiB", 5000, 1024, 1025),
            ("leaked > +50%", 100, 150, 151),
            ("leaked > 1.5x", 100, 150, 151),
        ] {
            let condition = Condition::parse(text).unwrap();
            assert_eq!(condition.holds(&totals(before), &totals(at)), None, "{text}");
            let why = condition.holds(&totals(before), &totals(above)).unwrap();
            assert!(why.starts_with(&format!("`{text}` holds: ")), "{why}");
        }
        let why = Condition::parse("calls > 0").unwrap().holds(&totals(1), &totals(1));
        assert_eq!(why, None);
    }

    #[test]
    fn other_forms_are_refused() {
        for text in
            ["", "leaked", "leaked < 5", "> 5", "leaks > 5", "leaked > x", "leaked > +x%", "peak > nanx", "peak >"]
        {
            assert!(Condition::parse(text).is_err(), "{text}");
        }
        for text in ["peak > 500KB", "peak > +0.5mb"] {
            assert!(Condition::parse(text).unwrap_err().contains("KiB"), "{text}");
        }
        assert!(Condition::parse("leaks > 5").unwrap_err().contains("peak, held, leaked"));
    }
}
