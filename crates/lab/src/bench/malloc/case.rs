//! What there is to run: workloads of the small program, and real programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapwright_bench::{Counts, WORKLOADS, Workload};
use heapwright_trace::{Event, Reader};

use super::figures::Figures;
use super::process::Base;
use super::programs::{self, Program};
use crate::allocator::Allocator;
use crate::compare::BUNDLED;

/// Something to run.
pub enum Case {
    /// A workload of ours.
    Work(&'static Workload),
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

/// Everything that can be named.
pub fn entries() -> impl Iterator<Item = Entry> {
    let own = WORKLOADS.iter().map(|workload| Entry { name: workload.name, about: workload.about });
    own.chain(programs::entries())
}

/// What is run if nothing is named: all but what only tests the measuring.
pub fn is_usual(name: &str) -> bool {
    let is_unusual = |workload: &Workload| workload.counts == Counts::Neither && workload.parts.is_empty();
    !WORKLOADS.iter().any(|workload| workload.name == name && is_unusual(workload))
}

/// Whether it is a program of this machine that does real work.
pub fn is_real_program(name: &str) -> bool {
    programs::entries().any(|entry| entry.name == name) && !name.starts_with("start/")
}

/// How much of all their work our own workloads do, 1 being all of it.
#[derive(Clone, Copy)]
pub struct Shares {
    /// Most of them.
    pub usual: f64,
    /// Those that mostly sleep: with less work they take hardly less time.
    pub sleepers: f64,
}

/// Where cases find what they need.
pub struct Stage {
    base: Base,
    sizes: PathBuf,
    folder: PathBuf,
    shares: Shares,
}

impl Stage {
    /// Prepares `folder` for cases that do so much of their work.
    ///
    /// # Errors
    /// When something cannot be written there.
    pub fn new(folder: &Path, shares: Shares) -> Result<Stage> {
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        let sizes = folder.join("sizes");
        fs::write(&sizes, bundled_sizes()?).context("cannot write the sizes of the bundled trace")?;
        Ok(Stage { base: Base::new(&folder)?, sizes, folder, shares })
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
        Ok(programs::find(name, &self.folder)?.map(Case::Program))
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
            Case::Work(workload) => {
                let parts = workload.parts.iter().map(|part| format!("{}/{part}", workload.name));
                [workload.name.to_owned()].into_iter().chain(parts).collect()
            }
            Case::Program(program) => vec![program.name.to_owned()],
        }
    }

    /// Runs it once, in a fresh process, and returns the figures of each row.
    ///
    /// # Errors
    /// Why it could not be run to its end.
    pub fn run(&self, stage: &Stage, allocator: &Allocator) -> Result<Vec<Figures>> {
        match self {
            Case::Work(workload) => {
                let share = if self.sleeps() { stage.shares.sleepers } else { stage.shares.usual };
                stage.base.work(workload, share, &stage.sizes, allocator)
            }
            Case::Program(program) => Ok(vec![program.run(&stage.base, allocator)?]),
        }
    }
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
