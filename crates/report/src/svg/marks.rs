//! Where the marks of an axis stand and what is written there: as on the page, by the constants of `assets/chart.json`.
//!
//! `assets/scales.js`, `assets/time.js` and `assets/text.js` compute the same for the page; a test below runs both.

use std::sync::LazyLock;

use serde::Deserialize;

use heapwright_show::number;

/// What the page and the pictures have in common.
pub static CHART: LazyLock<Chart> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../assets/chart.json")).expect("chart.json has the form of `Chart`")
});

/// The contents of `assets/chart.json`.
#[derive(Deserialize)]
pub struct Chart {
    /// The end of an axis upwards, over the largest value.
    pub headroom: f64,
    /// About how many steps there are between marks.
    pub marks: Steps,
    /// A step of decimal marks is a power of ten times one of these, in ascending order.
    factors: Vec<f64>,
    counts: Counts,
    times: Times,
}

/// About how many steps an axis has.
#[derive(Deserialize)]
pub struct Steps {
    pub upwards: f64,
    pub across: f64,
}

#[derive(Deserialize)]
struct Counts {
    /// Smaller numbers are written out.
    grouped_below: u64,
    /// The names of the powers of 1000.
    powers: Vec<String>,
}

/// All but `second` and `units`, which are in nanoseconds, are in seconds.
#[derive(Deserialize)]
struct Times {
    second: f64,
    /// Units and their names, the longest first.
    units: Vec<(f64, String)>,
    /// Up to this step, steps are decimal.
    decimal_to_seconds: f64,
    /// Longer steps, in ascending order; still longer ones are whole days.
    long_steps: Vec<f64>,
    /// From this time on, times are written in minutes and hours.
    long_from_seconds: f64,
    /// Units and their names, the longest first.
    long_units: Vec<(u64, String)>,
}

/// A mark: the value at which it stands, and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at: f64,
    pub text: String,
}

/// What an axis counts.
#[derive(Clone, Copy)]
pub enum Unit {
    Bytes,
    Count,
}

impl Unit {
    /// Returns the marks from 0 to `most`, about as many as `steps`.
    pub fn marks(self, most: f64, steps: f64) -> Vec<Mark> {
        let raw = most / steps;
        let step = match self {
            Unit::Bytes => 2_f64.powi(raw.max(1.0).log2().ceil() as i32),
            Unit::Count => decimal_step(raw),
        };
        multiples(0.0, most, step).map(|at| Mark { at, text: self.write(at as u64) }).collect()
    }

    /// Returns a number as the text of a mark.
    pub fn write(self, number: u64) -> String {
        match self {
            Unit::Bytes => match number::bytes(number).split_once(' ') {
                Some((figure, unit)) => format!("{} {unit}", trimmed(figure)),
                None => number.to_string(),
            },
            Unit::Count => count(number),
        }
    }
}

/// Returns marks between two times in nanoseconds, about as many as `steps`.
pub fn of_times(from: f64, to: f64, steps: f64) -> Vec<Mark> {
    let times = &CHART.times;
    let raw = (to - from) / steps;
    let step = if raw <= times.decimal_to_seconds * times.second {
        decimal_step(raw)
    } else {
        let day = 86_400.0 * times.second;
        let long = times.long_steps.iter().map(|step| step * times.second).find(|&step| step >= raw);
        long.unwrap_or((raw / day).ceil() * day)
    };
    multiples(from, to, step).map(|at| Mark { at, text: time_text(at, step, to) }).collect()
}

/// The least round step that is no shorter than `raw`, and no shorter than 1.
fn decimal_step(raw: f64) -> f64 {
    let least = raw.max(1.0);
    let power = 10_f64.powi(least.log10().floor() as i32);
    CHART.factors.iter().map(|factor| factor * power).find(|&step| step >= least).unwrap_or(least)
}

fn multiples(from: f64, to: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (from / step).ceil() * step;
    std::iter::successors(Some(first), move |at| Some(at + step)).take_while(move |&at| at <= to + step * 1e-9)
}

/// A count in thousands, millions, … where that is shorter.
fn count(number: u64) -> String {
    let Counts { grouped_below, powers } = &CHART.counts;
    if number < *grouped_below {
        return number::grouped(number);
    }
    let power = (number.ilog10() as usize / 3).min(powers.len() - 1);
    let text = number::short(number as f64 / 1000_f64.powi(power as i32));
    format!("{}{}", trimmed(&text), powers[power])
}

/// A number without zeros at the end of its decimals.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// A time as a mark: to the step, in the unit that suits the longest.
fn time_text(time: f64, step: f64, longest: f64) -> String {
    let times = &CHART.times;
    if time == 0.0 {
        return "0".to_owned();
    }
    if longest >= times.long_from_seconds * times.second && step >= times.second {
        return long_time((time / times.second).round() as u64);
    }
    let found = times.units.iter().find(|(unit, _)| longest >= *unit).or(times.units.last());
    let (unit, name) = found.map_or((1.0, ""), |(unit, name)| (*unit, name.as_str()));
    let decimals = (0..10).find(|&decimals| step * 10_f64.powi(decimals) >= unit).unwrap_or(0) as usize;
    format!("{:.decimals$} {name}", time / unit)
}

/// As in "2 min", "1 h 30 min", "3 d 6 h": the longest unit that it has, and the next.
fn long_time(seconds: u64) -> String {
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, name) in &CHART.times.long_units {
        parts.push((left / unit, name));
        left %= unit;
    }
    let written = parts.iter().skip_while(|(count, _)| *count == 0).take(2).filter(|(count, _)| *count > 0);
    written.map(|(count, unit)| format!("{} {unit}", number::grouped(*count))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use serde_json::{Value, json};

    use super::*;

    const SECOND: f64 = 1e9;

    /// The scripts of the page that place marks, and a loop that runs cases.
    const PAGE: &str = concat!(
        "const CHART = ",
        include_str!("../assets/chart.json"),
        ";",
        include_str!("../assets/text.js"),
        include_str!("../assets/scales.js"),
        include_str!("../assets/time.js"),
        r#"
        const written = (marks, form) => marks.map((at) => [at, form(at)]);
        const kinds = {
          bytes: ({ from, to, steps }) => written(byteTicks(from, to, steps), roundBytes),
          count: ({ from, to, steps }) => written(ticks(from, to, steps), count),
          time: ({ from, to, steps }) => timeMarks(from, to, steps).map(({ at, text }) => [at, text]),
          clock: ({ clock, events, event }) => [[new Clock(clock, events).at(event), ""]],
        };
        const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
        console.log(JSON.stringify(cases.map((one) => kinds[one.kind](one))));
        "#
    );

    /// What the page makes of `cases`; `None` where there is nothing to run its scripts.
    fn on_the_page(cases: &[Value]) -> Option<Vec<Vec<(f64, String)>>> {
        let mut node = Command::new("node");
        let Ok(mut child) = node.args(["-e", PAGE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            eprintln!("skipped: the scripts of the page are run by node, which is not installed");
            return None;
        };
        child.stdin.take().unwrap().write_all(&serde_json::to_vec(cases).unwrap()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }

    fn texts(marks: &[Mark]) -> Vec<&str> {
        marks.iter().map(|mark| mark.text.as_str()).collect()
    }

    #[test]
    fn the_page_puts_the_same_marks_at_the_same_places() {
        let Steps { upwards, across } = CHART.marks;
        let mut expected: Vec<Vec<Mark>> = Vec::new();
        let mut cases = Vec::new();
        let mosts =
            (0..52).flat_map(|power| [1_u64 << power, (1 << power) * 3 / 2 + 1]).chain([0, 999, 10_000, 964_600]);
        for most in mosts.map(|most| most as f64) {
            let high = most * CHART.headroom;
            for (kind, unit) in [("bytes", Unit::Bytes), ("count", Unit::Count)] {
                expected.push(unit.marks(high, upwards));
                cases.push(json!({ "kind": kind, "from": 0, "to": high, "steps": upwards }));
            }
            expected.push(Unit::Count.marks(most, across));
            cases.push(json!({ "kind": "count", "from": 0, "to": most, "steps": across }));
            for from in [0.0, (most / 3.0).floor()] {
                expected.push(of_times(from, most, across));
                cases.push(json!({ "kind": "time", "from": from, "to": most, "steps": across }));
            }
        }
        let Some(page) = on_the_page(&cases) else { return };
        for ((case, picture), page) in cases.iter().zip(expected).zip(page) {
            let page: Vec<Mark> = page.into_iter().map(|(at, text)| Mark { at, text }).collect();
            assert_eq!(picture, page, "{case}");
        }
    }

    #[test]
    fn the_page_has_events_at_the_same_times() {
        use crate::line::Clock;
        use crate::svg::across;

        let clock = Clock { width: 10, start: 100, ends: vec![200, 1000, 1100], peak: (15, 300) };
        let events: Vec<f64> = (0..=50).map(|half| f64::from(half) / 2.0).collect();
        let case = |event| json!({ "kind": "clock", "clock": clock, "events": 25, "event": event });
        let Some(page) = on_the_page(&events.iter().map(case).collect::<Vec<_>>()) else { return };
        for (event, page) in events.into_iter().zip(page) {
            let picture = across::time_of(&clock, 25, event);
            assert!((picture - page[0].0).abs() < 1e-9, "{event}: {picture}, {}", page[0].0);
        }
    }

    #[test]
    fn marks_are_round_and_few() {
        let places = |unit: Unit, most: f64| unit.marks(most, 6.0).iter().map(|mark| mark.at).collect::<Vec<f64>>();
        assert_eq!(places(Unit::Count, 0.0), [0.0]);
        assert_eq!(places(Unit::Count, 7.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(places(Unit::Count, 964_600.0), [0.0, 200_000.0, 400_000.0, 600_000.0, 800_000.0]);
        assert_eq!(places(Unit::Bytes, f64::from(12 << 20)), [0, 1, 2, 3, 4, 5, 6].map(|mark| f64::from(mark << 21)));
        for most in (0..64).map(|power| ((1_u64 << power) - 1) as f64).chain([u64::MAX as f64]) {
            assert!(places(Unit::Count, most).len() <= 8 && places(Unit::Bytes, most).len() <= 8, "{most}");
        }
        assert_eq!([999, 10_000, 1_230_000].map(count), ["999", "10 k", "1.23 M"]);
        assert_eq!([0, 1536, 16 << 10].map(|number| Unit::Bytes.write(number)), ["0 B", "1.5 KiB", "16 KiB"]);
    }

    #[test]
    fn times_are_in_units_that_people_read() {
        let marks = |from: f64, to: f64| of_times(from, to, 7.0);
        assert_eq!(texts(&marks(0.0, 1.5 * SECOND)), ["0", "0.5 s", "1.0 s", "1.5 s"]);
        assert_eq!(texts(&marks(12e6, 30e6)), ["15 ms", "20 ms", "25 ms", "30 ms"]);
        let minutes = marks(0.0, 400.0 * SECOND);
        assert_eq!(texts(&minutes), ["0", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min"]);
        let hours = marks(0.0, 3.0 * 3600.0 * SECOND);
        assert_eq!(texts(&hours), ["0", "30 min", "1 h", "1 h 30 min", "2 h", "2 h 30 min", "3 h"]);
        assert_eq!(texts(&marks(0.0, 9.0 * 86_400.0 * SECOND)), ["0", "2 d", "4 d", "6 d", "8 d"]);
        assert_eq!(texts(&marks(7.0, 7.0)), ["7 ns"]);
        for power in 0..64 {
            let marks = marks(0.0, 2_f64.powi(power));
            assert!((2..=8).contains(&marks.len()), "{power}: {marks:?}");
            assert!(marks.windows(2).all(|two| two[0].text != two[1].text), "{marks:?}");
        }
    }
}
