//! `heapwright counterexample`: the shortest calls on which one policy fails and another does not.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_allocators::policy;
use heapwright_placement::PolicyKind;
use heapwright_reference::counterexample::{Bounds, Counterexample, Layout, Step, shortest};
use heapwright_show::results;
use heapwright_show::table::{Cell, Table};
use heapwright_show::terminal::fitted;
use heapwright_show::usage::Misuse;
use serde::Serialize;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright counterexample                      how many calls it takes, for every two policies
  heapwright counterexample best first           the calls on which best fit fails and first fit does not
  heapwright counterexample best first --region 12 --calls 8

Every sequence of calls in every region of up to --region units is tried, the shortest first. One call is a
request for a number of units, or a free. No shorter sequence exists within these bounds. Random fit is left out:
it depends on its seed.

Exit code: 0; 1 when one policy serves every sequence that the other serves, within the bounds.";

/// The policies whose decisions depend on nothing but the calls.
const POLICIES: [PolicyKind; 6] =
    [PolicyKind::First, PolicyKind::Next, PolicyKind::Best, PolicyKind::Worst, PolicyKind::Buddy, PolicyKind::Good];

/// The arguments of `counterexample`.
#[derive(Args)]
pub struct Arguments {
    /// The policy that fails; with the one that does not, shows the calls and both heaps.
    #[arg(value_name = "FAILS", requires = "serves", value_parser = PossibleValuesParser::new(POLICIES.map(PolicyKind::name)))]
    pub fails: Option<String>,

    /// The policy that serves every call.
    #[arg(value_name = "SERVES", value_parser = PossibleValuesParser::new(POLICIES.map(PolicyKind::name)))]
    pub serves: Option<String>,

    /// The longest region to try, in units. Time grows exponentially.
    #[arg(long, value_name = "UNITS", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub region: u8,

    /// The most calls to try. Time grows exponentially.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub calls: u8,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per pair of policies.
    #[arg(long)]
    pub json: bool,
}

/// The result for two policies.
#[derive(Serialize)]
struct Row {
    #[serde(with = "policy::by_name")]
    fails: PolicyKind,
    #[serde(with = "policy::by_name")]
    serves: PolicyKind,
    /// The region in units; missing where there are no such calls.
    region: Option<u8>,
    /// A positive number requests so many units; a negative one frees that allocation, counted from 1.
    calls: Option<Vec<i16>>,
}

/// Searches, and prints what was found.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let bounds = Bounds { region: arguments.region, calls: usize::from(arguments.calls) };
    let Some((fails, serves)) = chosen(arguments)? else {
        let pairs = POLICIES.iter().enumerate().flat_map(|(at, &a)| POLICIES[at + 1..].iter().map(move |&b| [a, b]));
        let mut found = Vec::new();
        for [a, b] in pairs {
            let [of_a, of_b] = shortest([a, b], bounds)?;
            found.extend([(a, b, of_a), (b, a, of_b)]);
        }
        if arguments.json {
            results::print(&found.iter().map(row).collect::<Vec<_>>())?
        } else {
            print_all(&found, arguments)
        }
        return Ok(ExitCode::SUCCESS);
    };
    let [found, _] = shortest([fails, serves], bounds)?;
    let is_found = found.is_some();
    if arguments.json {
        results::print(&[row(&(fails, serves, found))])?;
    } else if let Some(found) = found {
        print_one(&found, fails, serves)?;
    } else {
        let (fails, serves) = (fails.name(), serves.name());
        heapwright_show::println!(
            "{fails} serves all that {serves} serves, in up to {} calls and regions of up to {} units",
            arguments.calls,
            arguments.region
        );
    }
    Ok(if is_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(arguments: &Arguments) -> Result<Option<(PolicyKind, PolicyKind)>> {
    let policy = |name: &str| PolicyKind::from_name(name).context("there is no such policy");
    let (Some(fails), Some(serves)) = (&arguments.fails, &arguments.serves) else { return Ok(None) };
    if fails == serves {
        bail!(Misuse(format!("{fails} and {serves}: a policy serves what it serves; name two")));
    }
    Ok(Some((policy(fails)?, policy(serves)?)))
}

type Found = (PolicyKind, PolicyKind, Option<Counterexample>);

fn row((fails, serves, found): &Found) -> Row {
    let code = |step: &Step| match *step {
        Step::Allocate(units) => i16::from(units),
        Step::Free(block) => -i16::from(block) - 1,
    };
    Row {
        fails: *fails,
        serves: *serves,
        region: found.as_ref().map(|found| found.region),
        calls: found.as_ref().map(|found| found.steps.iter().map(code).collect()),
    }
}

fn print_all(found: &[Found], arguments: &Arguments) {
    let Arguments { calls, region, .. } = arguments;
    let Some(example) = found.iter().find_map(|(_, _, found)| found.as_ref()) else {
        let text = format!(
            "Every policy serves all that the others serve, in up to {calls} calls and regions of up to {region} units."
        );
        return heapwright_show::println!("{}", fitted(&text));
    };
    let headings = POLICIES.map(|serves| format!("{} serves", serves.name()));
    let mut table = Table::new([String::new()].into_iter().chain(headings));
    for fails in POLICIES {
        let cell = |serves: PolicyKind| {
            let of_pair = found.iter().find(|(a, b, _)| (*a, *b) == (fails, serves));
            match of_pair.and_then(|(_, _, found)| found.as_ref()) {
                Some(found) => Cell::from(format!("{} in {}", found.steps.len(), found.region)),
                None => Cell::missing(),
            }
        };
        table.row([Cell::from(format!("{} fails", fails.name()))].into_iter().chain(POLICIES.map(cell)));
    }
    heapwright_show::print!("{table}");
    let legend = format!(
        "`{0} in {1}`: {0} calls in a region of {1} units are the fewest, of up to {calls} calls and {region} units.",
        example.steps.len(),
        example.region
    );
    let hint = "To see the calls: `heapwright counterexample FAILS SERVES`.";
    heapwright_show::println!("\n{}\n{}", fitted(&legend), fitted(hint));
}

fn print_one(found: &Counterexample, fails: PolicyKind, serves: PolicyKind) -> Result<()> {
    let layouts = [found.layouts(fails)?, found.layouts(serves)?];
    let mut table = Table::new(["call", "", fails.name(), serves.name()]);
    let mut allocations = 0;
    for (at, step) in found.steps.iter().enumerate() {
        let (call, block) = match *step {
            Step::Allocate(units) => {
                allocations += 1;
                (format!("allocate {units}"), allocations - 1)
            }
            Step::Free(block) => ("free".to_owned(), block),
        };
        let picture = |layouts: &[Layout]| layouts.get(at).map_or_else(|| "fails".to_owned(), draw);
        table.row([call, letter(block).to_string(), picture(&layouts[0]), picture(&layouts[1])]);
    }
    heapwright_show::print!("{table}");
    Ok(())
}

/// A character per unit: the letter of its block, or a dot.
fn draw(layout: &Layout) -> String {
    layout.iter().map(|unit| unit.map_or('.', letter)).collect()
}

fn letter(block: u8) -> char {
    char::from(b'a' + block % 26)
}
