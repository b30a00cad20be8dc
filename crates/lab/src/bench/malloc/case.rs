//! What there is to run: our own workloads, the published programs, and real programs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapwright_bench::{Counts, WORKLOADS, Workload};
use heapwright_trace::{Event, Reader};

use super::figures::Figures;
use super::process::{Base, Ended, Start};
use super::programs::{self, Program};
use crate::allocator::Allocator;
use crate::child::{self, Job};
use crate::compare::BUNDLED;
use crate::programs::{Layer, Program as Published, Touch};

/// Something to run.
pub enum Case {
    /// A workload of ours.
    Work(&'static Workload),
    /// A program of the published reports, and the names of its parts.
    Published(&'static str, Job, &'static [&'static str]),
    /// A program of this machine.
    Program(Program),
}

/// Names, and what they stand for.
pub struct Entry {
    /// What can be named on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

const PROGRAM_000: &str = "program000";
const PROGRAM_000_TOUCHED: &str = "program000/touched";
const PROGRAM_001: &str = "program001";

const PUBLISHED: [Entry; 3] = [
    Entry { name: PROGRAM_000, about: "the program of report 000, which does not write to its blocks" },
    Entry { name: PROGRAM_000_TOUCHED, about: "the same, written to" },
    Entry { name: PROGRAM_001, about: "the five tests of report 001" },
];

/// Everything that can be named.
pub fn entries() -> impl Iterator<Item = Entry> {
    let own = WORKLOADS.iter().map(|workload| Entry { name: workload.name, about: workload.about });
    own.chain(PUBLISHED).chain(programs::entries())
}

/// What is run if nothing is named: all but what only tests the measuring.
pub fn is_usual(name: &str) -> bool {
    WORKLOADS.iter().all(|workload| workload.name != name || workload.counts != Counts::Neither)
}

/// Whether it is a program of this machine that does real work.
pub fn is_real_program(name: &str) -> bool {
    programs::entries().any(|entry| entry.name == name) && !name.starts_with("start/")
}

/// Where cases find what they need.
pub struct Stage {
    base: Base,
    sizes: PathBuf,
    folder: PathBuf,
    share: f64,
}

impl Stage {
    /// Prepares `folder` for cases that do the share `share` of all their work.
    ///
    /// # Errors
    /// When something cannot be written there.
    pub fn new(folder: &Path, share: f64) -> Result<Stage> {
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        let sizes = folder.join("sizes");
        fs::write(&sizes, bundled_sizes()?).context("cannot write the sizes of the bundled trace")?;
        Ok(Stage { base: Base::new(&folder)?, sizes, folder, share })
    }

    /// Where programs are started from.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// The case of that name, or `None` if its program is not on this machine.
    ///
    /// # Errors
    /// When its input cannot be made.
    pub fn case(&self, name: &str) -> Result<Option<Case>> {
        if let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) {
            return Ok(Some(Case::Work(workload)));
        }
        let published = |program, touch| Job::Program { program, layer: Layer::Malloc, touch };
        Ok(match name {
            PROGRAM_000 => Some(Case::Published(PROGRAM_000, published(Published::Fits, Touch::Untouched), &[""])),
            PROGRAM_000_TOUCHED => {
                Some(Case::Published(PROGRAM_000_TOUCHED, published(Published::Fits, Touch::Touched), &[""]))
            }
            PROGRAM_001 => Some(Case::Published(
                PROGRAM_001,
                published(Published::Arena, Touch::Untouched),
                &["/allocate-16", "/free-16", "/allocate-4096", "/free-4096", "/pair-4096"],
            )),
            _ => programs::find(name, &self.folder)?.map(Case::Program),
        })
    }
}

impl Case {
    /// Whether it mostly sleeps: then a run costs much and says little that the first did not.
    pub fn sleeps(&self) -> bool {
        matches!(self, Case::Work(workload) if workload.counts == Counts::Cpu)
    }

    /// The names of its rows.
    pub fn rows(&self) -> Vec<String> {
        match self {
            Case::Work(workload) => vec![workload.name.to_owned()],
            Case::Published(name, _, parts) => parts.iter().map(|part| format!("{name}{part}")).collect(),
            Case::Program(program) => vec![program.name.to_owned()],
        }
    }

    /// Runs it once, in a fresh process, and returns the figures of each row.
    ///
    /// # Errors
    /// Why it could not be run to its end.
    pub fn run(&self, stage: &Stage, allocator: &Allocator) -> Result<Vec<Figures>> {
        match self {
            Case::Work(workload) => Ok(vec![stage.base.work(workload, stage.share, &stage.sizes, allocator)?]),
            Case::Published(_, job, _) => published(job, stage, allocator),
            Case::Program(program) => Ok(vec![program.run(&stage.base, allocator)?]),
        }
    }
}

/// A published program, in a child of this same command: that is no small process, and its memory says nothing.
fn published(job: &Job, stage: &Stage, allocator: &Allocator) -> Result<Vec<Figures>> {
    let command = env::current_exe().context("cannot find this command's own file")?;
    let command = vec![command.into(), OsString::from(child::COMMAND), serde_json::to_string(job)?.into()];
    let start = Start { command, settings: &[], input: Path::new("/dev/null"), times: 1 };
    let Ended { output, .. } = stage.base.start(&start, allocator)?;
    let seconds: Vec<f64> = child::parse(output.as_bytes(), allocator)?;
    Ok(seconds.into_iter().map(|cpu| Figures { cpu_seconds: Some(cpu), ..Figures::default() }).collect())
}

/// The sizes of the bundled trace's requests in a form that a workload reads without a heap.
fn bundled_sizes() -> Result<Vec<u8>> {
    /// So many: the beginning of a program is not like the rest.
    const MOST: usize = 1 << 16;
    let mut reader = Reader::new(BUNDLED).context("the bundled trace cannot be read")?;
    let mut sizes = Vec::new();
    while let Some(event) = reader.next_event().context("the bundled trace cannot be read")? {
        if let Event::Allocate { size, .. } = event {
            sizes.push(u32::try_from(size).unwrap_or(u32::MAX));
        }
    }
    let stride = sizes.len().div_ceil(MOST).max(1);
    Ok(sizes.into_iter().step_by(stride).flat_map(u32::to_le_bytes).collect())
}
