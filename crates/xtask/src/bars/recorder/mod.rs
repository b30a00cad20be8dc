//! The bars of the recorder: what a program costs while `heapwright record` records it, with the command's own share,
//! over what it costs alone.

mod case;
mod measured;

use std::path::PathBuf;

use anyhow::{Context, Result};
use heapwright_host::interruption::Interruption;
use heapwright_show::table::{HEADING, Table, ratio};
use heapwright_stats::Estimate;
use heapwright_suite::Output;

use self::case::{Case, Recording};
use self::measured::{Cost, Costs, Recorder};
use super::bar::{Bar, all_hold, print};
use super::judgement::{Judgement, Outcome, Settings};
use crate::truth::ordinary::ORDINARY;
use crate::truth::programs::{Executable, Group, Program};
use crate::workspace::workspace;

/// The usual number of rounds: enough for an interval.
const ROUNDS: u16 = 7;

/// The arguments of `cargo xtask bars recorder`.
#[derive(Default, clap::Args)]
pub struct Arguments {
    /// The command to measure [default: target/release/heapwright]
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
}

/// No stack, one of 16 requests' and every request's.
const PLAIN: Recording = Recording { name: "record", options: &[] };
const SITES: Recording = Recording { name: "record --sites", options: &["--sites"] };
const EVERY_SITE: Recording = Recording { name: "record --sites=1", options: &["--sites=1"] };

const LOOP: &str = "loop";
const THREADS: &str = "loop of 8 threads";

/// Real programs, with arguments that let each work for about half a second: what a recording takes once, to find the
/// names of functions, counts less then.
const REAL: [(&str, &[&str]); 3] = [
    ("python-dicts", &["-s", "-B", "-c", "import runpy\nfor _ in range(4): runpy.run_path('dicts.py')"]),
    ("cc1plus", &["-quiet", "-fpreprocessed", "-O2", "-std=c++17", "containers.ii", "-o", "/dev/null"]),
    ("sqlite3", &[":memory:", READ, FRESH, READ, FRESH, READ, FRESH, READ, FRESH, READ, FRESH, READ]),
];
const READ: &str = ".read table.sql";
const FRESH: &str = ".open :memory:";

/// A program that only allocates and frees.
const fn allocating(name: &'static str, arguments: &'static [&'static str]) -> Program {
    Program {
        name,
        about: "nothing but malloc and free",
        group: Group::Real,
        executable: Executable::Compiled(include_str!("loop.c")),
        arguments,
        settings: &[],
        files: &[],
        prepare: "",
    }
}

/// Returns what is measured.
fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case { program: allocating(LOOP, &["1", "50000000"]), recordings: &[PLAIN, EVERY_SITE] },
        Case { program: allocating(THREADS, &["8", "50000000"]), recordings: &[PLAIN] },
    ];
    cases.extend(REAL.iter().filter_map(|(name, arguments)| {
        let found = ORDINARY.into_iter().find(|program| program.name == *name)?;
        Some(Case { program: Program { arguments, ..found }, recordings: &[SITES] })
    }));
    cases
}

/// Measures what recordings cost, and judges it.
///
/// # Errors
/// When the command is not there, a program cannot be prepared, or a run fails.
pub fn judge(arguments: &Arguments, settings: Settings) -> Result<Judgement> {
    let command = arguments.command.clone().unwrap_or(workspace()?.join("target/release/heapwright"));
    let command = command.canonicalize().with_context(|| {
        format!("there is no {}: build it (cargo build --release), or name another (--command)", command.display())
    })?;
    let until = Interruption::listen()?;
    let cases = cases();
    let recorder = Recorder::new(command, &cases)?;
    let costs = recorder.measure(&cases, settings.rounds.unwrap_or(ROUNDS), &until)?;
    let bars = all(&cases, &costs);
    if settings.output == Output::Tables {
        print_costs(&cases, &costs);
        heapwright_show::println!("\n{HEADING}The bars{HEADING:#}");
        print(&bars);
    }
    let outcome = if until.came() { Outcome::Interrupted } else { Outcome::of(all_hold(&bars)) };
    Judgement::new("recorder", &bars, outcome)
}

/// Returns the bars.
fn all(cases: &[Case], costs: &[Costs]) -> Vec<Bar> {
    let of = |name: &str| cases.iter().position(|case| case.program.name == name).map(|at| &costs[at]);
    let over = |what: &str, limit, case: &str, recording, cost: Cost| {
        let bar = Bar::new(format!("{what}, {}, over the program alone", cost.name()), limit);
        judged(bar, of(case).and_then(|costs| costs.over_alone(recording, cost)))
    };
    let mut bars = vec![
        over("loop", 2.0, LOOP, 0, Cost::Processor),
        over("loop", 1.5, LOOP, 0, Cost::Elapsed),
        over("loop with every stack", 6.0, LOOP, 1, Cost::Processor),
        over("loop with every stack", 4.0, LOOP, 1, Cost::Elapsed),
    ];
    let price = |name: &str| of(name)?.ratios(0, Cost::Processor);
    let threads = price(THREADS).zip(price(LOOP)).and_then(|(many, one)| Estimate::of_paired_ratios(&many, &one));
    bars.push(judged(Bar::new("price of a call, 8 threads over one", 1.5), threads));
    let real = cases.iter().filter(|case| matches!(case.recordings, [recording] if *recording == SITES));
    bars.extend(
        real.map(|case| over(&format!("{} with stacks", case.program.name), 1.15, case.program.name, 0, Cost::Elapsed)),
    );
    bars
}

/// Judges a figure, if there is one, with its interval beside it.
fn judged(bar: Bar, figure: Option<Estimate>) -> Bar {
    match figure {
        Some(figure) => bar.at_median(&figure, in_words(&figure)),
        None => bar,
    }
}

/// Formats the interval of a figure.
fn in_words(figure: &Estimate) -> String {
    figure
        .interval
        .map_or_else(|| "too few rounds for an interval".to_owned(), |[low, high]| format!("{low:.2} to {high:.2}"))
}

/// Prints what each recording costs over the program alone, and what the program costs over itself.
fn print_costs(cases: &[Case], costs: &[Costs]) {
    let mut table = Table::new(["program", "", "processor time", "", "elapsed", ""]);
    for (case, costs) in cases.iter().zip(costs) {
        let names = case.recordings.iter().map(|recording| recording.name).chain(["alone, once more"]);
        for (at, name) in names.enumerate() {
            let mut row = vec![case.program.name.to_owned(), name.to_owned()];
            for cost in [Cost::Processor, Cost::Elapsed] {
                let figure = costs.over_alone(at, cost);
                row.extend([
                    figure.map_or_else(String::new, |it| ratio(it.median)),
                    figure.as_ref().map_or_else(String::new, in_words),
                ]);
            }
            table.row(row);
        }
    }
    heapwright_show::print!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::bar::Verdict;

    /// The costs of a case: alone 100 in each of six rounds, and these under its recordings.
    fn costs(case: &Case, recorded: &[f64]) -> Costs {
        let others = recorded.iter().copied().chain(case.recordings.iter().skip(recorded.len()).map(|_| 100.0));
        Costs::of_rounds(6, 100.0, &others.chain([100.0]).collect::<Vec<f64>>())
    }

    #[test]
    fn what_a_recording_costs_is_held_against_the_program_alone() {
        let cases = cases();
        let measured = [&[200.0, 700.0][..], &[400.0], &[114.0], &[116.0], &[100.0]];
        let costs: Vec<Costs> = cases.iter().zip(measured).map(|(case, recorded)| costs(case, recorded)).collect();
        let bars = all(&cases, &costs);
        let found: Vec<(f64, Verdict)> = bars.iter().map(|bar| (bar.measured.unwrap(), bar.verdict)).collect();
        let (holds, fails) = (Verdict::Holds, Verdict::Fails);
        // The loop and its elapsed time, the same with every stack, eight threads over one, three real programs.
        let expected = [
            (2.0, holds),
            (2.0, fails),
            (7.0, fails),
            (7.0, fails),
            (2.0, fails),
            (1.14, holds),
            (1.16, fails),
            (1.0, holds),
        ];
        assert_eq!(found, expected, "{bars:?}");
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let cases = cases();
        let costs: Vec<Costs> = cases.iter().map(Costs::new).collect();
        let bars = all(&cases, &costs);
        assert_eq!(bars.len(), 8);
        assert!(bars.iter().all(|bar| bar.verdict == Verdict::NotMeasured), "{bars:?}");
    }
}
