//! `heapwright bench shared`: measures heaps from which several processes allocate at the same time, ours and
//! Boost.Interprocess's.
//!
//! Every `measurement` uses a new segment and new worker processes: of this command (`worker`) or of the `comparator`.
//! Both get the same messages (`task`), make the same requests (`load`, `boost.cpp`) and read the same clocks. The
//! rounds of all contenders are interleaved. `report` prints the results. `large` measures what a heap of a million
//! blocks does to those who come and those who stay.

mod case;
mod comparator;
mod contender;
pub mod large;
mod measurement;
mod report;

use std::process::ExitCode;

use anyhow::Result;

use self::case::{Case, Rounds};
use self::comparator::Comparator;
pub use self::contender::{BOOST, BOOST_AGAIN, Contender, MALLOC, NOTHING, POLICIES, WITH_SLABS};
use self::measurement::Measurement;
pub use self::report::Row;
use crate::output::Output;
use heapwright_show::progress::Progress;
use heapwright_show::results;
use heapwright_stats::FEWEST;
pub use heapwright_workloads::shared::task::{Figure, Load, Pattern, Sizes, Touch, word};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright bench shared                     half a minute
  heapwright bench shared --processes 1,2     one process, and two at a time
  heapwright bench shared --tail              how long the slowest call in a thousand takes
  heapwright bench shared --full --json       more blocks, written to as well, for a program to read

Boost.Interprocess takes part where there is a C++ compiler and its headers (on
Debian and Ubuntu: apt-get install g++ libboost-dev). Its driver is compiled with
-O2 -DNDEBUG and gets a segment of the same length and the same requests. All
blocks are aligned to 16 bytes. An operation is one allocate or one free. Its time
is processor time for one process; for several it is elapsed time divided by the
operations of all processes. `boost rbtree (A/A)` is Boost a second time: the
difference is noise.";

/// The arguments of `heapwright bench shared`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Numbers of processes that allocate at the same time; each is measured in turn.
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_value = "1,2,4,8")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=60))]
    processes: Vec<u8>,

    /// Number of measurement rounds. More rounds reduce the noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,

    /// Also measure ten times the blocks, and writing to them, in more and longer rounds: twenty minutes.
    #[arg(long)]
    full: bool,

    /// Measure the time within which 99.9 % of the calls end, instead of the mean. The clock is read at every call.
    #[arg(long)]
    tail: bool,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Milliseconds of the measured part of a window for two processes; longer for more, so that each gets a processor.
    pub window: u64,
    /// Rounds per measurement.
    pub rounds: usize,
}

impl Effort {
    /// Returns the nanoseconds of the warm-up, and of the measured part.
    fn window(&self, processes: usize) -> (u64, u64) {
        (WARM_UP, self.window * 1_000_000 * processes.div_ceil(2) as u64)
    }
}

/// Nanoseconds of the warm-up.
const WARM_UP: u64 = 5_000_000;

/// What is measured.
pub struct Plan {
    /// The loads, measured in turn.
    pub loads: Vec<Load>,
    /// The numbers of processes, measured in turn.
    pub processes: Vec<usize>,
    /// How thoroughly.
    pub effort: Effort,
    /// Returns whether a contender is measured.
    pub takes_part: fn(&Contender) -> bool,
}

/// Returns the loads with each of `lives` blocks per process, and each of `touches`, of which `figure` is measured.
pub fn loads(lives: &[usize], touches: &[Touch], figure: Figure) -> Vec<Load> {
    let mut loads = Vec::new();
    for &touch in touches {
        for sizes in [Sizes::Small, Sizes::Mixed] {
            loads.extend(lives.iter().map(|&live| Load { pattern: Pattern::Steady, sizes, touch, live, figure }));
            loads.push(Load { pattern: Pattern::Pair, sizes, touch, live: 1, figure });
        }
    }
    loads
}

impl Arguments {
    fn plan(&self) -> Plan {
        let figure = if self.tail { Figure::Tail } else { Figure::Mean };
        let (loads, window, rounds) = match self.full {
            true => (loads(&[1000, 10_000], &[Touch::Untouched, Touch::Touched], figure), 100, 9),
            false => (loads(&[1000], &[Touch::Untouched], figure), 20, FEWEST),
        };
        Plan {
            loads,
            processes: self.processes.iter().copied().map(usize::from).collect(),
            effort: Effort { window, rounds: self.repeat.map_or(rounds, usize::from) },
            takes_part: |_| true,
        }
    }
}

/// Measures and prints what `arguments` select.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.json {
        results::print(&measure(&arguments.plan(), Output::Nothing))?;
    } else {
        measure(&arguments.plan(), Output::Tables);
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures `plan` and returns all rows. Where Boost's driver cannot be built, Boost's rows contain the reason instead
/// of figures.
pub fn measure(plan: &Plan, output: Output) -> Vec<Row> {
    if cfg!(debug_assertions) && output == Output::Tables {
        heapwright_show::println!("This is a debug build, whose times mean nothing: use cargo --release.\n");
    }
    let building = Progress::new("building the driver of Boost.Interprocess", 1);
    building.at("a few seconds");
    let comparator = Comparator::build();
    drop(building);
    if let (Err(error), Output::Tables) = (&comparator, output) {
        heapwright_show::println!("Boost.Interprocess is not measured: {error:#}\n");
    }
    let program = comparator.as_ref().ok().map(|comparator| comparator.program.as_path());
    let mut contenders = Contender::all(program);
    contenders.retain(plan.takes_part);
    let cases = |load| plan.processes.iter().map(move |&processes| Case { load, processes });
    let turns = |case: Case| contenders.iter().filter(move |it| it.takes_part(case.processes, case.load.live));
    let measurements: usize = plan.loads.iter().flat_map(|&load| cases(load)).map(|case| turns(case).count()).sum();
    let progress = Progress::new("bench shared", measurements * plan.effort.rounds);
    let missing = comparator.as_ref().err().map(|error| format!("{error:#}"));
    let mut all_rows = Vec::new();
    for &load in &plan.loads {
        let mut rows = Vec::new();
        for case in cases(load) {
            progress.at(&format!("{load}, {} processes", case.processes));
            let field: Vec<&Contender> = turns(case).collect();
            rows.extend(report::rows(case, &field, &take_turns(case, &field, &plan.effort, &progress)));
            rows.extend(missing.as_ref().map(|why| Row::missing(case, contender::BOOST, why)));
        }
        if output == Output::Tables {
            progress.aside(|| report::print(load, &rows, comparator.as_ref().ok().map(|it| it.version.as_str())));
        }
        all_rows.extend(rows);
    }
    all_rows
}

/// Measures every contender once per round, in an order that rotates. A contender that failed is not measured again.
fn take_turns(case: Case, field: &[&Contender], effort: &Effort, progress: &Progress) -> Vec<Rounds> {
    let mut outcomes: Vec<Rounds> = field.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..effort.rounds {
        for turn in 0..field.len() {
            let at = (round + turn) % field.len();
            if let Ok(rounds) = &mut outcomes[at] {
                let Case { load, processes } = case;
                let (window, seed) = (effort.window(processes), round as u64);
                let measurement =
                    Measurement { contender: field[at], processes, load, bytes: case.segment(), window, seed };
                match measurement.run() {
                    Ok(nanoseconds) => rounds.push(nanoseconds),
                    Err(error) => outcomes[at] = Err(format!("{error:#}")),
                }
            }
            progress.step();
        }
    }
    outcomes
}
