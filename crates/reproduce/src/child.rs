//! Published programs run in child processes, so that each measurement starts from a fresh heap and under any
//! allocator: this command itself never links one.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use heapwright_allocators::allocator::Allocator;
use heapwright_host::child::{self, Dialogue, Job};
use heapwright_host::identity::{ensure_preloaded, origin_of_malloc};
use heapwright_workloads::published::programs::Layer;
use heapwright_workloads::published::programs::Program;
use heapwright_workloads::published::programs::Touch;

/// The job that a child of this executable does for [`Task::perform`].
pub const JOB: Job = Job { name: "reproduce", perform };

/// A job longer than this has hung.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A run of a published program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The program.
    pub program: Program,
    /// The layer of an allocator that it calls.
    pub layer: Layer,
    /// Whether it writes to its blocks.
    pub touch: Touch,
}

/// What a child replies.
#[derive(Serialize, Deserialize)]
struct Reply {
    /// The library that the child's malloc came from.
    malloc: PathBuf,
    /// The seconds of each part of the program.
    parts: Vec<f64>,
}

impl Task {
    /// Runs the program in a child process under `allocator` and returns the seconds of each of its parts.
    ///
    /// # Errors
    /// When the child cannot be started, fails, or is not done within the time limit; when its malloc did not come from
    /// the allocator's library.
    pub fn perform(&self, allocator: &Allocator) -> Result<Vec<f64>> {
        self.perform_in_child(allocator).with_context(|| format!("under {}", allocator.name()))
    }

    fn perform_in_child(&self, allocator: &Allocator) -> Result<Vec<f64>> {
        let mut command = JOB.command_for(self)?;
        allocator.apply(&mut command)?;
        let Reply { malloc, parts } = Dialogue::start(command)?.receive(TIME_LIMIT)?;
        ensure_preloaded(allocator.library()?.as_deref(), &malloc)?;
        Ok(parts)
    }
}

/// The child's side.
fn perform(task: &str) -> Result<()> {
    let Task { program, layer, touch } = child::parse_task(task)?;
    let parts = program.time_on(layer, touch)?;
    child::reply(&Reply { malloc: origin_of_malloc(), parts })
}
