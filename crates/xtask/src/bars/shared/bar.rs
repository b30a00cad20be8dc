//! A bar of the heap that processes share.

use std::collections::BTreeMap;

use heapwright_show::number;
use serde::Serialize;

/// A bar and the measured figures.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    pub what: String,
    /// The maximal allowed value; the minimal one where `bound` says so.
    pub limit: f64,
    pub bound: Bound,
    pub unit: &'static str,
    /// The measured value; the worst of several. Null when one is missing.
    pub value: Option<f64>,
    /// The allocator with this value.
    pub subject: Option<String>,
    /// Other figures, which do not decide.
    pub others: BTreeMap<&'static str, Option<f64>>,
    pub holds: Option<bool>,
}

/// Which side of its limit a value must be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost,
    AtLeast,
}

impl Bar {
    /// Judges several figures, of which the largest decides. The bar is open when one is missing.
    pub fn of(what: String, limit: f64, unit: &'static str, figures: &[(String, Option<f64>)]) -> Bar {
        let known: Option<Vec<(&String, f64)>> = figures.iter().map(|(name, value)| Some((name, (*value)?))).collect();
        let worst = known.and_then(|known| known.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)));
        Bar {
            what,
            limit,
            bound: Bound::AtMost,
            unit,
            value: worst.map(|(_, value)| value),
            subject: worst.map(|(name, _)| name.clone()),
            others: BTreeMap::new(),
            holds: worst.map(|(_, value)| value <= limit),
        }
    }

    /// Judges a figure that must not be below `limit`.
    pub fn at_least(what: String, limit: f64, unit: &'static str, (name, value): (String, Option<f64>)) -> Bar {
        let holds = value.map(|value| value >= limit);
        Bar { bound: Bound::AtLeast, holds, ..Bar::of(what, limit, unit, &[(name, value)]) }
    }

    pub fn cells(&self) -> [String; 5] {
        let verdict = match self.holds {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "not measured",
        };
        let unit = match self.unit {
            "percent" => " %",
            "us" => " us",
            _ => "",
        };
        let bound = match self.bound {
            Bound::AtMost => "<=",
            Bound::AtLeast => ">=",
        };
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| number::short(value) + unit);
        let subject = self.subject.as_ref().map_or_else(String::new, |subject| format!("{subject} "));
        let others: Vec<String> = self.others.iter().map(|(name, value)| format!("{name} {}", show(*value))).collect();
        [
            self.what.clone(),
            format!("{bound} {}{unit}", self.limit),
            subject + &show(self.value),
            verdict.to_owned(),
            others.join(", "),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_and_a_missing_one_leaves_it_open() {
        let least = |value| Bar::at_least("b".to_owned(), 1.0, "ratio", ("x".to_owned(), Some(value))).holds;
        assert_eq!((least(0.9), least(1.0)), (Some(false), Some(true)));
        let figure = |value| ("x".to_owned(), value);
        let holds = |values: [Option<f64>; 2]| Bar::of("b".to_owned(), 1.0, "ratio", &values.map(figure)).holds;
        assert_eq!(holds([Some(0.5), Some(1.0)]), Some(true));
        assert_eq!(holds([Some(0.5), Some(1.1)]), Some(false));
        assert_eq!(holds([Some(0.5), None]), None);
    }
}
