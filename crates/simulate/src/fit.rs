//! `heapwright fit`: the shortest region in which a recorded program succeeds.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::{PolicyKind, Rules};
use heapwright_replay::{Bound, Certainty, Demand, Effort, Fit, Model, Recording, Says};
use serde::{Serialize, Serializer};

use crate::choice::{HeapArguments, print_engines};
use heapwright_allocators::policy;
use heapwright_host::files::ensure_rereadable;
use heapwright_host::names::Shown;
use heapwright_host::parallel;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_show::progress::Progress;
use heapwright_show::results;
use heapwright_show::table::Table;
use heapwright_show::terminal;
use heapwright_show::usage;
use heapwright_stats as stats;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright fit gcc.hwt                            every policy
  heapwright fit gcc.hwt -p first,best              two of them
  heapwright fit gcc.hwt --granule 8 --header 8     other rules
  heapwright fit small.hwt --exhaustive             every shorter region is tried, too
  heapwright fit gcc.hwt -p random --seeds 20       how much chance does

A region is found in which the trace succeeds, and fails with one granule less. It need not be the shortest of
all: a policy may fail in a region that is longer than one in which it succeeds. The column 'known as' tells:
  least         no heap can do with less: so much lives at one time
  shortest      no shorter region succeeds (every one was tried, or it is proven)
  shortest met  shorter regions were tried here and there, and failed

Exit code: 0, or 1 when under some policy no region is long enough, or the trace cannot be read.";

/// The arguments of `fit`.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// Policies, separated by commas; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name)))]
    pub policy: Vec<String>,

    /// The rules of the simulated heap.
    #[command(flatten)]
    pub heap: HeapArguments,

    /// Number of seeds for random fit, from `--seed` on.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,

    /// Number of regions to try on each side of the result.
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "exhaustive")]
    pub samples: u32,

    /// Try every shorter region, down to the peak of the live bytes: slow, but the result is the shortest.
    #[arg(long)]
    pub exhaustive: bool,

    /// Number of threads [default: one per processor].
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per policy and seed.
    #[arg(long)]
    pub json: bool,
}

/// The result for a policy. Sizes in bytes.
#[derive(Serialize)]
struct Row {
    #[serde(with = "policy::by_name")]
    policy: PolicyKind,
    /// Of random fit; the others have none.
    seed: Option<u64>,
    #[serde(flatten, serialize_with = "with_all_keys")]
    fit: Option<Fit>,
    /// No shorter region holds what lives at one time.
    lower_bound: u64,
    #[serde(flatten)]
    demand: Demand,
    /// In every region of this length or more, the policy refuses nothing. `None` under good fit and odd rules, which
    /// may need more, and where no region was found.
    always_enough: Option<u64>,
    /// What is known of the worst of all programs that ask for as much.
    worst_cases: Vec<Bound>,
    /// Whether the theorems are about programs like this one.
    premises_hold: bool,
    /// The engine that placed the blocks: `fast` or `reference`.
    engine: &'static str,
    seconds: f64,
    /// Why only a part of the trace was replayed.
    damage: Option<String>,
    /// The longest region that is tried.
    #[serde(skip)]
    longest: u64,
}

/// Serializes what was found: without it, every key with null.
fn with_all_keys<S: Serializer>(fit: &Option<Fit>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Found<'f> {
        region: Option<u64>,
        certainty: Option<Certainty>,
        fails_above: Option<&'f [u64]>,
        tried: Option<u32>,
    }
    let fit = fit.as_ref();
    let found = Found {
        region: fit.map(|fit| fit.region),
        certainty: fit.map(|fit| fit.certainty),
        fails_above: fit.map(|fit| &*fit.fails_above),
        tried: fit.map(|fit| fit.tried),
    };
    found.serialize(serializer)
}

/// The most memory for events; a longer trace is read again for every region.
const ROOM: usize = 256 << 20;

/// Searches, and prints the results.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.heap.rules.region.is_some() || arguments.heap.rules.limit.is_some() {
        usage::refuse(
            "the length of the region is what fit searches: leave out --region and --limit, or use `heapwright replay`",
        );
    }
    let name = arguments.trace.shown();
    let recording = Recording::open(&arguments.trace, ROOM).with_context(|| name.to_string())?;
    if !recording.is_in_memory() {
        ensure_rereadable(&arguments.trace)?;
    }
    let models = models(arguments)?;
    let (rules, requests) = (models[0].rules, models[0].requests);
    warn_of_part(&arguments.trace, recording.damage(), recording.incomplete());
    let demand = Demand::of(&recording, &rules, &requests).with_context(|| name.to_string())?;
    let watch = Watch::new(models.len());
    let search = |at: usize| {
        let start = Instant::now();
        let fit = Fit::search(&recording, &models[at], effort(arguments), |trial| watch.tried(at, trial.left));
        watch.ended(at);
        let damage = recording.damage().map(ToString::to_string);
        fit.map(|fit| Row { damage, ..Row::new(&models[at], fit, &demand, start) })
    };
    let rows = parallel::collect(arguments.jobs.unwrap_or_else(parallel::cores), 0..models.len(), search)
        .with_context(|| name.to_string())?;
    drop(watch);
    if arguments.json {
        results::print(&rows)?;
    } else {
        print(&rows, &demand, &models);
        print_engines(&unseeded(&models));
    }
    Ok(if rows.iter().all(|row| row.fit.is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn effort(arguments: &Arguments) -> Effort {
    if arguments.exhaustive { Effort::Exhaustive } else { Effort::Samples(arguments.samples) }
}

/// What is searched for: one heap per policy, one per seed of random fit.
fn models(arguments: &Arguments) -> Result<Vec<Model>> {
    let of = |model: Model| {
        let seeds = if model.policy == PolicyKind::Random { arguments.seeds } else { 1 };
        (0..seeds).map(move |more| Model { seed: model.seed.wrapping_add(more), ..model })
    };
    Ok(arguments.heap.models_of_any_length(&arguments.policy)?.into_iter().flat_map(of).collect())
}

/// The models, one for each policy.
fn unseeded(models: &[Model]) -> Vec<Model> {
    models.chunk_by(|a, b| a.policy == b.policy).map(|same| same[0]).collect()
}

impl Row {
    fn new(model: &Model, fit: Option<Fit>, demand: &Demand, start: Instant) -> Row {
        let enough = demand.enough_region(model.policy, &model.rules);
        let has_bound = fit.is_some() && model.odd_reason().is_none();
        let mut worst_cases = Bound::all(demand, &model.rules);
        worst_cases.retain(|bound| bound.heaps.includes(model.policy));
        Row {
            policy: model.policy,
            seed: (model.policy == PolicyKind::Random).then_some(model.seed),
            fit,
            lower_bound: demand.least_region(model.policy, &model.rules),
            demand: *demand,
            always_enough: enough.filter(|_| has_bound),
            worst_cases,
            premises_hold: Bound::premises_hold(demand, &model.rules) && model.odd_reason().is_none(),
            engine: model.engine_name(),
            seconds: start.elapsed().as_secs_f64(),
            damage: None,
            longest: model.capacity as u64,
        }
    }
}

/// The progress of several searches, each of which tries an unknown number of regions.
struct Watch {
    bar: Progress,
    /// Regions tried, and how many each search has left.
    state: Mutex<(u64, Vec<u64>)>,
}

impl Watch {
    /// What a search that has not begun is taken to need.
    const USUAL: u64 = 35;

    fn new(searches: usize) -> Watch {
        Watch { bar: Progress::new("regions", 0), state: Mutex::new((0, vec![Self::USUAL; searches])) }
    }

    fn tried(&self, search: usize, left: u64) {
        let Ok(mut state) = self.state.lock() else { return };
        state.0 += 1;
        state.1[search] = left;
        self.show(&state);
    }

    fn ended(&self, search: usize) {
        let Ok(mut state) = self.state.lock() else { return };
        state.1[search] = 0;
        self.show(&state);
    }

    fn show(&self, (done, left): &(u64, Vec<u64>)) {
        self.bar.is_at(*done, done + left.iter().sum::<u64>());
    }
}

fn print(rows: &[Row], demand: &Demand, models: &[Model]) {
    let rules = &models[0].rules;
    heapwright_show::print!("{}", fits(rows, demand));
    if demand.peak_rounded == u64::MAX {
        return tell(
            "16 EiB or more live at one time, which is more than can be counted. Look for sizes that are none, such as \
             -1, in what the trace was made of.",
        );
    }
    tell(&format!(
        "At most {} bytes asked for live at one time; {} with rounding{}: no heap that does not move blocks is \
         shorter.",
        number::grouped(demand.peak_requested),
        number::grouped(demand.peak_rounded),
        if rules.header > 0 { " and headers" } else { "" }
    ));
    for row in rows {
        print_notes(row);
    }
    print_worst_cases(demand, rules, models.iter().find_map(Model::odd_reason));
}

fn fits(rows: &[Row], demand: &Demand) -> Table {
    let mut table = Table::new(["policy", "region (bytes)", "range", "/ asked", "/ lower bound", "known as", "tried"]);
    for rows in rows.chunk_by(|a, b| a.policy == b.policy) {
        let found: Vec<&Fit> = rows.iter().filter_map(|row| row.fit.as_ref()).collect();
        let regions = stats::sorted(&found.iter().map(|fit| fit.region as f64).collect::<Vec<_>>());
        let over = |bytes: u64| {
            let median = stats::quantile(&regions, 0.5).filter(|_| bytes != 0);
            median.map_or("-".to_owned(), |median| format!("{:.4}", median / bytes as f64))
        };
        let whole = |region: Option<f64>| region.map_or("-".to_owned(), |region| number::grouped(region as u64));
        let range = match regions[..] {
            [least, .., most] => format!("{} to {}", whole(Some(least)), whole(Some(most))),
            _ => String::new(),
        };
        table.row([
            rows[0].policy.name().to_owned(),
            whole(stats::quantile(&regions, 0.5)),
            range,
            over(demand.peak_requested),
            over(rows[0].lower_bound),
            known_as(&found).to_owned(),
            number::grouped(found.iter().map(|fit| u64::from(fit.tried)).sum()),
        ]);
    }
    table
}

/// What holds of all of these.
fn known_as(found: &[&Fit]) -> &'static str {
    let all = |what: &[Certainty]| found.iter().all(|fit| what.contains(&fit.certainty));
    match found {
        [] => "none that is tried is enough",
        _ if all(&[Certainty::LowerBound]) => "least",
        _ if all(&[Certainty::LowerBound, Certainty::FirstFit, Certainty::Scanned]) => "shortest",
        _ => "shortest met",
    }
}

/// What a reader would not expect of a row.
fn print_notes(Row { policy, seed, fit, longest, .. }: &Row) {
    let name = seed.map_or(policy.name().to_owned(), |seed| format!("{} (seed {seed})", policy.name()));
    match fit {
        None => say(
            "",
            &format!(
                "{name}: some request finds no place in a region of {}, the longest that is tried.",
                number::bytes(*longest)
            ),
        ),
        Some(fit) if !fit.fails_above.is_empty() => {
            let shown: Vec<String> = fit.fails_above.iter().take(5).map(|&fails| number::grouped(fails)).collect();
            let more = if fit.fails_above.len() > shown.len() { " and more" } else { "" };
            say("", &format!("{name} fails in longer regions: of {}{more}.", shown.join("; ")));
        }
        Some(_) => {}
    }
}

/// Prints what is known of all programs; `odd` is a rule of which the theorems are not.
fn print_worst_cases(demand: &Demand, rules: &Rules, odd: Option<&str>) {
    let bounds = Bound::all(demand, rules);
    if bounds.is_empty() {
        return;
    }
    tell(&format!(
        "The worst of all programs that have no more live (M) and no block longer than this one's longest, {} (n):",
        number::bytes(demand.largest_rounded)
    ));
    for bound in &bounds {
        let says = match bound.says {
            Says::SomeProgramNeeds => "some program needs",
            Says::NoProgramNeedsMore => "no program needs more than",
        };
        let length = match bound.bytes {
            u64::MAX => "a length above 16 EiB, more than any memory".to_owned(),
            bytes => number::bytes(bytes),
        };
        say("  ", &format!("{}: {says} {length}", bound.heaps.name()));
        say("    ", &format!("= {}, in granules", bound.formula));
        say("    ", bound.source);
    }
    if !Bound::premises_hold(demand, rules) {
        let text = format!(
            "These are theorems about programs that only allocate and free. This one also resizes blocks ({} times) \
             or asks for alignments above the granule ({}), or its heap lets blocks keep remainders: it may need more.",
            number::grouped(demand.resizes),
            number::grouped(demand.aligned)
        );
        say("", &text);
    }
    if let Some(odd) = odd {
        let text = format!(
            "These are theorems about heaps that merge adjacent holes at once, and refuse a request only if no hole is \
             long enough. Here {odd}: programs may need more."
        );
        say("", &text);
    }
}

/// Prints a paragraph behind an empty line.
fn tell(text: &str) {
    heapwright_show::println!();
    say("", text);
}

/// Prints a paragraph, each line behind `margin`.
fn say(margin: &str, text: &str) {
    heapwright_show::println!("{}", terminal::fitted_behind(margin, text));
}
