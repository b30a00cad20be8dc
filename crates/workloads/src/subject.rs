//! The interface between workloads and allocators.

use std::fmt;
use std::time::{Duration, Instant};

use super::probe::Probe;
use heapwright_host::clock::processor_time;

/// An allocator under test. A block is identified by a number: its address, or its offset where there is no memory.
pub trait Subject {
    /// Allocates a block. Returns `None` when that fails.
    fn allocate(&mut self, bytes: usize) -> Option<usize>;

    /// Frees `block`, which was allocated with `bytes`, once.
    fn free(&mut self, block: usize, bytes: usize);
}

/// Whether a workload writes to its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Never.
    Nothing,
    /// It writes every byte of every block once, as a program that initialises its objects.
    Blocks,
}

/// Why a workload stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It exceeded its time limit.
    TooSlow,
    /// The allocator refused a request.
    Full,
    /// There is no memory for its own tables.
    NoMemory,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::TooSlow => "took longer than its time",
            Stop::Full => "had no memory left for a request",
            Stop::NoMemory => "found no memory for its own tables",
        })
    }
}

/// An allocator with a time limit, through which a workload allocates and frees.
pub struct Stage {
    subject: Box<dyn Subject>,
    touch: Touch,
    patience: Duration,
    /// Processor time, in seconds, at which the limit is reached.
    limit: f64,
    /// The earliest moment at which the limit can have been reached.
    next_look: Instant,
}

/// Number of operations between two checks of the time limit.
pub const OPERATIONS_PER_LOOK: usize = 512;

impl Stage {
    /// Wraps `subject`, with a limit of processor time for the preparation and the same for every round.
    pub fn new(subject: Box<dyn Subject>, touch: Touch, patience: Duration) -> Stage {
        let mut stage = Stage { subject, touch, patience, limit: 0.0, next_look: Instant::now() };
        stage.renew_patience();
        stage
    }

    /// Restarts the time limit.
    pub fn renew_patience(&mut self) {
        self.limit = processor_time() + self.patience.as_secs_f64();
        self.next_look = Instant::now() + self.patience;
    }

    /// Checks the time limit. Called from time to time.
    ///
    /// # Errors
    /// [`Stop::TooSlow`] when the limit is exceeded.
    pub fn look_at_time(&mut self) -> Result<(), Stop> {
        if Instant::now() < self.next_look {
            return Ok(());
        }
        let left = self.limit - processor_time();
        if left <= 0.0 {
            return Err(Stop::TooSlow);
        }
        self.next_look += Duration::from_secs_f64(left);
        Ok(())
    }

    /// Allocates and, if the workload touches memory, fills the block.
    ///
    /// # Errors
    /// [`Stop::Full`] when the allocator refuses the request.
    #[inline(always)]
    pub fn allocate(&mut self, probe: &mut impl Probe, bytes: usize) -> Result<usize, Stop> {
        let block = probe.operation(|| self.subject.allocate(bytes)).ok_or(Stop::Full)?;
        if self.touch == Touch::Blocks {
            // SAFETY: workloads write only to subjects whose blocks are memory, and this block was allocated with
            // `bytes` bytes.
            unsafe { std::ptr::write_bytes(std::hint::black_box(block as *mut u8), 0x5a, bytes) };
        }
        Ok(block)
    }

    /// Frees a block that [`Stage::allocate`] returned for `bytes`.
    #[inline(always)]
    pub fn free(&mut self, probe: &mut impl Probe, block: usize, bytes: usize) {
        probe.operation(|| self.subject.free(block, bytes));
    }
}
