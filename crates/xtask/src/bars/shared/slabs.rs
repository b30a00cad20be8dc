//! The bars of heaps whose small blocks come from slabs.

use anyhow::Result;
use heapwright_stats::median;
use heapwright_suite::Output;
use heapwright_suite::shared::large::{self, BLOCKS, Fate, HANDLES, Large};
use heapwright_suite::shared::{
    BOOST, BOOST_AGAIN, Contender, Effort, Figure, Load, MALLOC, NOTHING, Pattern, Plan, Row, Sizes, Touch, WITH_SLABS,
    measure,
};

use super::bar::Bar;

/// One process: a load, and the maximal time of an operation divided by Boost's, and by malloc's.
const ALONE: [(&str, Load, f64, f64); 3] = [
    ("pair of 64 bytes", load(Pattern::Pair, Sizes::Line, 1, Figure::Mean), 0.10, 1.4),
    ("16 bytes to 4 KiB, 10^3 live", load(Pattern::Steady, Sizes::Mixed, 1000, Figure::Mean), 0.20, 1.3),
    ("16 bytes to 4 KiB, 10^5 live", load(Pattern::Steady, Sizes::Mixed, 100_000, Figure::Mean), 0.40, 1.3),
];

/// The load of which two processes do twice as much as one, and how much at least of that.
const SCALED: Load = load(Pattern::Steady, Sizes::Small, 1000, Figure::Mean);
const SCALING: f64 = 0.9;

/// The maximal share of the work that is done under the lock, in per cent.
const SERIAL: f64 = 2.0;

/// The maximal time within which 99.9 % of the calls end, divided by Boost's, for each of these numbers of processes.
const TAIL: f64 = 0.3;
const CROWDS: [usize; 2] = [2, 4];

/// The maximal time of opening, and in which a survivor of a kill cannot allocate, in microseconds.
const OPENING: f64 = 50.0;
const PAUSE: f64 = 1000.0;
/// How many processes are killed.
const KILLS: usize = 200;

const fn load(pattern: Pattern, sizes: Sizes, live: usize, figure: Figure) -> Load {
    Load { pattern, sizes, touch: Touch::Untouched, live, figure }
}

fn is_about(contender: &Contender) -> bool {
    [BOOST, BOOST_AGAIN, MALLOC, NOTHING, "best", WITH_SLABS].contains(&contender.subject)
}

/// Measures and judges.
pub fn bars(effort: Effort, output: Output) -> Vec<Bar> {
    let rows = |loads: Vec<Load>, processes: Vec<usize>| {
        measure(&Plan { loads, processes, effort, takes_part: is_about }, output)
    };
    let alone = rows(ALONE.iter().map(|&(_, load, ..)| load).collect(), vec![1]);
    let scaled = rows(vec![SCALED], vec![1, 2]);
    let tails =
        [(Pattern::Pair, Sizes::Line, 1), (Pattern::Steady, Sizes::Small, 1000), (Pattern::Steady, Sizes::Mixed, 1000)];
    let tails = tails.map(|(pattern, sizes, live)| load(pattern, sizes, live, Figure::Tail));
    let tails = rows(tails.to_vec(), CROWDS.to_vec());
    let mut bars = over_others(&alone);
    bars.push(scaling(&scaled));
    bars.extend(serial_shares(&alone, &scaled));
    bars.extend(CROWDS.map(|processes| tail(&tails, processes)));
    bars.extend(of_a_large_heap(output));
    bars
}

fn find<'r>(rows: &'r [Row], subject: &str, wanted: Load, processes: usize) -> Option<&'r Row> {
    rows.iter().find(|row| {
        (row.subject, row.processes, row.live) == (subject, processes, wanted.live)
            && (row.pattern, row.sizes, row.figure) == (wanted.pattern, wanted.sizes, wanted.figure)
    })
}

fn over_others(rows: &[Row]) -> Vec<Bar> {
    let bars = ALONE.iter().flat_map(|&(name, load, boost, malloc)| {
        let row = |subject| find(rows, subject, load, 1);
        let of = |other, limit, figure: fn(&Row) -> Option<f64>| {
            let what = format!("with slabs, one process, {name}, over {other}");
            let value = row(WITH_SLABS).and_then(figure);
            let others = [("best", row("best").and_then(figure)), (BOOST_AGAIN, row(BOOST_AGAIN).and_then(figure))];
            Bar { others: others.into(), ..Bar::of(what, limit, "ratio", &[(WITH_SLABS.to_owned(), value)]) }
        };
        [of(BOOST, boost, |row| row.over_boost), of(MALLOC, malloc, |row| row.over_malloc)]
    });
    bars.collect()
}

/// What two processes do together, over what one does, over the same of the loop alone. Of several processes the time
/// of an operation is the elapsed time over the operations of all.
fn scaling(rows: &[Row]) -> Bar {
    let gain = |subject| {
        let time = |processes| find(rows, subject, SCALED, processes)?.ns_per_op;
        Some(time(1)? / time(2)?)
    };
    let value = |subject| Some(gain(subject)? / gain(NOTHING)?);
    let what = "with slabs, operations of two processes over one, over the loop alone".to_owned();
    let bar = Bar::at_least(what, SCALING, "ratio", (WITH_SLABS.to_owned(), value(WITH_SLABS)));
    Bar { others: [("best", value("best")), (BOOST, value(BOOST))].into(), ..bar }
}

/// The share of the time of an operation that the policy works for it, which is under the lock: how often it needs the
/// policy, times the time of an operation that always does. Looking for slabs of the dead is not counted.
fn serial_shares(alone: &[Row], scaled: &[Row]) -> Vec<Bar> {
    let (_, mixed, ..) = ALONE[1];
    let cases = [("16 to 256 bytes", SCALED, scaled), ("16 bytes to 4 KiB", mixed, alone)];
    let bars = cases.map(|(name, load, rows)| {
        let time = |subject| find(rows, subject, load, 1)?.ns_per_op;
        let placed = large::placed_per_block(load.sizes, load.live).ok();
        let share = placed.and_then(|placed| Some(placed * time("best")? / time(WITH_SLABS)? * 100.0));
        let what = format!("with slabs, work of the policy under the lock, {name}, 10^3 live");
        Bar::of(what, SERIAL, "percent", &[(WITH_SLABS.to_owned(), share)])
    });
    bars.into()
}

/// The worst load decides.
fn tail(rows: &[Row], processes: usize) -> Bar {
    let of = |subject| {
        let figures = rows.iter().filter(move |row| (row.subject, row.processes) == (subject, processes));
        figures.map(|row| (format!("{WITH_SLABS}, {}", heapwright_suite::shared::word(row.sizes)), row.over_boost))
    };
    let worst = |subject| of(subject).filter_map(|(_, ratio)| ratio).max_by(f64::total_cmp);
    let what = format!("with slabs, 99.9 % of calls, {processes} processes, over {BOOST}");
    let bar = Bar::of(what, TAIL, "ratio", &of(WITH_SLABS).collect::<Vec<_>>());
    Bar { others: [("best", worst("best")), (BOOST_AGAIN, worst(BOOST_AGAIN))].into(), ..bar }
}

/// Returns what was measured, or prints why it was not.
fn known<T>(measured: Result<T>, output: Output) -> Option<T> {
    if let (Err(error), Output::Tables) = (&measured, output) {
        heapwright_show::println!("A large heap is not measured: {error:#}\n");
    }
    measured.ok()
}

/// Opening, and surviving, in microseconds.
fn of_a_large_heap(output: Output) -> Vec<Bar> {
    let heap = known(Large::make(), output);
    let measured = |times: fn(&Large) -> Result<Vec<f64>>| -> Option<Vec<f64>> {
        let times = known(times(heap.as_ref()?), output)?;
        Some(times.into_iter().map(|time| time / 1000.0).collect())
    };
    let openings = measured(Large::openings);
    let killed = measured(|heap| heap.survive(Fate::Killed, KILLS));
    let spared = measured(|heap| heap.survive(Fate::Spared, KILLS));
    let middle = |times: &Option<Vec<f64>>| times.as_ref().and_then(|times| median(times));
    let longest = |times: &Option<Vec<f64>>| times.as_ref()?.iter().copied().max_by(f64::total_cmp);
    let bar = |what: String, limit, value| Bar::of(what, limit, "us", &[(WITH_SLABS.to_owned(), value)]);
    vec![
        Bar {
            others: [("longest", longest(&openings))].into(),
            ..bar(format!("with slabs, opening, {BLOCKS} blocks, after {HANDLES} handles"), OPENING, middle(&openings))
        },
        Bar {
            others: [
                ("longest", longest(&killed)),
                ("longest without a kill", longest(&spared)),
                ("median without a kill", middle(&spared)),
            ]
            .into(),
            ..bar(
                format!("with slabs, longest call beside each of {KILLS} kills, {BLOCKS} blocks"),
                PAUSE,
                middle(&killed),
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let mut bars = over_others(&[]);
        bars.push(scaling(&[]));
        bars.push(tail(&[], 2));
        assert!(bars.iter().all(|bar| bar.holds.is_none()));
    }
}
