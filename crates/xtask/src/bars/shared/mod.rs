//! The bars of the heap that processes share, against Boost.Interprocess.

mod bar;
mod slabs;

use anyhow::Result;
use heapwright_shared::{Place, SharedHeap};

use self::bar::Bar;
use super::judgement::{Judgement, Outcome, Settings};
use heapwright_reproduce::segment_ratios;
use heapwright_show::table::Table;
use heapwright_suite::Output;
use heapwright_suite::shared::{
    BOOST, BOOST_AGAIN, Contender, Effort, Figure, POLICIES, Pattern, Plan, Row, Sizes, Touch, loads, measure, word,
};
use heapwright_workloads::published::rules;

/// The numbers of processes, and the maximal time of an operation divided by Boost's.
const LIMITS: [(usize, f64); 2] = [(1, 0.3), (2, 0.4)];

/// The numbers of processes.
const PROCESSES: [usize; 2] = [LIMITS[0].0, LIMITS[1].0];

/// Report 002's second experiment: its cases, and the maximal time of a pair divided by that of malloc+free.
const CASES: [(&str, f64); 2] = [("worst case", 6.0), ("best case", 6.0)];

/// Number of rounds of that experiment.
const ROUNDS: usize = 15;

/// The maximal share of metadata in report 002's segment, in per cent.
const OVERHEAD: f64 = 2.5;

/// How thoroughly the heaps are measured, unless other rounds are given.
const EFFORT: Effort = Effort { window: 40, rounds: 15 };

/// Returns whether the bars are about a contender.
fn is_about(contender: &Contender) -> bool {
    POLICIES.contains(&contender.subject) || [BOOST, BOOST_AGAIN].contains(&contender.subject)
}

/// The policy that decides: best fit, which is the default, and also Boost's algorithm.
const DECIDING: &str = "best";

fn over_boost(rows: &[Row]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (processes, limit) in LIMITS {
        for pattern in [Pattern::Steady, Pattern::Pair] {
            for sizes in [Sizes::Small, Sizes::Mixed] {
                let ratio = |policy: &str| {
                    let is_it = |row: &&Row| {
                        (row.subject, row.processes, row.pattern, row.sizes) == (policy, processes, pattern, sizes)
                    };
                    rows.iter().find(is_it).and_then(|row| row.over_boost)
                };
                let processes = if processes == 1 { "one process" } else { "two processes" };
                let what = format!("{}, {}, {processes}, over {BOOST}", word(pattern), word(sizes));
                let others = POLICIES.into_iter().filter(|&policy| policy != DECIDING).chain([BOOST_AGAIN]);
                let others = others.map(|policy| (policy, ratio(policy))).collect();
                let bar = Bar::of(what, limit, "ratio", &[(DECIDING.to_owned(), ratio(DECIDING))]);
                bars.push(Bar { others, ..bar });
            }
        }
    }
    bars
}

fn experiment() -> impl Iterator<Item = Bar> {
    let figures = segment_ratios(ROUNDS);
    CASES.into_iter().map(move |(case, limit)| {
        let of_case = figures.iter().filter(|figure| figure.column == case);
        let figures: Vec<(String, Option<f64>)> =
            of_case.map(|figure| (figure.row.clone(), figure.ours.map(|ours| ours.as_f64()))).collect();
        Bar::of(format!("report 002, {case}, a pair over malloc+free"), limit, "ratio", &figures)
    })
}

fn overhead() -> Bar {
    let settings = rules::segment();
    let share = || -> Result<f64> {
        let place = Place::new(format!("heapwright-bar-{}", std::process::id()))?;
        let heap = SharedHeap::create(&place, &settings)?;
        SharedHeap::unlink(&place)?;
        Ok(heap.overhead() as f64 / settings.size as f64 * 100.0)
    };
    let what = "what is not data, of a 256 KiB segment under buddies".to_owned();
    Bar::of(what, OVERHEAD, "percent", &[("buddy".to_owned(), share().ok())])
}

/// Measures what the bars are about and judges them.
///
/// # Errors
/// When a bar has no form in JSON.
pub fn judge(settings: Settings) -> Result<Judgement> {
    let rounds = settings.rounds.map_or(EFFORT.rounds, usize::from);
    let plan = Plan {
        loads: loads(&[1000], &[Touch::Untouched], Figure::Mean),
        processes: PROCESSES.to_vec(),
        effort: Effort { rounds, ..EFFORT },
        takes_part: is_about,
    };
    let rows = measure(&plan, settings.output);
    let slabs = slabs::bars(plan.effort, settings.output);
    let bars: Vec<Bar> = over_boost(&rows).into_iter().chain(slabs).chain(experiment()).chain([overhead()]).collect();
    if settings.output == Output::Tables {
        heapwright_show::println!(
            "The bars. Compared with Boost, {DECIDING} fit decides: it is the default, and Boost's algorithm, too. \
             Without slabs, unless they are named."
        );
        let mut table = Table::new(["what", "bar", "measured", "", "others"]);
        bars.iter().for_each(|bar| table.row(bar.cells()));
        heapwright_show::print!("{table}");
    }
    Judgement::new("shared", &bars, Outcome::of(bars.iter().all(|bar| bar.holds == Some(true))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_boost_no_ratio_holds() {
        let bars = over_boost(&[]);
        assert_eq!(bars.len(), 8);
        assert!(bars.iter().all(|bar| bar.holds.is_none()));
    }

    #[test]
    fn a_segment_of_the_report_loses_little_to_metadata() {
        assert_eq!(overhead().holds, Some(true));
    }
}
