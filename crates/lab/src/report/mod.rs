//! `heapwright report`: one page that shows what a program does to its heap, and what each policy makes of it.

mod data;
mod gather;
mod page;
mod pins;
mod planes;
mod resident;
mod sites;
mod source;
mod svg;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::PolicyKind;

use self::data::{Report, RuleFigures, Trace};
use self::gather::Simulated;
use self::source::Source;
use crate::number;
use crate::progress::Progress;
use crate::replay::{RuleArguments, chosen};

pub const EXAMPLES: &str = "\
Examples:
  heapwright report gcc.hwt                          writes gcc.html
  heapwright report -- python3 job.py                records a program first
  heapwright report gcc.hwt -p first -p best         two policies
  heapwright report gcc.hwt -o r.html --title GCC    another name, another title
  heapwright report gcc.hwt --granule 8 --header 8   other rules for the simulation
  heapwright report gcc.hwt --svg plots              pictures for papers as well
  heapwright report gcc.hwt --no-real                simulation alone

The page is one file: it needs no network and no other file, and loads nothing.

Exit code: 0, or 1 when the trace is damaged or cannot be read, or the page cannot be written.";

/// What `report` may be told.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE", required_unless_present = "program", conflicts_with = "program")]
    pub trace: Option<PathBuf>,

    /// Where the page goes [default: the trace's or the program's name with .html, in the current directory].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// A policy; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICY", value_parser = PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name)))]
    pub policy: Vec<String>,

    /// Write every plot as a picture for papers into this folder, too.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,

    /// Leave out real replays: what is left is the same on every machine.
    #[arg(long)]
    pub no_real: bool,

    /// The title of the page [default: the program's name].
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    #[command(flatten)]
    pub rules: RuleArguments,

    /// A program and its arguments, instead of a trace: it is recorded, and the trace is not kept.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Makes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let source = Source::of(arguments.trace.as_deref(), &arguments.program)?;
    let (report, simulated) = gather(&source.trace, arguments)?;
    let page = page::html(&report)?;
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.html", source.name)));
    fs::write(&output, &page).with_context(|| format!("{} cannot be written", output.display()))?;
    anstream::println!("{}: {}", output.display(), number::bytes(page.len() as u64));
    if let Some(folder) = &arguments.svg {
        let pictures = svg::write_all(folder, &report, &simulated)?;
        anstream::println!("{}: {pictures} pictures", folder.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn gather(path: &Path, arguments: &Arguments) -> Result<(Report, Vec<Simulated>)> {
    let policies = chosen(&arguments.policy);
    let progress = Progress::new("report", policies.len());
    let (census, trace) = gather::census(path)?;
    let simulated = gather::simulate(path, &census, &arguments.rules, &policies, &progress)?;
    let peaks: Vec<_> = simulated.iter().map(|simulated| simulated.history.peak.as_ref()).collect();
    let pins = pins::tell(path, &peaks)?;
    let policies = simulated.iter().zip(pins).map(|(simulated, pins)| gather::policy(simulated, pins));
    let policies = policies.collect::<Result<_>>()?;
    let names: Vec<&str> = simulated.iter().map(|simulated| simulated.outcome.policy.name()).collect();
    let real = match arguments.no_real {
        true => Vec::new(),
        false => resident::measure(path, &names, &progress)?,
    };
    let [sizes, lifetimes, lifetimes_in_bytes] = gather::bins(&census);
    let rules = &arguments.rules;
    let report = Report {
        schema: 1,
        title: arguments.title.clone().unwrap_or_else(|| title(&trace)),
        trace,
        rules: RuleFigures {
            granule: rules.granule,
            header: rules.header,
            min_remainder: rules.min_remainder,
            region: rules.region,
        },
        sizes,
        lifetimes,
        lifetimes_in_bytes,
        policies,
        real,
    };
    Ok((report, simulated))
}

/// The name of the program, or of the trace.
fn title(trace: &Trace) -> String {
    let program = trace.about.iter().find(|(name, _)| name == "program").map(|(_, text)| text.as_str());
    program.filter(|name| !name.is_empty()).unwrap_or(&trace.file).to_owned()
}
