//! The programs that the published reports timed, generic over the allocator.
//!
//! Random numbers are drawn and tables of pointers are allocated before the clock starts, so only the allocator is
//! measured. The clock is the processor time of the process, as in the reports.

use std::hint::black_box;

use anyhow::{Context, Result};
use heapwright_placement::{PolicyKind, Rules};
use serde::{Deserialize, Serialize};

use super::heaps::{BareMappings, Heap, Malloc, Memory, Placed, Region, Segment, Touched};
use super::{GnuRandom, rules};
use heapwright_allocators::policy;
use heapwright_host::clock::processor_time;

/// A published program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// Report 000: 50,000 random blocks, two in five freed, 50,000 blocks of one size. One part.
    Fits,
    /// Report 001: small blocks, large blocks, and one block repeatedly. Five parts: 10,000 small blocks allocated,
    /// then freed; 100,000 large ones allocated, then freed; 1,000 pairs.
    Arena,
    /// Report 002: one block allocated and freed repeatedly. One part.
    SegmentPairs {
        /// The block's size.
        bytes: usize,
        /// What else is live in the segment.
        company: Company,
    },
    /// Report 004: one small block repeatedly. One part, the time of a pair.
    Pairs,
}

/// What is live while report 002's program allocates and frees a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Company {
    /// Nothing: the worst case of buddies, which split and join the whole segment each time.
    Nothing,
    /// A block of the same size: the best case of buddies.
    OneBlock,
}

/// The layer of an allocator that a program calls in a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The malloc of the child process.
    Malloc,
    /// An engine under the rules of the program's report.
    Engine(#[serde(with = "policy::by_name")] PolicyKind),
    /// The library's heap in a fixed region under the rules of the program's report.
    Fixed(#[serde(with = "policy::by_name")] PolicyKind),
    /// A heap in a shared-memory segment of report 002's length, under buddies as in the report.
    Segment,
    /// A bare mapping of OS pages for each block.
    BareMappings,
}

/// Whether a program writes to the memory that it allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Never, as the published programs.
    Untouched,
    /// It writes one byte in each 4 KiB of a block.
    Touched,
}

impl Touch {
    /// Both, in the order of the tables.
    pub const BOTH: [Touch; 2] = [Touch::Untouched, Touch::Touched];

    /// Returns the word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Touch::Untouched => "untouched",
            Touch::Touched => "touched",
        }
    }
}

/// Number of pairs that report 002 timed.
pub const SEGMENT_PAIRS: usize = 100_000;

/// Number of pairs that report 004 timed, and the bytes of each block.
const PAIRS: usize = 10_000;
const PAIR_BYTES: usize = 128;

impl Program {
    /// Runs the program on a fresh heap and returns the seconds of each of its parts.
    ///
    /// # Errors
    /// When the heap cannot be created or refuses a request.
    pub fn time_on(self, layer: Layer, touch: Touch) -> Result<Vec<f64>> {
        match layer {
            Layer::Malloc => self.time_touching(Malloc, touch),
            Layer::Segment => self.time_touching(Segment::create(&rules::segment())?, touch),
            Layer::BareMappings => self.time_touching(BareMappings { bytes: PAIR_BYTES }, touch),
            Layer::Engine(policy) => {
                let (capacity, rules) = self.heap();
                self.time_touching(Placed::new(policy, capacity, &rules)?, touch)
            }
            Layer::Fixed(policy) => {
                let (capacity, rules) = self.heap();
                self.time_touching(Region::new(policy, capacity, &rules)?, touch)
            }
        }
    }

    fn time_touching(self, mut heap: impl Memory, touch: Touch) -> Result<Vec<f64>> {
        match touch {
            Touch::Untouched => self.time(&mut heap),
            Touch::Touched => self.time(&mut Touched(heap)),
        }
    }

    /// Returns the length of the heap in the program's report, in bytes, and its rules.
    fn heap(self) -> (usize, Rules) {
        match self {
            Program::Fits => (rules::FITS_CAPACITY, rules::FITS),
            Program::Arena => (rules::ARENA_CAPACITY, rules::ARENA),
            Program::SegmentPairs { .. } => (rules::segment().size, Rules { granule: 128, ..Rules::default() }),
            Program::Pairs => (1 << 20, Rules::default()),
        }
    }

    fn time(self, heap: &mut impl Heap) -> Result<Vec<f64>> {
        match self {
            Program::Fits => {
                let draws = Draws::of_report();
                let mut blocks = vec![0; 2 * COUNT];
                Ok(vec![timed(|| draws.run(heap, &mut blocks))?])
            }
            Program::Arena => arena(heap),
            Program::SegmentPairs { bytes, company } => Ok(vec![timed(|| segment_pairs(heap, bytes, company))?]),
            Program::Pairs => {
                let seconds = timed(|| (0..PAIRS).try_for_each(|_| pair(heap, PAIR_BYTES)))?;
                Ok(vec![seconds / PAIRS as f64])
            }
        }
    }
}

/// Number of blocks that each half of report 000's program allocates.
pub const COUNT: usize = 50_000;

/// The size of most blocks of report 000's program, and of its output buffer.
const COMMON: usize = 1024;

/// The random numbers of report 000's program, from the GNU C library's generator with seed 0.
pub struct Draws {
    /// The sizes of the first half's blocks.
    sizes: Vec<usize>,
    /// Whether each of them is freed.
    freed: Vec<bool>,
}

impl Draws {
    /// Draws the numbers as the report's program does.
    pub fn of_report() -> Draws {
        let mut random = GnuRandom::seeded(0);
        let mut draw = |below: u32| random.draw() % below;
        let sizes = (0..COUNT).map(|_| if draw(10) < 4 { COMMON } else { draw(5120) as usize + COMMON }).collect();
        let freed = (0..COUNT).map(|_| draw(10) >= 6).collect();
        Draws { sizes, freed }
    }

    /// Runs the program; `blocks` takes the blocks of both halves.
    pub fn run(&self, heap: &mut impl Heap, blocks: &mut [usize]) -> Result<()> {
        let (first, second) = blocks.split_at_mut(COUNT);
        for (block, &size) in first.iter_mut().zip(&self.sizes) {
            *block = take(heap, size)?;
        }
        for (&block, _) in first.iter().zip(&self.freed).filter(|(_, freed)| **freed) {
            heap.free(block);
        }
        for block in second {
            *block = take(heap, COMMON)?;
        }
        // The buffer of a terminal, taken from the same heap when the program prints its time.
        take(heap, COMMON).map(|_| ())
    }
}

fn arena(heap: &mut impl Heap) -> Result<Vec<f64>> {
    let mut small = vec![0; 10_000];
    let mut large = vec![0; 100_000];
    Ok(vec![
        timed(|| fill(heap, &mut small, 16))?,
        timed(|| drain(heap, &small))?,
        timed(|| fill(heap, &mut large, 4096))?,
        timed(|| drain(heap, &large))?,
        timed(|| (0..1_000).try_for_each(|_| pair(heap, 4096)))?,
    ])
}

fn fill(heap: &mut impl Heap, blocks: &mut [usize], bytes: usize) -> Result<()> {
    blocks.iter_mut().try_for_each(|block| take(heap, bytes).map(|taken| *block = taken))
}

fn drain(heap: &mut impl Heap, blocks: &[usize]) -> Result<()> {
    blocks.iter().for_each(|&block| heap.free(block));
    Ok(())
}

/// A block that stays live is allocated first.
fn segment_pairs(heap: &mut impl Heap, bytes: usize, company: Company) -> Result<()> {
    match company {
        Company::Nothing => (0..SEGMENT_PAIRS).try_for_each(|_| pair(heap, bytes)),
        Company::OneBlock => {
            let held = take(heap, bytes)?;
            (1..SEGMENT_PAIRS).try_for_each(|_| pair(heap, bytes))?;
            heap.free(held);
            Ok(())
        }
    }
}

fn pair(heap: &mut impl Heap, bytes: usize) -> Result<()> {
    let block = take(heap, bytes)?;
    heap.free(black_box(block));
    Ok(())
}

fn take(heap: &mut impl Heap, bytes: usize) -> Result<usize> {
    heap.allocate(bytes).with_context(|| format!("a request of {bytes} bytes failed"))
}

/// Returns the processor time of `work`, in seconds.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = processor_time();
    work()?;
    Ok(processor_time() - start)
}
