//! `heapwright bench malloc`: measures malloc libraries as programs use them when preloaded.
//!
//! From the bottom up: `contender` (the columns), `figures` (what is measured), `process` (starting a program by the
//! small launcher, which measures it), `programs` and `case` (what is run), `rounds` (all contenders, interleaved),
//! `instructions` (counted by valgrind), `analysis` (ratios, noise and means), `show`, `chart` and `export` (tables, a
//! picture and JSON), `select` and `arguments` (the command line). The workloads are in the crate `heapwright-bench`.

mod analysis;
mod arguments;
mod case;
mod chart;
mod contender;
mod export;
mod figures;
mod instructions;
mod process;
mod programs;
mod rounds;
mod select;
mod show;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

pub use self::analysis::{Mean, Suite};
use self::arguments::Extent;
pub use self::arguments::{Arguments, EXAMPLES, Selection};
use self::case::{Case, Stage};
pub use self::contender::{Contender, Role};
use self::export::Settings;
pub use self::figures::{Cell, Figures, Kept, Measure, Row};
pub use self::instructions::Instructions;
use self::rounds::Rounds;
use heapwright_allocators::preload;
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::interruption;
use heapwright_host::interruption::Interruption;
use heapwright_host::temporary::Folder;
use heapwright_show::usage;

/// Measures and prints what `arguments` select.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        case::entries().for_each(|entry| heapwright_show::println!("{:16} {}", entry.name, entry.about));
        return Ok(ExitCode::SUCCESS);
    }
    let libraries = arguments.selection.libraries();
    let written = [&arguments.json, &arguments.chart].into_iter().flatten();
    let written = written.map(|path| Destination::of(path, Contents::Other, &libraries));
    let written: Vec<Destination> = written.collect::<Result<_>>()?;
    Destination::ensure_apart(&written.iter().collect::<Vec<_>>())?;
    if arguments.chart.is_some() && !arguments.selection.names().into_iter().any(case::samples_memory) {
        usage::refuse("these workloads do not sample what is retained; scattered, phases and redis-server/deleted do");
    }
    let subject = if arguments.instructions { Subject::Instructions } else { Subject::Runs };
    let contenders = arguments.selection.contenders(|_| true);
    let measured = measure(&arguments.selection, arguments.rounds, contenders, subject)?;
    if arguments.json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        measured.print();
    }
    measured.print_missing();
    if measured.interrupted {
        heapwright_show::eprintln!("heapwright: interrupted: the figures are those of the runs until then");
    }
    if let Some(path) = &arguments.json {
        measured.write(path)?;
    }
    if let Some(path) = &arguments.chart {
        chart::write(path, measured.suite())?;
    }
    Ok(match measured.interrupted {
        true => interruption::exit_code(),
        false if measured.has_failures() => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Time and memory of workloads and programs.
    Runs,
    /// The instructions of malloc and of free; an error without valgrind.
    Instructions,
    /// Runs, and instructions if valgrind is installed.
    Both,
}

/// The results of a measurement.
pub struct Measured {
    /// The columns.
    pub contenders: Vec<Contender>,
    /// The workloads.
    pub rows: Vec<Row>,
    /// Programs that are not installed on this machine.
    pub missing: Vec<String>,
    /// The instructions of malloc and of free.
    pub instructions: Vec<Instructions>,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
    extent: Extent,
}

impl Measured {
    /// Returns the rows and columns.
    pub fn suite(&self) -> Suite<'_> {
        Suite { contenders: &self.contenders, rows: &self.rows }
    }

    /// Prints the tables.
    pub fn print(&self) {
        show::print(self.suite(), &self.instructions);
    }

    /// Prints which programs are not installed.
    pub fn print_missing(&self) {
        if !self.missing.is_empty() {
            heapwright_show::eprintln!("heapwright: not on this machine: {}", self.missing.join(", "));
        }
    }

    /// Writes every run to `path`, or to standard output if that is `-`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let Extent { rounds, shares, .. } = self.extent;
        let settings = Settings { rounds, share: shares.usual, interrupted: self.interrupted };
        export::write(path, self.suite(), &self.missing, &self.instructions, settings)
    }

    /// Returns whether a run failed, or counting the instructions of our malloc. Other mallocs may fail under valgrind.
    pub fn has_failures(&self) -> bool {
        let mut cells = self.rows.iter().flat_map(|row| &row.cells);
        let is_ours = |name: &str| self.suite().places(Role::Ours).any(|at| self.contenders[at].name == name);
        let mut uncounted = self.instructions.iter().filter(|it| it.failure.is_some());
        cells.any(|cell| cell.failure.is_some()) || uncounted.any(|it| is_ours(&it.allocator))
    }
}

/// Returns whether instructions can be counted on this machine.
pub fn has_valgrind() -> bool {
    instructions::tool().is_some()
}

/// Measures `contenders` on the workloads of `selection`, in the given number of rounds or the default.
///
/// # Errors
/// When a folder for inputs cannot be created, a workload cannot be prepared, or valgrind is needed and missing.
pub fn measure(
    selection: &Selection,
    rounds: Option<u16>,
    contenders: Vec<Contender>,
    subject: Subject,
) -> Result<Measured> {
    // Found before anything is measured: a library that a variable names may be none.
    preload::loadable_library(None)?;
    let until = Interruption::listen()?;
    let folder = Folder::new("bench")?;
    let extent = selection.extent(rounds);
    let stage = Stage::new(folder.path(), extent.shares)?;
    let tool = instructions::tool();
    if subject == Subject::Instructions && tool.is_none() {
        bail!(
            "instructions are counted by valgrind, which is not installed; bench/peers/make installs it with apt-get"
        );
    }
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    if subject != Subject::Instructions {
        let cases = cases(selection, &stage, &mut missing)?;
        let rounds = Rounds {
            cases: &cases,
            contenders: &contenders,
            stage: &stage,
            rounds: extent.rounds,
            sleepers_once: extent.sleepers_once,
            until: &until,
        };
        rows = rounds.hold();
    }
    let tool = tool.filter(|_| subject != Subject::Runs);
    let count = |tool| instructions::count(stage.base(), tool, &contenders, &until);
    let instructions = tool.as_deref().map_or_else(Vec::new, count);
    // Removed before anything is printed: when the reader of a pipe ends early, SIGPIPE ends this process without
    // destructors.
    drop(folder);
    Ok(Measured { rows, missing, instructions, interrupted: until.came(), extent, contenders })
}

/// Returns the selected cases, and adds the names of programs that are not installed to `missing`.
fn cases(selection: &Selection, stage: &Stage, missing: &mut Vec<String>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for name in selection.names() {
        match stage.case(name)? {
            Some(case) => cases.push(case),
            None => missing.push(name.to_owned()),
        }
    }
    Ok(cases)
}
