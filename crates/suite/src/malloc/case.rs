//! The cases: workloads of the small measuring program, and real programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapwright_bench::{Counts, WORKLOADS, Workload};
use heapwright_trace::{Event, Reader};

use super::figures::Figures;
use super::process::Base;
use super::programs::{self, Entry, Program};
use heapwright_allocators::allocator::Allocator;
use heapwright_carried::BUNDLED;
use heapwright_host::names::Shown;

/// A case.
pub enum Case {
    /// A workload of ours.
    Work(&'static Workload),
    /// A program installed on this machine.
    Program(Program),
}

/// Returns all workloads and programs that can be named.
pub fn entries() -> impl Iterator<Item = Entry> {
    let own = WORKLOADS.iter().map(|workload| Entry { name: workload.name, about: workload.about });
    own.chain(programs::entries())
}

/// Returns whether a workload is run by default: all except those that only test the harness.
pub fn is_usual(name: &str) -> bool {
    let is_unusual = |workload: &Workload| workload.counts == Counts::Neither && workload.parts.is_empty();
    !WORKLOADS.iter().any(|workload| workload.name == name && is_unusual(workload))
}

/// Returns whether a workload samples the memory that is retained after frees.
pub fn samples_memory(name: &str) -> bool {
    let own = WORKLOADS.iter().any(|workload| workload.name == name && workload.counts == Counts::Cpu);
    own || programs::samples_memory(name)
}

/// Returns whether a name is that of a real program that does work, rather than only start.
pub fn is_real_program(name: &str) -> bool {
    programs::entries().any(|entry| entry.name == name) && !name.starts_with("start/")
}

/// The shares of their full work that our own workloads do, from 0 to 1.
#[derive(Clone, Copy)]
pub struct Shares {
    /// Most workloads.
    pub usual: f64,
    /// Workloads that mostly sleep: less work hardly shortens them.
    pub sleepers: f64,
}

/// The files and folders that cases need.
pub struct Stage {
    base: Base,
    sizes: PathBuf,
    folder: PathBuf,
    shares: Shares,
}

impl Stage {
    /// Prepares `folder` for cases with these shares.
    ///
    /// # Errors
    /// When a file cannot be written there.
    pub fn new(folder: &Path, shares: Shares) -> Result<Stage> {
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.shown()))?;
        let sizes = folder.join("sizes");
        fs::write(&sizes, bundled_sizes()?).context("cannot write the sizes of the bundled trace")?;
        Ok(Stage { base: Base::new(&folder)?, sizes, folder, shares })
    }

    /// Returns the base from which programs are started.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Returns the case of a name, or `None` if its program is not installed.
    ///
    /// # Errors
    /// When its input cannot be created.
    pub fn case(&self, name: &str) -> Result<Option<Case>> {
        if let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) {
            return Ok(Some(Case::Work(workload)));
        }
        Ok(programs::find(name, &self.folder)?.map(Case::Program))
    }
}

impl Case {
    /// Returns whether it mostly sleeps: a further run then takes long and adds little information.
    pub fn sleeps(&self) -> bool {
        match self {
            Case::Work(workload) => samples_memory(workload.name),
            Case::Program(program) => samples_memory(program.name),
        }
    }

    /// Returns the names of its rows.
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
    /// When it cannot be started or does not succeed.
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

/// Returns the sizes of the bundled trace's requests in a form that a workload reads without a heap.
fn bundled_sizes() -> Result<Vec<u8>> {
    /// Maximal number of sizes, taken evenly from the whole trace: the start of a program is not typical.
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
