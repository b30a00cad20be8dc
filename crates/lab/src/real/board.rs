//! What the command and its worker share: one piece of memory, in which the command writes the task and the worker what
//! comes of it. So the worker allocates nothing to answer, and what it had done is known when it does not live to say.

use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::{AsFd, FromRawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result};
use memmap2::MmapMut;

use super::histogram::Histogram;
use super::violation::Violation;

/// The most samples of a run.
pub const MOST_SAMPLES: usize = 320;

/// What the worker is to do.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Task {
    /// Operations in the script.
    pub events: u64,
    /// Places that the operations name.
    pub slots: u64,
    /// How many operations have been done when most bytes live; 0 where that is no moment of its own.
    pub peak: u64,
    /// The longest block, in bytes.
    pub longest: u64,
    /// Operations that are read at a time.
    pub window: u64,
    /// Operations between two samples.
    pub stride: u64,
    /// Threads of the trace, and how many of them are there in one window at most; 0 when one thread makes all calls.
    pub threads: u64,
    pub lanes: u64,
    /// The heap may become so long, in bytes.
    pub allowance: u64,
    /// One of the constants of [`super::worker`]: from whom, what is written, how it is watched.
    pub source: u32,
    pub payload: u32,
    pub watch: u32,
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

/// What came of it.
#[repr(C)]
pub struct Report {
    /// How it ended, one of the constants of [`ending`]: nothing yet at first.
    pub ending: AtomicU32,
    /// Operations done, brought up to date after every batch.
    pub done: AtomicU64,
    pub nanoseconds: u64,
    pub processor_nanoseconds: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub refused: u64,
    /// What the kernel says was the most, in bytes; 0 when it does not say.
    pub high_water: u64,
    /// The most bytes from the system, by the allocator's own marks; 0 when they cannot be read.
    pub system_peak: u64,
    pub samples: [Sample; MOST_SAMPLES],
    pub sampled: u64,
    pub violation: Violation,
    /// Nanoseconds of a tick, and what reading the clock costs, in ticks.
    pub tick: f64,
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
    /// The allocator did what no allocator may.
    pub const VIOLATION: u32 = 2;
    /// The heap became longer than allowed.
    pub const TOO_LONG: u32 = 3;
}

/// Everything.
#[repr(C)]
pub struct Board {
    pub task: Task,
    pub report: Report,
}

impl Report {
    /// Sets how it ended.
    pub fn end(&self, ending: u32) {
        self.ending.store(ending, Ordering::Release);
    }

    /// Notes how far it came.
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
    /// A new one, all zeroes, and its file.
    pub fn create() -> Result<(Shared, File)> {
        // SAFETY: the name ends with a zero byte.
        let fd = unsafe { libc::memfd_create(c"heapwright-board".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error()).context("cannot make memory to share with a child process");
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(size_of::<Board>() as u64).context("cannot make memory to share with a child process")?;
        Ok((Shared::open(&file)?, file))
    }

    /// The board in a file that [`Shared::create`] made.
    pub fn open(file: &impl AsFd) -> Result<Shared> {
        let file = File::from(file.as_fd().try_clone_to_owned().context("no file to share")?);
        anyhow::ensure!(
            file.metadata()?.len() == size_of::<Board>() as u64,
            "started by hand: this is a part of `heapwright replay --real`"
        );
        // SAFETY: the file is one that only this command and its worker know, and neither cuts it short.
        let mapping = unsafe { MmapMut::map_mut(&file) }.context("cannot map the memory that is shared")?;
        Ok(Shared { mapping, _board: PhantomData })
    }

    /// Touches all of it, so that nothing that is timed pays for it.
    pub fn touch(&mut self) {
        for byte in self.mapping.iter_mut().step_by(4096) {
            *std::hint::black_box(byte) |= 0;
        }
    }

    /// The board.
    pub fn get(&self) -> &Board {
        // SAFETY: the mapping is aligned to pages and as long as a board, for which any bytes are a value: integers and
        // floats only. The other process writes while it runs; what it writes then is read through atomics.
        unsafe { &*self.mapping.as_ptr().cast() }
    }

    /// The board, to write to.
    pub fn get_mut(&mut self) -> &mut Board {
        // SAFETY: as above.
        unsafe { &mut *self.mapping.as_mut_ptr().cast() }
    }
}
