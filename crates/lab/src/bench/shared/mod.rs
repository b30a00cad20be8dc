//! `heapwright bench shared`: a segment that several processes allocate from at a time, ours and Boost.Interprocess's.
//!
//! Every measurement (`team`) is made on a new segment by processes of their own: workers of this command (`worker`) or of
//! the `comparator`, which get the same words (`task`), make the same requests (`load`, `boost.cpp`) and read the same
//! clocks. The contenders take turns, round by round; `report` and `bars` are what comes of it.

mod bars;
mod clock;
mod comparator;
mod contender;
mod load;
mod report;
pub mod task;
mod team;
pub mod worker;

use std::process::ExitCode;

use anyhow::Result;

use self::comparator::Comparator;
use self::contender::Contender;
use self::report::Row;
use self::task::{Load, Pattern, Sizes, Touch};
use self::team::Match;
use crate::progress::Progress;
use crate::results;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright bench shared                     half a minute
  heapwright bench shared --processes 1,2     one process, and two at a time
  heapwright bench shared --full --json       more blocks, written to as well, for a program to read
  heapwright bench shared --bars              does the project keep what it promises?

Boost.Interprocess takes part where there is a C++ compiler and its headers (on
Debian and Ubuntu: apt-get install g++ libboost-dev). Its driver is compiled with
-O2 -DNDEBUG and gets a segment of the same length and the same requests. All
blocks are aligned to 16 bytes. An operation is one allocate or one free. Its time
is processor time for one process; for several it is the time that passes, divided
by all operations that they do in it together. `boost rbtree (A/A)` is Boost once
more: what differs there is noise.";

/// What may be typed after `heapwright bench shared`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How many processes work at a time: several numbers, one after the other.
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u8).range(1..=60))]
    processes: Vec<u8>,

    /// Rounds per measurement; the more, the less noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,

    /// Also ten times the blocks, and written to as well; more and longer rounds: twenty minutes.
    #[arg(long)]
    full: bool,

    /// Measure what the project's bars are about, say for each whether it holds, and exit with 1 unless all do.
    #[arg(long, conflicts_with_all = ["full", "processes"])]
    bars: bool,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// A case: what so many processes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    load: Load,
    processes: usize,
}

impl Case {
    /// How long the segment is, in bytes: more than enough for all live blocks and the holes between them.
    fn segment(self) -> usize {
        match self.load.live {
            ..=1000 if self.processes <= 8 => 16 << 20,
            live => live * self.processes * 2048,
        }
    }
}

/// How thoroughly to measure.
struct Effort {
    /// Milliseconds that count, of a window for two processes; more processes have more, to get a processor each.
    window: u64,
    rounds: usize,
}

impl Effort {
    /// Nanoseconds before anything counts, and while it does.
    fn window(&self, processes: usize) -> (u64, u64) {
        (WARMING_UP, self.window * 1_000_000 * processes.div_ceil(2) as u64)
    }
}

/// Nanoseconds for which a heap is worked on before anything counts.
const WARMING_UP: u64 = 5_000_000;

impl Arguments {
    fn loads(&self) -> Vec<Load> {
        let (lives, touches): (&[usize], &[Touch]) = match self.full {
            true => (&[1000, 10_000], &[Touch::Untouched, Touch::Touched]),
            false => (&[1000], &[Touch::Untouched]),
        };
        let mut loads = Vec::new();
        for &touch in touches {
            for sizes in [Sizes::Small, Sizes::Mixed] {
                loads.extend(lives.iter().map(|&live| Load { pattern: Pattern::Steady, sizes, touch, live }));
                loads.push(Load { pattern: Pattern::Pair, sizes, touch, live: 1 });
            }
        }
        loads
    }

    fn processes(&self) -> Vec<usize> {
        if self.bars { bars::PROCESSES.to_vec() } else { self.processes.iter().copied().map(usize::from).collect() }
    }

    fn effort(&self) -> Effort {
        let (window, rounds) = match (self.full, self.bars) {
            (true, _) => (100, 9),
            (_, true) => (40, 15),
            _ => (20, 5),
        };
        Effort { window, rounds: self.repeat.map_or(rounds, usize::from) }
    }
}

/// Measures what `arguments` ask for and prints it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if cfg!(debug_assertions) && !arguments.json {
        anstream::println!(
            "This command was built for debugging: its own times are no measure (use cargo --release).\n"
        );
    }
    let building = Progress::new("building the driver of Boost.Interprocess", 1);
    building.at("a few seconds");
    let comparator = Comparator::build();
    drop(building);
    if let (Err(error), false) = (&comparator, arguments.json) {
        anstream::println!("Boost.Interprocess is not measured: {error:#}\n");
    }
    let program = comparator.as_ref().ok().map(|comparator| comparator.program.as_path());
    let mut contenders = Contender::all(program);
    if arguments.bars {
        contenders.retain(bars::is_about);
    }
    let (effort, processes) = (arguments.effort(), arguments.processes());
    let cases = |load| processes.iter().map(move |&processes| Case { load, processes });
    let turns = |case: Case| contenders.iter().filter(move |it| it.takes_part(case.processes, case.load.live));
    let loads = arguments.loads();
    let matches: usize = loads.iter().flat_map(|&load| cases(load)).map(|case| turns(case).count()).sum();
    let progress = Progress::new("bench shared", matches * effort.rounds);
    let missing = comparator.as_ref().err().map(|error| format!("{error:#}"));
    let mut all_rows = Vec::new();
    for &load in &loads {
        let mut rows = Vec::new();
        for case in cases(load) {
            progress.at(&format!("{load}, {} processes", case.processes));
            let field: Vec<&Contender> = turns(case).collect();
            rows.extend(report::rows(case, &field, &measure(case, &field, &effort, &progress)));
            rows.extend(missing.as_ref().map(|why| Row::missing(case, contender::BOOST, why)));
        }
        if !arguments.json {
            progress.aside(|| report::print(load, &rows, comparator.as_ref().ok().map(|it| it.version.as_str())));
        }
        all_rows.extend(rows);
    }
    drop(progress);
    if arguments.bars {
        return bars::conclude(&all_rows, arguments.json);
    }
    if arguments.json {
        results::print(&all_rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The nanoseconds of an operation in each round, or why there are none.
type Rounds = Result<Vec<f64>, String>;

/// Everybody plays once a round, in an order that rotates; whoever fails once is out.
fn measure(case: Case, field: &[&Contender], effort: &Effort, progress: &Progress) -> Vec<Rounds> {
    let mut outcomes: Vec<Rounds> = field.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..effort.rounds {
        for turn in 0..field.len() {
            let at = (round + turn) % field.len();
            if let Ok(rounds) = &mut outcomes[at] {
                let Case { load, processes } = case;
                let (window, seed) = (effort.window(processes), round as u64);
                let game = Match { contender: field[at], processes, load, bytes: case.segment(), window, seed };
                match game.play() {
                    Ok(nanoseconds) => rounds.push(nanoseconds),
                    Err(error) => outcomes[at] = Err(format!("{error:#}")),
                }
            }
            progress.step();
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_what_lives_in_them_twice_over() {
        for (live, processes) in [(1, 1), (1000, 8), (1000, 60), (10_000, 1), (10_000, 8)] {
            let load = Load { pattern: Pattern::Steady, sizes: Sizes::Mixed, touch: Touch::Untouched, live };
            let case = Case { load, processes };
            assert!(case.segment() >= 2 * 740 * live * processes, "{case:?}");
        }
    }
}
