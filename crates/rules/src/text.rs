//! The text form: names and `key=value`, separated by commas or ends of lines; `#` begins a comment.

use core::fmt::{self, Display, Formatter};

use heapwright_placement::Growth;

use crate::{Invalid, NAMES, Only, RuleSet, Zero, named};

/// What is wrong with a text of rules, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextError<'t> {
    /// The line, from 1; of rules that are wrong together, the first one from which on they are.
    pub line: usize,
    /// The item as it was written; empty if all of them together are wrong.
    pub item: &'t str,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is no name and no rule.
    Unknown,
    /// The rule has no such value.
    Value {
        /// The values that it has.
        valid: &'static str,
    },
    /// An earlier item sets the same rule, and no name between them replaces it.
    Twice,
    /// The rules are invalid together.
    Invalid(Invalid),
}

impl Display for TextError<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Unknown => {
                write!(f, "{} is no rule: there are {} and {}", self.item, Names(&NAMES), Names(&KEYS))
            }
            Reason::Twice => write!(f, "{}: an earlier item sets this rule: leave one of them out", self.item),
            Reason::Value { valid } => write!(f, "{}: the value must be {valid}", self.item),
            Reason::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

impl core::error::Error for TextError<'_> {}

/// Names with commas between them.
struct Names<'n>(&'n [&'n str]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The rules, as they are written before their values.
const KEYS: [&str; 12] = [
    "granule=",
    "header=",
    "align=",
    "min-remainder=",
    "growth=",
    "least=",
    "zero=",
    "limit=",
    "merging=",
    "split=",
    "rover=",
    "worst=",
];

impl RuleSet {
    /// Reads rules that differ from `base`. A name replaces all that comes before it.
    ///
    /// # Errors
    /// The first item that is wrong, or that the rules are invalid together.
    pub fn from_text(text: &str, base: RuleSet) -> Result<RuleSet, TextError<'_>> {
        let set = RuleSet::read(text, base)?;
        match set.validate() {
            Ok(()) => Ok(set),
            Err(invalid) => Err(RuleSet::conflict(text, base, invalid)),
        }
    }

    /// Returns the error for rules that are `invalid` together, with the first line from which on they are.
    fn conflict(text: &str, base: RuleSet, invalid: Invalid) -> TextError<'_> {
        let (mut line, mut was_invalid) = (1, false);
        // Each item was read before.
        let _ = RuleSet::read_each(text, base, |at, set| {
            let is_invalid = set.validate() == Err(invalid);
            if is_invalid && !was_invalid {
                line = at;
            }
            was_invalid = is_invalid;
        });
        TextError { line, item: "", reason: Reason::Invalid(invalid) }
    }

    /// As [`RuleSet::from_text`], without the check that the rules are valid together: more may follow.
    ///
    /// # Errors
    /// The first item that is wrong.
    pub fn read(text: &str, base: RuleSet) -> Result<RuleSet, TextError<'_>> {
        RuleSet::read_each(text, base, |_, _| ())
    }

    /// As [`RuleSet::read`], and passes the rules as they are behind each item, with its line, to `visit`.
    fn read_each(text: &str, base: RuleSet, mut visit: impl FnMut(usize, &RuleSet)) -> Result<RuleSet, TextError<'_>> {
        let (mut set, mut named) = (base, [false; KEYS.len()]);
        for (line, rules) in (1..).zip(text.lines()) {
            let rules = rules.split('#').next().unwrap_or_default();
            for item in rules.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                set.take(item, &mut named).map_err(|reason| TextError { line, item, reason })?;
                visit(line, &set);
            }
        }
        Ok(set)
    }

    /// Takes over an item; `keys` are those that were set before.
    fn take(&mut self, item: &str, keys: &mut [bool; KEYS.len()]) -> Result<(), Reason> {
        let Some((key, value)) = item.split_once('=') else {
            *self = named(item).ok_or(Reason::Unknown)?;
            *keys = [false; KEYS.len()];
            return Ok(());
        };
        let (key, value) = (key.trim(), value.trim());
        let at = KEYS.iter().position(|known| known.strip_suffix('=') == Some(key)).ok_or(Reason::Unknown)?;
        if core::mem::replace(&mut keys[at], true) {
            return Err(Reason::Twice);
        }
        match key {
            "granule" => self.rules.granule = short_size(value)?,
            "header" => self.rules.header = short_size(value)?,
            "align" => self.requests.align = short_size(value)?,
            "min-remainder" => self.rules.min_remainder = short_size(value)?,
            "least" => self.requests.least = short_size(value)?,
            "limit" => self.limit = Some(size(value).ok_or(Reason::Value { valid: SIZE })?),
            "growth" => self.rules.growth = growth(value)?,
            "zero" => {
                self.requests.zero = match value {
                    "null" => Zero::Null,
                    "block" => Zero::Block,
                    _ => return Err(Reason::Value { valid: "null or block" }),
                }
            }
            key => {
                let reason = |valid: Option<_>| valid.map_or(Reason::Unknown, |valid| Reason::Value { valid });
                return self.odd.take(key, value).map_err(reason);
            }
        }
        Ok(())
    }
}

/// Reads a rule of growth.
fn growth(value: &str) -> Result<Growth, Reason> {
    const RULES: Reason = Reason::Value { valid: "append, extend, fixed or pages:BYTES" };
    match (value, value.strip_prefix("pages:")) {
        ("append", _) => Ok(Growth::Append),
        ("extend", _) => Ok(Growth::Extend),
        ("fixed", _) => Ok(Growth::Fixed),
        (_, Some(pages)) if size(pages).is_some() => short_size(pages).map(Growth::Pages),
        _ => Err(RULES),
    }
}

/// What a number of bytes must be.
const SIZE: &str = "a number of bytes, or of KiB, MiB, GiB, as in 64KiB";

/// Reads a number of bytes below 4 GiB.
fn short_size(value: &str) -> Result<u32, Reason> {
    let bytes = size(value).ok_or(Reason::Value { valid: SIZE })?;
    u32::try_from(bytes).map_err(|_| Reason::Value { valid: "less than 4 GiB" })
}

/// Reads a number of bytes.
fn size(value: &str) -> Option<u64> {
    let digits = value.len() - value.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, unit) = value.split_at(digits);
    let power = match unit.trim() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << power)
}

/// A rule of growth as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthText(pub Growth);

impl Display for GrowthText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Growth::Fixed => f.write_str("fixed"),
            Growth::Append => f.write_str("append"),
            Growth::Extend => f.write_str("extend"),
            Growth::Pages(bytes) => write!(f, "pages:{bytes}"),
        }
    }
}

impl Display for RuleSet {
    /// Writes all rules, so that [`RuleSet::from_text`] reads them over any base without a limit; a policy that they
    /// belong to by the name of its set.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let first = match self.only {
            None => "",
            Some(Only::Policy(_)) => "report002,",
            Some(Only::Mapped) => "report004,",
        };
        let rules = &self.rules;
        let requests = &self.requests;
        write!(f, "{first}granule={},header={},align={}", rules.granule, rules.header, requests.align)?;
        write!(f, ",min-remainder={},growth={}", rules.min_remainder, GrowthText(rules.growth))?;
        write!(f, ",least={},zero={}", requests.least, requests.zero.name())?;
        write!(f, "{}", self.odd)?;
        self.limit.map_or(Ok(()), |limit| write!(f, ",limit={limit}"))
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::Requests;
    use crate::published::REPORT003;

    #[test]
    fn every_named_set_is_read_back_from_its_own_text() {
        for name in NAMES {
            let set = RuleSet::read(name, RuleSet::USUAL).unwrap();
            let text = set.to_string();
            assert_eq!(RuleSet::read(&text, RuleSet::SIMULATED), Ok(set), "{text}");
        }
        for set in [RuleSet::USUAL, RuleSet::SIMULATED] {
            assert_eq!(
                RuleSet::from_text(&set.to_string(), named("report003").unwrap()).map(|read| read.rules),
                Ok(set.rules)
            );
        }
    }

    #[test]
    fn every_odd_rule_is_read_back_from_its_own_text() {
        for merging in ["both", "forward", "deferred"] {
            for split in ["low", "high"] {
                for rover in ["wraps", "never-wraps", "freed"] {
                    for worst in ["largest", "never-exact"] {
                        let text = std::format!("merging={merging},split={split},rover={rover},worst={worst}");
                        let set = RuleSet::from_text(&text, RuleSet::USUAL).unwrap();
                        assert_eq!(RuleSet::from_text(&set.to_string(), RuleSet::USUAL), Ok(set), "{text}");
                        let usual = text == "merging=both,split=low,rover=wraps,worst=largest";
                        assert_eq!(set.odd.reason().is_none(), usual, "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn files_have_lines_comments_and_spaces() {
        let text = "# a pool\nreport003\n  header = 8   # shorter\n\ngrowth=pages:4KiB, limit = 2 MiB\n";
        let set = RuleSet::from_text(text, RuleSet::USUAL).unwrap();
        assert_eq!(set.rules.header, 8);
        assert_eq!(set.rules.growth, Growth::Pages(4096));
        assert_eq!((set.rules.granule, set.limit), (REPORT003.rules.granule, Some(2 << 20)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, message) in [
            (
                "report005",
                "report005 is no rule: there are report000, report001, report002, report003, report004 and \
                granule=, header=, align=, min-remainder=, growth=, least=, zero=, limit=, merging=, split=, rover=, worst=",
            ),
            ("granule=4\nheader=x", "header=x: the value must be a number of bytes, or of KiB, MiB, GiB, as in 64KiB"),
            ("growth=slow", "growth=slow: the value must be append, extend, fixed or pages:BYTES"),
            ("growth=pages:", "growth=pages:: the value must be append, extend, fixed or pages:BYTES"),
            ("growth=pages:1TiB", "growth=pages:1TiB: the value must be less than 4 GiB"),
            ("header=4GiB", "header=4GiB: the value must be less than 4 GiB"),
            ("zero=1", "zero=1: the value must be null or block"),
            ("merging=back", "merging=back: the value must be both, forward or deferred"),
            ("split=", "split=: the value must be low or high"),
            ("rover=1", "rover=1: the value must be wraps, never-wraps or freed"),
            ("worst=best", "worst=best: the value must be largest or never-exact"),
            ("limit=15", "the heap is too short: the least that holds a block is 16 bytes"),
            ("least=200, header=16, limit=223", "the heap is too short: the least that holds a block is 224 bytes"),
            ("report000, limit=27", "the heap is too short: the least that holds a block is 28 bytes"),
            ("granule=4, header=8\ngranule=8", "granule=8: an earlier item sets this rule: leave one of them out"),
            ("split=low,split=low", "split=low: an earlier item sets this rule: leave one of them out"),
            ("report001", "a heap that does not grow needs a length: limit=BYTES"),
            ("align=24", "the alignment must be a power of two up to 4096"),
            (
                "limit=99999999999GiB",
                "limit=99999999999GiB: the value must be a number of bytes, or of KiB, MiB, GiB, as in 64KiB",
            ),
        ] {
            assert_eq!(RuleSet::from_text(text, RuleSet::USUAL).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_conflict_is_on_the_line_from_which_on_the_rules_are_invalid_together() {
        for (text, line) in [
            ("granule=32\nzero=null\n\nlimit=20\nleast=4", 4),
            ("limit=20\n# longer\ngranule=32", 3),
            ("growth=fixed\nheader=16\nlimit=8\nleast=4", 3),
            ("header=32\ngranule=64, least=4\nzero=null", 2),
            ("header=8\ngranule=8\nalign=24\nleast=2", 3),
            ("header=8\nreport001\nleast=4", 2),
        ] {
            let error = RuleSet::from_text(text, RuleSet::USUAL).unwrap_err();
            assert!(matches!(error.reason, Reason::Invalid(_)), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }

    #[test]
    fn requests_of_nothing_and_of_little() {
        let null = named("report000").unwrap();
        let null = null.requests;
        assert_eq!((null.bytes(0), null.bytes(1), null.bytes(500)), (None, Some(1), Some(500)));
        let least = named("report002").unwrap();
        let least = least.requests;
        assert_eq!((least.bytes(1), least.bytes(200)), (Some(112), Some(200)));
        assert_eq!((least.align(1), Requests { align: 8, ..least }.align(1)), (1, 8));
        assert_eq!(RuleSet::USUAL.requests.bytes(0), Some(0));
    }
}
