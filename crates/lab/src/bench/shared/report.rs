//! What was measured, as rows for programs and as tables for people.

use serde::Serialize;

use super::contender::{BOOST, BOOST_AGAIN, Contender};
use super::task::{Load, Pattern, Sizes, Touch};
use super::{Case, Rounds};
use crate::number;
use crate::stats::{Spread, median};
use crate::table::{HEADING, Table, ratio};

/// One measurement, as `--json` gives it. What is missing is null, and `note` says why.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What each process does.
    pub pattern: Pattern,
    /// With how long blocks.
    pub sizes: Sizes,
    /// Whether it writes to them.
    pub touch: Touch,
    /// How many blocks it holds.
    pub live: usize,
    /// How many processes do it.
    pub processes: usize,
    /// The segment's length in bytes.
    pub segment: usize,
    /// Whose heap it is.
    pub subject: &'static str,
    /// Nanoseconds of an allocate or a free: the median of the rounds. Processor time for one process; for several the
    /// time that passes, divided by the operations of all.
    pub ns_per_op: Option<f64>,
    /// Half of the rounds lie between these.
    pub quartiles: Option<[f64; 2]>,
    /// Time over that of Boost's rbtree_best_fit in the same round, the median of the rounds.
    pub over_boost: Option<f64>,
    /// Half of these ratios lie between these.
    pub over_boost_quartiles: Option<[f64; 2]>,
    /// Why something is missing.
    pub note: Option<String>,
}

impl Row {
    fn empty(case: Case, subject: &'static str) -> Row {
        let Load { pattern, sizes, touch, live } = case.load;
        Row {
            pattern,
            sizes,
            touch,
            live,
            processes: case.processes,
            segment: case.segment(),
            subject,
            ns_per_op: None,
            quartiles: None,
            over_boost: None,
            over_boost_quartiles: None,
            note: None,
        }
    }

    /// The row of somebody who could not take part.
    pub fn missing(case: Case, subject: &'static str, why: &str) -> Row {
        Row { note: Some(why.to_owned()), ..Row::empty(case, subject) }
    }
}

/// The rows of a case.
pub fn rows(case: Case, field: &[&Contender], outcomes: &[Rounds]) -> Vec<Row> {
    let boost = field.iter().position(|contender| contender.subject == BOOST);
    let boost = boost.and_then(|at| outcomes[at].as_ref().ok());
    let each = field.iter().zip(outcomes);
    each.map(|(contender, outcome)| match outcome {
        Err(why) => Row::missing(case, contender.subject, why),
        Ok(rounds) => {
            let ratios = boost.map(|boost| rounds.iter().zip(boost).map(|(ours, boost)| ours / boost).collect());
            let (time, over) = (Spread::of(rounds), ratios.and_then(|ratios: Vec<f64>| Spread::of(&ratios)));
            Row {
                ns_per_op: median(rounds),
                quartiles: time.map(|time| [time.low, time.high]),
                over_boost: over.map(|over| over.median),
                over_boost_quartiles: over.map(|over| [over.low, over.high]),
                ..Row::empty(case, contender.subject)
            }
        }
    })
    .collect()
}

/// The table of a load: a line per contender, two columns per number of processes.
pub fn print(load: Load, rows: &[Row], boost: Option<&str>) {
    let mut processes: Vec<usize> = rows.iter().map(|row| row.processes).collect();
    processes.dedup();
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows {
        if !subjects.contains(&row.subject) {
            subjects.push(row.subject);
        }
    }
    let boost = boost.map_or_else(String::new, |version| format!("Boost {version}"));
    let columns = processes.iter().flat_map(|&count| {
        let processes = if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
        [processes, "over boost".to_owned()]
    });
    let mut table = Table::new([boost].into_iter().chain(columns));
    for subject in subjects {
        let cells = processes.iter().flat_map(|&count| {
            let row = rows.iter().find(|row| row.subject == subject && row.processes == count);
            [row.and_then(time), row.and_then(over_boost)].map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
        });
        table.row([subject.to_owned()].into_iter().chain(cells));
    }
    anstream::println!("{HEADING}{load}{HEADING:#}: {}\n{table}", describe(load));
    print_notes(rows);
    print_noise(rows);
}

fn time(row: &Row) -> Option<String> {
    row.ns_per_op.map(|time| format!("{} ns", number::short(time)))
}

fn over_boost(row: &Row) -> Option<String> {
    let (median, [low, high]) = row.over_boost.zip(row.over_boost_quartiles)?;
    Some(format!("{} ±{:.0} %", ratio(median), (high - low) / 2.0 / median * 100.0))
}

fn describe(load: Load) -> String {
    let sizes = match load.sizes {
        Sizes::Small => "16 to 256 bytes (uniform)",
        Sizes::Mixed => "16 bytes to 4 KiB (log-uniform)",
    };
    let pattern = match load.pattern {
        Pattern::Steady => {
            let live = number::grouped(load.live as u64);
            format!("each process holds {live} blocks of {sizes}; a random one goes, another comes")
        }
        Pattern::Pair => format!("a block of {sizes} comes and goes at once; each process holds one more"),
    };
    match load.touch {
        Touch::Untouched => format!("{pattern}; nothing is written to them"),
        Touch::Touched => format!("{pattern}; every byte is written"),
    }
}

/// Why figures are missing, each reason once.
fn print_notes(rows: &[Row]) {
    let mut told: Vec<&str> = Vec::new();
    for row in rows {
        if let Some(note) = row.note.as_deref().filter(|note| !told.contains(note)) {
            anstream::println!("  {}: {note}\n", row.subject);
            told.push(note);
        }
    }
}

/// How far Boost may be from itself before a reader is warned.
const NOISE: f64 = 0.1;

/// Where the ratios are not to be trusted, because Boost was not as fast as itself.
fn print_noise(rows: &[Row]) {
    let again = rows.iter().filter(|row| row.subject == BOOST_AGAIN);
    let noisy = again.filter_map(|row| Some((row.processes, row.over_boost?)));
    let noisy: Vec<String> = noisy
        .filter(|(_, ratio)| (ratio - 1.0).abs() > NOISE)
        .map(|(processes, noise)| format!("{} with {processes}", ratio(noise)))
        .collect();
    if !noisy.is_empty() {
        anstream::println!(
            "  Boost over itself (A/A) is {}: the machine did something else, too, and the ratios are as uncertain.\n",
            noisy.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        let load = Load { pattern: Pattern::Pair, sizes: Sizes::Small, touch: Touch::Untouched, live: 1 };
        Case { load, processes: 1 }
    }

    fn contender(subject: &'static str) -> Contender {
        Contender { subject, allocator: "x", program: None }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (boost, best) = (contender(BOOST), contender("best"));
        let rows = rows(case(), &[&boost, &best], &[Ok(vec![10.0, 20.0, 40.0]), Ok(vec![5.0, 10.0, 10.0])]);
        assert_eq!((rows[1].over_boost, rows[1].ns_per_op), (Some(0.5), Some(10.0)));
        assert_eq!(rows[0].over_boost, Some(1.0));
    }

    #[test]
    fn without_boost_there_are_times_and_no_ratios() {
        let best = contender("best");
        let rows = rows(case(), &[&best], &[Ok(vec![5.0])]);
        assert_eq!((rows[0].over_boost, rows[0].ns_per_op), (None, Some(5.0)));
        let failed = Row::missing(case(), BOOST, "no compiler");
        assert!(failed.ns_per_op.is_none() && failed.note.is_some());
    }
}
