//! The results: rows for `--json`, and tables.

use serde::Serialize;

use super::case::{Case, Rounds};
use super::contender::{BOOST, BOOST_AGAIN, Contender, MALLOC};
use heapwright_show::number;
use heapwright_show::table::{HEADING, Table, ratio};
use heapwright_stats::{Estimate, Spread, median, paired_ratios};
use heapwright_workloads::shared::task::{Figure, Load, Pattern, Sizes, Touch};

/// A measurement, as `--json` prints it. Missing figures are null, and `note` contains the reason.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The pattern of each process' requests.
    pub pattern: Pattern,
    /// The distribution of sizes.
    pub sizes: Sizes,
    /// Whether blocks are written to.
    pub touch: Touch,
    /// Number of live blocks per process.
    pub live: usize,
    /// Number of processes.
    pub processes: usize,
    /// The segment's length in bytes.
    pub segment: usize,
    /// The contender.
    pub subject: &'static str,
    /// Which figure of the calls is given.
    pub figure: Figure,
    /// Nanoseconds: the median of the rounds. The mean is per allocate or free: processor time for one process; for
    /// several, elapsed time divided by the operations of all. The tail is the time within which 99.9 % of the calls of
    /// each process ended.
    pub ns_per_op: Option<f64>,
    /// The first and the third quartile of the rounds.
    pub quartiles: Option<[f64; 2]>,
    /// The 95 % confidence interval of the median, from six rounds up.
    pub interval: Option<[f64; 2]>,
    /// Time divided by that of Boost's rbtree_best_fit in the same round: the median of the rounds.
    pub over_boost: Option<f64>,
    /// The first and the third quartile of these ratios.
    pub over_boost_quartiles: Option<[f64; 2]>,
    /// The 95 % confidence interval of their median, from six rounds up.
    pub over_boost_interval: Option<[f64; 2]>,
    /// Time divided by that of malloc in the same round, for one process: the median of the rounds.
    pub over_malloc: Option<f64>,
    /// Why figures are missing, if any are.
    pub note: Option<String>,
}

impl Row {
    fn empty(case: Case, subject: &'static str) -> Row {
        let Load { pattern, sizes, touch, live, figure } = case.load;
        Row {
            pattern,
            sizes,
            touch,
            live,
            processes: case.processes,
            segment: case.segment(),
            subject,
            figure,
            ns_per_op: None,
            quartiles: None,
            interval: None,
            over_boost: None,
            over_boost_quartiles: None,
            over_boost_interval: None,
            over_malloc: None,
            note: None,
        }
    }

    /// Returns a row without figures.
    pub(super) fn missing(case: Case, subject: &'static str, why: &str) -> Row {
        Row { note: Some(why.to_owned()), ..Row::empty(case, subject) }
    }
}

/// Returns the rows of a case.
pub(super) fn rows(case: Case, field: &[&Contender], outcomes: &[Rounds]) -> Vec<Row> {
    let rounds_of = |subject| {
        let at = field.iter().position(|contender| contender.subject == subject)?;
        outcomes[at].as_ref().ok()
    };
    let (boost, malloc) = (rounds_of(BOOST), rounds_of(MALLOC));
    let each = field.iter().zip(outcomes);
    each.map(|(contender, outcome)| match outcome {
        Err(why) => Row::missing(case, contender.subject, why),
        Ok(rounds) => {
            let ratios = boost.and_then(|boost| paired_ratios(rounds, boost)).unwrap_or_default();
            let (time, over) = (Spread::of(rounds), Spread::of(&ratios));
            Row {
                ns_per_op: median(rounds),
                quartiles: time.map(|time| [time.low, time.high]),
                interval: Estimate::of(rounds).and_then(|time| time.interval),
                over_boost: over.map(|over| over.median),
                over_boost_quartiles: over.map(|over| [over.low, over.high]),
                over_boost_interval: Estimate::of(&ratios).and_then(|over| over.interval),
                over_malloc: malloc.and_then(|malloc| median(&paired_ratios(rounds, malloc)?)),
                ..Row::empty(case, contender.subject)
            }
        }
    })
    .collect()
}

/// Prints the table of a load: a line per contender, two columns per number of processes.
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
    heapwright_show::println!("{HEADING}{load}{HEADING:#}: {}\n{table}", describe(load));
    print_notes(rows);
    print_noise(rows);
}

fn time(row: &Row) -> Option<String> {
    row.ns_per_op.map(|time| format!("{} ns", number::short(time)))
}

fn over_boost(row: &Row) -> Option<String> {
    let median = row.over_boost?;
    Some(match row.over_boost_interval {
        Some([low, high]) => format!("{} ±{:.0} %", ratio(median), (high - low) / 2.0 / median * 100.0),
        None => ratio(median),
    })
}

fn describe(load: Load) -> String {
    let sizes = match load.sizes {
        Sizes::Small => "16 to 256 bytes (uniform)",
        Sizes::Mixed => "16 bytes to 4 KiB (log-uniform)",
        Sizes::Line => "64 bytes",
    };
    let pattern = match load.pattern {
        Pattern::Steady => {
            let live = number::grouped(load.live as u64);
            format!("each process holds {live} blocks of {sizes}; a random one is freed, another allocated")
        }
        Pattern::Pair => format!("a block of {sizes} is allocated and freed immediately; each process holds one more"),
    };
    let touch = match load.touch {
        Touch::Untouched => "blocks are not written to",
        Touch::Touched => "every byte is written",
    };
    match load.figure {
        Figure::Mean => format!("{pattern}; {touch}"),
        Figure::Tail => format!("{pattern}; {touch}; the time within which 99.9 % of the calls end, with a clock's"),
    }
}

/// Prints why figures are missing, each reason once.
fn print_notes(rows: &[Row]) {
    let mut told: Vec<&str> = Vec::new();
    for row in rows {
        if let Some(note) = row.note.as_deref().filter(|note| !told.contains(note)) {
            heapwright_show::println!("  {}: {note}\n", row.subject);
            told.push(note);
        }
    }
}

/// The A/A difference above which a warning is printed.
const NOISE: f64 = 0.1;

/// Prints a warning where the A/A ratio of Boost shows that the ratios are noisy.
fn print_noise(rows: &[Row]) {
    let again = rows.iter().filter(|row| row.subject == BOOST_AGAIN);
    let noisy = again.filter_map(|row| Some((row.processes, row.over_boost?)));
    let noisy: Vec<String> = noisy
        .filter(|(_, ratio)| (ratio - 1.0).abs() > NOISE)
        .map(|(processes, noise)| format!("{} with {processes}", ratio(noise)))
        .collect();
    if !noisy.is_empty() {
        heapwright_show::println!(
            "  Boost over itself (A/A) is {}: the machine was busy, and all ratios are as uncertain.\n",
            noisy.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        let load = Load {
            pattern: Pattern::Pair,
            sizes: Sizes::Small,
            touch: Touch::Untouched,
            live: 1,
            figure: Figure::Mean,
        };
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
        assert_eq!((rows[0].over_boost, rows[0].over_malloc), (Some(1.0), None));
    }

    #[test]
    fn ratios_to_malloc_are_given_beside_those_to_boost() {
        let (malloc, best) = (contender(MALLOC), contender("best"));
        let rows = rows(case(), &[&malloc, &best], &[Ok(vec![10.0, 10.0]), Ok(vec![5.0, 5.0])]);
        assert_eq!((rows[1].over_malloc, rows[1].over_boost), (Some(0.5), None));
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
