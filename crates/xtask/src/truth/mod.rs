//! `cargo xtask truth`: how true replays are, measured.
//!
//! Modules from the bottom up: `programs` (what programs need); `ordinary`, `misleading` and `list` (which they are);
//! `evidence` (what was measured, in files); `real` (real runs); `predicted` (what `heapwright compare` says);
//! `figures` (both, side by side); `errors`, `orderings`, `claims` and `verdicts` (how they agree); `case` (all of a
//! program); `itself` (the system's malloc against itself); `summary` and `page` (docs/truth.md).

mod case;
mod claims;
mod errors;
mod evidence;
mod figures;
mod itself;
mod list;
mod misleading;
mod orderings;
pub mod ordinary;
mod page;
mod predicted;
pub mod programs;
mod real;
mod summary;
mod verdicts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use heapwright_allocators::launcher::Launcher;
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::interruption::{self, Interruption};
use heapwright_host::temporary::Folder;
use heapwright_show::number::{self, parse_duration};

use self::case::Case;
use self::evidence::Evidence;
use self::predicted::{Basis, Comparing, Effort};
use self::programs::Program;
use self::real::Contender;
use crate::workspace::workspace;

/// The arguments of `cargo xtask truth`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only programs whose names contain this; several parts are separated by commas
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,

    /// Number of rounds of real runs; intervals take six
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// About how long the replays of a program may take
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_duration)]
    budget: Duration,

    /// The command to judge [default: target/release/heapwright]
    #[arg(long, value_name = "PATH")]
    command: Option<PathBuf>,

    /// Judge verdicts with --confirm, too; takes half as long again
    #[arg(long)]
    confirmed: bool,

    /// Compare the system's malloc with itself this many times, half of them on a loaded machine, and nothing else
    #[arg(long, value_name = "N", conflicts_with_all = ["only", "confirmed", "from"])]
    against_itself: Option<usize>,

    /// Keep what is measured in this folder; a program that is there is not measured again [default: target/truth]
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    keep: Option<PathBuf>,

    /// Measure nothing; write the page from what this folder has
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,

    /// The page to write [default: docs/truth.md]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask truth                             all programs, in 25 minutes; writes docs/truth.md
  cargo xtask truth --only jq,perl --keep /tmp/try --page /tmp/try/truth.md
  cargo xtask truth --confirmed                 judges verdicts with --confirm, too
  cargo xtask truth --against-itself 200        the system's malloc against itself, in two hours
  cargo xtask truth --from target/truth         writes the page again

Exit code: 0 when the page is written, 1 when a program failed, 130 after Ctrl-C.";

/// Measures what is not measured yet, and writes the page.
///
/// # Errors
/// When the command to judge is not there, or the page cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = workspace()?;
    let until = Interruption::listen()?;
    let page = arguments.page.clone().unwrap_or_else(|| root.join("docs/truth.md"));
    let page = Destination::of(&page, Contents::Other, &[])?;
    let kept = arguments.keep.clone().unwrap_or_else(|| root.join("target/truth"));
    let mut failures = Vec::new();
    if arguments.from.is_none() {
        fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
        let command = arguments.command.clone().unwrap_or_else(|| root.join("target/release/heapwright"));
        let command = command.canonicalize().with_context(|| {
            format!("there is no {}: build it (cargo build --release), or name another (--command)", command.display())
        })?;
        failures = measure(arguments, &command, &kept, &until)?;
        if until.came() {
            return Ok(interruption::exit_code());
        }
    }
    write(arguments.from.as_deref().unwrap_or(&kept), &page)?;
    for failure in &failures {
        heapwright_show::eprintln!("xtask: {failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures; returns what failed.
fn measure(arguments: &Arguments, command: &Path, kept: &Path, until: &Interruption) -> Result<Vec<String>> {
    let work = Folder::new("truth")?;
    if let Some(count) = arguments.against_itself {
        let measured = itself::measure(count, command, kept, work.path(), until);
        return Ok(measured.err().map(|error| format!("{error:#}")).into_iter().collect());
    }
    let contenders = real::contenders();
    let missing = real::missing(&contenders);
    if !missing.is_empty() {
        let missing = missing.join(", ");
        heapwright_show::eprintln!("not here: {missing} (cargo xtask peers; libtcmalloc-minimal4 of Debian)");
    }
    let bench = Bench { arguments, command, contenders: &contenders, work: work.path(), until };
    let selected: Vec<&Program> =
        list::all().filter(|program| list::is_selected(program.name, arguments.only.as_deref())).collect();
    ensure!(!selected.is_empty(), "no program's name contains that");
    let mut failures = Vec::new();
    for (at, program) in selected.iter().enumerate() {
        let place = format!("{}/{} {}", at + 1, selected.len(), program.name);
        let result = bench.complete(program, kept, &place);
        if until.came() {
            break;
        }
        failures.extend(result.err().map(|error| format!("{}: {error:#}", program.name)));
    }
    Ok(failures)
}

/// What programs are measured with.
struct Bench<'a> {
    arguments: &'a Arguments,
    command: &'a Path,
    contenders: &'a [Contender],
    /// A temporary folder.
    work: &'a Path,
    until: &'a Interruption,
}

impl Bench<'_> {
    /// Measures what is not known of a program.
    fn complete(&self, program: &Program, kept: &Path, place: &str) -> Result<()> {
        let before = Evidence::of(program.name, kept)?;
        if before.as_ref().is_some_and(|before| before.confirmed.is_some() || !self.arguments.confirmed) {
            heapwright_show::eprintln!("{place}: measured before");
            return Ok(());
        }
        let start = Instant::now();
        let folder = self.work.join(program.name);
        fs::create_dir_all(&folder).context("cannot make a folder")?;
        let prepared = program.prepare(&folder)?;
        let comparing = Comparing {
            command: self.command,
            contenders: self.contenders,
            effort: Effort::Budget(self.arguments.budget),
            folder: self.work,
        };
        let (real, compared, seconds) = match before {
            Some(before) => (before.real, before.compared, before.seconds),
            None => {
                let launcher = Launcher::new(self.work)?;
                let rounds = self.arguments.rounds;
                let real = real::measure(&prepared, &launcher, self.contenders, rounds, self.until)?;
                (real, comparing.program(&prepared, Basis::Replays)?, 0.0)
            }
        };
        let confirmed = self.arguments.confirmed.then(|| comparing.program(&prepared, Basis::Confirmed)).transpose()?;
        let took = start.elapsed().as_secs_f64();
        Evidence::new(program.name, real, compared, confirmed, seconds + took).keep(kept)?;
        heapwright_show::eprintln!("{place}: {}", number::seconds(took));
        Ok(())
    }
}

/// Writes the page from what `folder` has, and prints its summary.
fn write(folder: &Path, page: &Destination) -> Result<()> {
    let mut cases = Vec::new();
    let mut missing = Vec::new();
    for program in list::all() {
        match Evidence::of(program.name, folder)? {
            Some(evidence) => cases.push(Case::of(program, &evidence)?),
            None => missing.push(program.name),
        }
    }
    let trials = itself::kept(folder)?;
    page.write(page::page(&cases, &missing, &trials).as_bytes())?;
    heapwright_show::print!("{}", summary::table(&cases, &trials));
    Ok(())
}
