//! Conditions under which a comparison has failed, as in `peak of mimalloc > 1.05x`.
//!
//! ```text
//! condition = metric [ "of" row ] ( ">" | ">=" | "<" | "<=" ) number [ unit ] [ [ "of" ] reference ]
//! unit      = "x" | "%" | "ns" | "us" | "ms" | "s" | "B" | "KiB" | "MiB" | "GiB"
//! reference = "asked" | "baseline" | row                      (behind "x" only)
//! row       = a name without spaces, or any name in quotation marks
//! ```

use super::metric::{Metric, Unit};
use heapwright_show::number::{parse_bytes, parse_duration};

/// A condition as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The text.
    pub text: String,
    /// Which figure.
    pub metric: Metric,
    /// The row that it names, if any.
    pub row: Option<Name>,
    /// How it compares when the condition holds.
    pub operator: Operator,
    /// What it is compared with.
    pub limit: Limit,
}

/// A name in a condition, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Bytes from the beginning of the condition.
    pub at: usize,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

/// What a figure is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// A figure of the same unit: bytes, seconds, a share from 0 to 1, a number.
    Figure(f64),
    /// So many times something.
    Times(f64, Option<Name>),
}

impl Operator {
    /// Returns whether `left` compares so with `right`.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Operator::Above => left > right,
            Operator::AtLeast => left >= right,
            Operator::Below => left < right,
            Operator::AtMost => left <= right,
        }
    }
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong, below a copy of the text and a mark at the place.
    pub fn parse(text: &str) -> Result<Condition, String> {
        Parser { text, at: 0 }.condition().map_err(|(at, what)| point(text, at, &what))
    }
}

/// Returns a message that points at a place of a text.
pub fn point(text: &str, at: usize, what: &str) -> String {
    let before = text.get(..at).unwrap_or(text).chars().count();
    format!("{what}\n\n  {text}\n  {:before$}^", "")
}

/// Where something is wrong, and what.
type Fault = (usize, String);

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn condition(mut self) -> Result<Condition, Fault> {
        let metric = self.metric()?;
        let row = if self.word("of") { Some(self.name("a row")?) } else { None };
        let operator = self.operator()?;
        let limit = self.limit(metric.unit())?;
        match self.rest() {
            "" => Ok(Condition { text: self.text.to_owned(), metric, row, operator, limit }),
            _ => Err((self.at, "nothing may follow here".to_owned())),
        }
    }

    /// Returns what has not been read, without the spaces in front of it.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    /// Reads what `belongs` at the front.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Reads `word` if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let before = self.at;
        let found = self.take(is_of_a_name) == word;
        if !found {
            self.at = before;
        }
        found
    }

    fn metric(&mut self) -> Result<Metric, Fault> {
        self.rest();
        let at = self.at;
        let name = self.take(is_of_a_name);
        Metric::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = Metric::ALL.map(Metric::name).to_vec();
            (at, format!("a condition begins with a figure, one of {}", names.join(", ")))
        })
    }

    fn name(&mut self, what: &str) -> Result<Name, Fault> {
        let quoted = self.rest().strip_prefix('"');
        let at = self.at;
        if let Some(quoted) = quoted {
            let end = quoted.find('"').ok_or((at, "the quotation mark is not closed".to_owned()))?;
            self.at += end + 2;
            return Ok(Name { name: quoted[..end].to_owned(), at });
        }
        match self.take(is_of_a_name) {
            "" => Err((at, format!("here {what} is named, as in `of mimalloc`"))),
            name => Ok(Name { name: name.to_owned(), at }),
        }
    }

    fn operator(&mut self) -> Result<Operator, Fault> {
        self.rest();
        let at = self.at;
        match self.take(|c| "<>=".contains(c)) {
            ">" => Ok(Operator::Above),
            ">=" => Ok(Operator::AtLeast),
            "<" => Ok(Operator::Below),
            "<=" => Ok(Operator::AtMost),
            _ => Err((at, "here >, >=, < or <= is expected".to_owned())),
        }
    }

    fn limit(&mut self, unit: Unit) -> Result<Limit, Fault> {
        self.rest();
        let at = self.at;
        let number = self.take(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.parse().map_err(|_| (at, "here a number is expected, as in 1.05x".to_owned()))?;
        self.rest();
        let at = self.at;
        let written = self.take(|c| c.is_alphabetic() || c == '%');
        if written == "x" {
            let of = self.word("of");
            let reference =
                if of || !self.rest().is_empty() { Some(self.name("what it is compared with")?) } else { None };
            return Ok(match (unit, reference) {
                // The figure is a ratio itself.
                (Unit::Ratio, None) => Limit::Figure(number),
                (_, reference) => Limit::Times(number, reference),
            });
        }
        let scale =
            scale(unit, written).ok_or_else(|| (at, format!("such a figure is compared with {}", forms(unit))))?;
        Ok(Limit::Figure(number * scale))
    }
}

fn is_of_a_name(c: char) -> bool {
    !c.is_whitespace() && !"<>=\"".contains(c)
}

/// Returns what a number of `written` is in a figure's own unit; `None` when it is none. Sizes and times have the units
/// that options have. A number without one is more likely a forgotten `x`.
fn scale(unit: Unit, written: &str) -> Option<f64> {
    let one = format!("1{}", written.replace(['µ', 'μ'], "u"));
    match (unit, written) {
        (Unit::Seconds | Unit::Bytes, "") => None,
        (Unit::Seconds, _) => parse_duration(&one).ok().map(|unit| unit.as_secs_f64()),
        (Unit::Bytes, _) => parse_bytes(&one).ok().map(|unit| unit as f64),
        (Unit::Share, "%") => Some(0.01),
        (Unit::Count | Unit::Ratio, "") => Some(1.0),
        _ => None,
    }
}

fn forms(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "a time (ns, us, ms, s) or a ratio, as in 20ms or 1.2x",
        Unit::Bytes => "a size (B, KiB, MiB, GiB) or a ratio, as in 64MiB or 1.05x",
        Unit::Share => "a percentage or a ratio, as in 30% or 1.1x",
        Unit::Count => "a number or a ratio, as in 1000 or 1.1x",
        Unit::Ratio => "a ratio, as in 1.05x",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str, at: usize) -> Option<Name> {
        Some(Name { name: name.to_owned(), at })
    }

    fn parts(text: &str) -> (Metric, Option<Name>, Operator, Limit) {
        let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(condition.text, text);
        (condition.metric, condition.row, condition.operator, condition.limit)
    }

    #[test]
    fn conditions_are_read_with_and_without_spaces() {
        assert_eq!(parts("peak>1.05x"), (Metric::Peak, None, Operator::Above, Limit::Times(1.05, None)));
        assert_eq!(parts(" peak  >  1.05 x "), (Metric::Peak, None, Operator::Above, Limit::Times(1.05, None)));
        assert_eq!(
            parts("time of best>=1.2x of system"),
            (Metric::Time, name("best", 8), Operator::AtLeast, Limit::Times(1.2, name("system", 22)))
        );
        assert_eq!(
            parts("time of \"system (A/A)\" < 2x baseline"),
            (Metric::Time, name("system (A/A)", 8), Operator::Below, Limit::Times(2.0, name("baseline", 28)))
        );
    }

    #[test]
    fn limits_are_in_the_unit_of_their_figure() {
        let limit = |text: &str| parts(text).3;
        assert_eq!(limit("external > 30%"), Limit::Figure(30.0 * 0.01));
        assert_eq!(limit("peak <= 2 MiB"), Limit::Figure(2.0 * 1024.0 * 1024.0));
        assert_eq!(limit("p99 > 500ns"), Limit::Figure(500.0 * 1e-9));
        assert_eq!(limit("p99 > 1.5µs"), Limit::Figure(1.5 * 1e-6));
        assert_eq!(limit("time > 2min"), Limit::Figure(120.0));
        assert_eq!(limit("program-time > 2s"), Limit::Figure(2.0));
        assert_eq!(limit("program-peak of mine > 1.5g"), Limit::Figure(1.5 * 1024.0 * 1024.0 * 1024.0));
        assert_eq!(limit("holes > 100"), Limit::Figure(100.0));
        assert_eq!(limit("heap/asked > 1.1x"), Limit::Figure(1.1));
        assert_eq!(limit("heap/asked > 1.1"), Limit::Figure(1.1));
        assert_eq!(limit("heap/asked > 1.1x baseline"), Limit::Times(1.1, name("baseline", 18)));
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        for (text, at, says) in [
            ("", 0, "begins with a figure"),
            ("speed > 1x", 0, "begins with a figure"),
            ("peak", 4, ">, >=, < or <="),
            ("peak = 1x", 5, ">, >=, < or <="),
            ("peak > x", 7, "a number"),
            ("peak > 1.2.3x", 7, "a number"),
            ("peak > 30%", 9, "a size"),
            ("external > 3MiB", 12, "a percentage"),
            ("time > 3", 8, "a time"),
            ("peak of > 1x", 8, "a row is named"),
            ("peak of \"a > 1x", 8, "not closed"),
            ("peak > 1x of", 12, "what it is compared with is named"),
            ("peak > 1x of a b", 15, "nothing may follow"),
            ("peak > 1MiB of a", 12, "nothing may follow"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            let lines: Vec<&str> = error.lines().collect();
            assert!(error.contains(says), "{text}: {error}");
            assert_eq!(lines[lines.len() - 2], format!("  {text}"));
            assert_eq!(lines[lines.len() - 1], format!("  {}^", " ".repeat(at)), "{text}: {error}");
        }
    }

    #[test]
    fn the_mark_stands_below_its_place_whatever_the_alphabet() {
        assert!(Condition::parse("größe > 1x").unwrap_err().ends_with("  größe > 1x\n  ^"));
        assert!(Condition::parse("time > 3 größe").unwrap_err().ends_with("\n           ^"));
    }
}
