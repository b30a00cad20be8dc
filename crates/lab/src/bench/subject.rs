//! What a workload drives, and how.

use std::fmt;
use std::time::{Duration, Instant};

use super::probe::Probe;
use crate::programs::processor_time;

/// An allocator under test. A block is known by a number: its address, or its offset where there is no memory.
pub trait Subject {
    /// A new block, or `None` when it cannot be had.
    fn allocate(&mut self, bytes: usize) -> Option<usize>;

    /// Frees `block`, which was allocated with `bytes`, once.
    fn free(&mut self, block: usize, bytes: usize);
}

/// Whether a workload writes to the memory that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Not at all.
    Nothing,
    /// Every byte of every block, once, as a program does that fills its objects.
    Blocks,
}

/// Why a workload ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was still running when its time was over.
    TooSlow,
    /// The allocator refused a request.
    Full,
    /// Its own book-keeping does not fit into memory.
    NoMemory,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::TooSlow => "took longer than its time",
            Stop::Full => "had no memory left for a request",
            Stop::NoMemory => "found no memory for its book-keeping",
        })
    }
}

/// An allocator at work: what a workload allocates and frees through.
pub struct Stage {
    subject: Box<dyn Subject>,
    touch: Touch,
    patience: Duration,
    /// Processor time, in seconds, at which patience ends.
    limit: f64,
    /// The earliest moment at which the limit can have been reached.
    next_look: Instant,
}

/// After how many operations a workload looks at the time.
pub const OPERATIONS_PER_LOOK: usize = 512;

impl Stage {
    /// `subject` at work, with `patience` of processor time for its preparation and as much for every round.
    pub fn new(subject: Box<dyn Subject>, touch: Touch, patience: Duration) -> Stage {
        let mut stage = Stage { subject, touch, patience, limit: 0.0, next_look: Instant::now() };
        stage.renew_patience();
        stage
    }

    /// Allows the full time from now on.
    pub fn renew_patience(&mut self) {
        self.limit = processor_time() + self.patience.as_secs_f64();
        self.next_look = Instant::now() + self.patience;
    }

    /// Says whether there is time left; to be asked now and then.
    ///
    /// # Errors
    /// [`Stop::TooSlow`]
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
    /// [`Stop::Full`]
    #[inline(always)]
    pub fn allocate(&mut self, probe: &mut impl Probe, bytes: usize) -> Result<usize, Stop> {
        let block = probe.operation(|| self.subject.allocate(bytes)).ok_or(Stop::Full)?;
        if self.touch == Touch::Blocks {
            // SAFETY: only subjects whose blocks are memory are touched, and the block is `bytes` long.
            unsafe { std::ptr::write_bytes(std::hint::black_box(block as *mut u8), 0x5a, bytes) };
        }
        Ok(block)
    }

    /// Frees a block that [`Stage::allocate`] gave for `bytes`.
    #[inline(always)]
    pub fn free(&mut self, probe: &mut impl Probe, block: usize, bytes: usize) {
        probe.operation(|| self.subject.free(block, bytes));
    }
}
