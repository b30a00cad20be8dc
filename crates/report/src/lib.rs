//! `heapwright report`: one page that shows a program's heap under each policy; and the page of `heapwright diff`.

pub mod changes;
mod choice;
mod data;
mod gather;
mod holders;
mod line;
mod moments;
mod nodes;
mod page;
mod pins;
mod planes;
mod resident;
mod sites;
mod svg;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::{Growth, PolicyKind};
use heapwright_replay::{Model, Outcome};

use self::data::{Report, RuleFigures, Trace};
use self::planes::Planes;
use heapwright_allocators::peers::Peer;
use heapwright_allocators::rules::{self, ChosenRules};
use heapwright_compare::Course;
use heapwright_compare::Pace;
use heapwright_compare::Plan;
use heapwright_compare::Typed;
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::files::ensure_rereadable;
use heapwright_host::interruption;
use heapwright_host::names::Shown;
use heapwright_real::Latencies;
use heapwright_real::Threads;
use heapwright_recording::Printed;
use heapwright_recording::source::{self, Source};
use heapwright_run::program;
use heapwright_show::number;
use heapwright_show::progress::Progress;
use heapwright_show::terminal;
use heapwright_simulate::choice::HeapArguments;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright report gcc.hwt                          writes gcc.html
  heapwright report -- python3 job.py                records a program first
  heapwright report gcc.hwt -p first,best            two policies
  heapwright report gcc.hwt -o r.html --title GCC    another name, another title
  heapwright report gcc.hwt --granule 8 --header 8   other rules for the simulation
  heapwright report gcc.hwt --svg plots              pictures for papers as well
  heapwright report gcc.hwt --budget 2m              more real replays, and surer of times
  heapwright report gcc.hwt --no-real                simulation alone

The page is one file: it needs no network and no other file, and loads nothing.

A damaged trace is shown up to the damage.

Exit code: 0, or 1 when the trace cannot be read, or the page cannot be written.";

/// One request in this many of a program that is recorded has a call site.
const SAMPLED: NonZero<u32> = NonZero::new(16).unwrap();

/// The arguments of `report`.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE", required_unless_present = "program", conflicts_with = "program")]
    pub trace: Option<PathBuf>,

    /// The file to write [default: the trace's or the program's name with .html, in the current directory].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Policies, separated by commas; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name)))]
    pub policy: Vec<String>,

    /// Write every plot as a picture for papers into this folder, too.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,

    /// Skip the real replays: all other figures are the same on every machine.
    #[arg(long)]
    pub no_real: bool,

    /// Another allocator for real replays: its name in tables and its library. May be given several times.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse, conflicts_with = "no_real")]
    pub allocator: Vec<Peer>,

    /// Number of rounds of real replays, whatever the budget. Each round runs every allocator once, in random order
    /// [default: what the budget allows, at most 30, or 200 where there is noise].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000),
          conflicts_with = "no_real")]
    pub rounds: Option<u32>,

    /// Time for real replays, approximately.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = number::parse_duration,
          conflicts_with = "no_real")]
    pub budget: Duration,

    /// The title of the page [default: the program's name].
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// The rules of the simulated heap.
    #[command(flatten)]
    pub heap: HeapArguments,

    /// A program and its arguments, instead of a trace: it is recorded, and the trace is not kept.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

impl Arguments {
    /// Where the page goes.
    fn destination(&self, sources: &[&Path]) -> Result<Destination> {
        let usual = || {
            let mut name = source::name(self.trace.as_deref(), &self.program);
            name.push(".html");
            PathBuf::from(name)
        };
        let place = self.output.clone().unwrap_or_else(usual);
        Destination::of(&place, Contents::Other, sources)
    }

    /// Returns the files that the command reads.
    fn sources(&self) -> Vec<PathBuf> {
        let program = self.program.first().and_then(|name| program::find(name));
        let named = self.trace.as_deref().into_iter().chain(self.heap.rules.file()).map(Path::to_owned);
        named.chain(self.allocator.iter().map(|peer| peer.library.clone())).chain(program).collect()
    }

    /// What was typed, for a comparison with all policies. Where the trace lies is not for a page that others see.
    fn typed(&self) -> Typed {
        let trace = self.trace.as_deref().map(|path| Path::new(path.file_name().unwrap_or(path.as_os_str())));
        Typed::of(trace, &self.program, &[], &self.allocator)
    }

    /// How allocators are compared by real replays.
    fn plan(&self, models: &[Model], rules: ChosenRules) -> Plan {
        let course = Course {
            pace: Pace { rounds: self.rounds, budget: self.budget },
            threads: Threads::AsRecorded,
            latencies: Latencies::Off,
            seed: self.heap.seed,
        };
        Plan {
            policies: models.iter().map(|model| model.policy.name()).collect(),
            allocators: self.allocator.clone(),
            program: None,
            course: (!self.no_real).then_some(course),
            seed: self.heap.seed,
            rules,
            typed: self.typed(),
        }
    }
}

/// Makes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    arguments.trace.as_deref().map_or(Ok(()), ensure_rereadable)?;
    let sources = arguments.sources();
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let destination = arguments.destination(&sources)?;
    if let Some(folder) = &arguments.svg {
        svg::prepare(folder, &sources, &destination)?;
    }
    let source = Source::of(arguments.trace.as_deref(), &arguments.program, |options| {
        options.sites = Some(SAMPLED);
        if destination.is_open_already() {
            options.printed = Printed::ToErrors;
        }
    })?;
    let (report, maps) = gather(&source.trace, arguments)?;
    let page = page::REPORT.html(&report.title, &report)?;
    destination.write(page.as_bytes())?;
    if !destination.is_open_already() {
        let line = format!("{}: {}", destination.path().shown(), number::bytes(page.len() as u64));
        heapwright_show::println!("{}", terminal::fitted(&line));
    }
    if let Some(folder) = &arguments.svg {
        let pictures = svg::write_all(folder, &report, &maps, &sources)?;
        let pictures = number::counted(pictures as u64, "picture");
        heapwright_show::println!("{}", terminal::fitted(&format!("{}: {pictures}", folder.shown())));
    }
    if interruption::came() {
        heapwright_show::eprintln!("heapwright: interrupted: the real replays are those until then");
        return Ok(interruption::exit_code());
    }
    Ok(ExitCode::SUCCESS)
}

/// The report, and the finest map of each policy.
fn gather(path: &Path, arguments: &Arguments) -> Result<(Report, Vec<Planes>)> {
    let (models, chosen) = (arguments.heap.models(&arguments.policy)?, arguments.heap.rules.chosen()?);
    if !arguments.no_real {
        rules::refuse_odd(&chosen.simulated).context("add --no-real, or leave this rule out")?;
    }
    let progress = Progress::new("report", models.len());
    let read = gather::read(path)?;
    let mut simulated = gather::simulate(path, &read, &models, &progress)?;
    let peaks: Vec<_> = simulated.iter().map(|simulated| simulated.peak.as_ref()).collect();
    let pins = pins::read(path, &peaks)?;
    let heaps: Vec<u64> = simulated.iter().map(|simulated| simulated.outcome.peak_heap).collect();
    let levels: Vec<&[Planes]> = simulated.iter().map(|simulated| &simulated.levels[..]).collect();
    let maps = choice::pack(&levels, &heaps)?;
    let finest = simulated.iter_mut().filter_map(|simulated| simulated.levels.drain(..).next()).collect();
    drop(progress);
    let outcomes: Vec<&Outcome> = simulated.iter().map(|simulated| &simulated.outcome).collect();
    let real = resident::compare(path, &outcomes, &arguments.plan(&models, chosen.clone()))?;
    let [sizes, lifetimes, lifetimes_in_bytes] = gather::bins(&read.census);
    let parts = simulated.into_iter().zip(pins).zip(maps);
    let policies = parts.map(|((simulated, pins), map)| gather::policy(simulated, pins, map)).collect();
    let rules = &models[0].rules;
    let report = Report {
        schema: 1,
        title: arguments.title.clone().unwrap_or_else(|| title(&read.trace)),
        rules: RuleFigures {
            granule: rules.granule,
            header: rules.header,
            min_remainder: rules.min_remainder,
            region: (rules.growth == Growth::Fixed).then_some(models[0].capacity),
            named: chosen.of_programs.map(|_| chosen.simulated.to_string()),
            reference_engines: models.iter().filter_map(reference_engine).collect(),
        },
        sizes,
        lifetimes,
        lifetimes_in_bytes,
        holders: read.sites.is_some().then(|| holders::read(path, read.trace.times())).transpose()?,
        trace: read.trace,
        sites: read.sites,
        policies,
        real,
    };
    Ok((report, finest))
}

/// The policy of a heap that the reference engine simulates, and why.
fn reference_engine(model: &Model) -> Option<String> {
    model.odd_reason().map(|reason| format!("{}: {reason}", model.policy.name()))
}

/// The name of the program, or of the trace.
fn title(trace: &Trace) -> String {
    let program = trace.about.iter().find(|(name, _)| name == "program").map(|(_, text)| text.as_str());
    program.filter(|name| !name.is_empty()).unwrap_or(&trace.file).to_owned()
}
