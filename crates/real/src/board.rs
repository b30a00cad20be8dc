//! Shared memory of the command and its worker process. The command writes the task, the worker writes its report. The
//! worker thus reports without allocating, and the report of a worker that crashes is still readable.

use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result};
use heapwright_host::memory::file_in_memory;
use memmap2::MmapMut;

use super::histogram::Histogram;
use super::op::Op;
use super::violation::Violation;

/// The maximal number of samples of a run.
pub const MOST_SAMPLES: usize = 320;

/// What the worker is to do.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Task {
    /// Operations in the script.
    pub events: u64,
    /// Slots that the operations name.
    pub slots: u64,
    /// Number of operations after which the most bytes are live; 0 where there is no sample of its own for that.
    pub peak: u64,
    /// The longest block, in bytes.
    pub longest: u64,
    /// Operations that are read at a time.
    pub window: u64,
    /// Operations between two samples.
    pub stride: u64,
    /// Number of threads in the trace.
    pub threads: u64,
    /// Maximal number of them in one window; 0 when one thread makes all calls.
    pub lanes: u64,
    /// Number of windows in the script.
    pub windows: u64,
    /// Number of marks of the clock.
    pub marks: u64,
    /// Maximal length of the heap, in bytes.
    pub allowance: u64,
    /// The allocator: a constant of [`super::worker::source`].
    pub source: u32,
    /// What is written to blocks: a constant of [`super::worker::payload`].
    pub payload: u32,
    /// Whether calls are timed: a constant of [`super::worker::latencies`].
    pub latencies: u32,
}

/// Offsets in the file of the script, in bytes.
impl Task {
    /// Where the numbers of the threads' last events begin.
    pub fn last_events(&self) -> u64 {
        self.events * size_of::<Op>() as u64
    }

    /// Where the ends of the windows begin.
    pub fn first_window(&self) -> u64 {
        self.last_events() + self.threads * size_of::<u64>() as u64
    }

    /// Where the marks of the clock begin.
    pub fn first_mark(&self) -> u64 {
        self.first_window() + self.windows * size_of::<u64>() as u64
    }
}

/// The heap's memory at some point of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[repr(C)]
pub struct Sample {
    /// How many events have happened.
    pub event: u64,
    /// The resident bytes of the heap alone.
    pub rss: u64,
}

/// The worker's results.
#[repr(C)]
pub struct Report {
    /// How it ended: a constant of [`ending`], or 0 while the run goes on.
    pub ending: AtomicU32,
    /// Number of operations done, updated after every batch.
    pub done: AtomicU64,
    pub nanoseconds: u64,
    pub processor_nanoseconds: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub refused: u64,
    /// The processor time of a page fault, in nanoseconds.
    pub fault_nanoseconds: f64,
    /// All that is resident before the first call, in bytes.
    pub start_rss: u64,
    /// The kernel's high-water mark of resident memory, in bytes; 0 when it is not available.
    pub high_water: u64,
    /// Maximum of the bytes obtained from the system, by the allocator's own metadata; 0 when it cannot be read.
    pub system_peak: u64,
    /// Usable bytes of the live blocks at the trace's peak of requested bytes; 0 when they are not added up.
    pub usable: u64,
    pub samples: [Sample; MOST_SAMPLES],
    pub sampled: u64,
    pub violation: Violation,
    /// Nanoseconds per tick.
    pub tick: f64,
    /// Ticks that reading the clock takes.
    pub clock_cost: u64,
    /// Of allocations, resizes and frees.
    pub histograms: [Histogram; 3],
    /// The path of the library that malloc came from, up to a zero byte.
    pub malloc: [u8; 4096],
}

/// How a run can end.
pub mod ending {
    /// All operations were done.
    pub const DONE: u32 = 1;
    /// The allocator violated its contract.
    pub const VIOLATION: u32 = 2;
    /// The heap exceeded the allowance.
    pub const TOO_LONG: u32 = 3;
}

/// The contents of the shared memory.
#[repr(C)]
pub struct Board {
    pub task: Task,
    pub report: Report,
}

impl Report {
    /// Records how the run ended.
    pub fn end(&self, ending: u32) {
        self.ending.store(ending, Ordering::Release);
    }

    /// Records the number of operations done.
    pub fn note_progress(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}

/// A [`Board`] in memory that can be handed to another process as a file.
pub struct Shared {
    mapping: MmapMut,
    _board: PhantomData<Board>,
}

impl Shared {
    /// Creates a board of zeroes and returns it with its file.
    pub fn create() -> Result<(Shared, File)> {
        let file = file_in_memory("heapwright-board").context("cannot make memory to share with a child process")?;
        file.set_len(size_of::<Board>() as u64).context("cannot make memory to share with a child process")?;
        Ok((Shared::open(&file)?, file))
    }

    /// Maps the board in a file that [`Shared::create`] returned.
    pub fn open(file: &impl AsFd) -> Result<Shared> {
        let file = File::from(file.as_fd().try_clone_to_owned().context("no file to share")?);
        anyhow::ensure!(
            file.metadata()?.len() == size_of::<Board>() as u64,
            "started by hand: this is a part of `heapwright replay --real`"
        );
        // SAFETY: the file has no name; only this command and its worker have it open, and neither truncates it, so the
        // mapping stays backed by the file.
        let mapping = unsafe { MmapMut::map_mut(&file) }.context("cannot map the memory that is shared")?;
        Ok(Shared { mapping, _board: PhantomData })
    }

    /// Touches every page, so that page faults do not happen in the timed part.
    pub fn touch(&mut self) {
        for byte in self.mapping.iter_mut().step_by(4096) {
            *std::hint::black_box(byte) |= 0;
        }
    }

    /// The board.
    pub fn get(&self) -> &Board {
        // SAFETY: the mapping is aligned to pages and as long as a board. Any bytes are a valid board, which consists
        // of integers and floats. Of the fields that the other process writes while it runs, this one reads only
        // atomics.
        unsafe { &*self.mapping.as_ptr().cast() }
    }

    /// The board, for writing.
    pub fn get_mut(&mut self) -> &mut Board {
        // SAFETY: the mapping is aligned to pages, as long as a board, and any bytes are a valid board. `&mut self`
        // makes this the only reference in this process, and the command writes before it starts the worker.
        unsafe { &mut *self.mapping.as_mut_ptr().cast() }
    }
}
