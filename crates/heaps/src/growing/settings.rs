//! What is chosen when a growing heap is made, and why it cannot be made.

use core::fmt;

use heapwright_os::Refused;
use heapwright_placement::{Growth, Rules, RulesError, Statistics};
use heapwright_rules::{Invalid, Requests};

/// When the memory that a heap grows into is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Page by page, as blocks are written to.
    WhenTouched,
    /// In large steps before it is touched, once the previous step was touched, in a heap of more than 1 MiB: one
    /// system call instead of many page faults.
    Ahead,
}

/// The settings of a [`GrowingHeap`](super::GrowingHeap) besides its policy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The most that the heap can grow to, in bytes of address space: up to the policy's
    /// [`most_granules`](heapwright_placement::PolicyKind::most_granules). The capacity of a heap that grows is rounded
    /// up to whole pages, unless it is made by [`GrowingHeap::within`](super::GrowingHeap::within), and is halved while
    /// the system has no range that long. No limit of the process counts more of it than is in use. Default: 1 TiB.
    pub capacity: usize,
    /// Smallest unit of placement and least alignment, in bytes: a power of two up to 4096. Default: 16.
    pub granule: u32,
    /// Bytes in front of every block that no other block gets, a multiple of the granule up to 4096: a model of
    /// allocators with headers. Nothing is written there. Default: 0.
    pub header: u32,
    /// A remainder shorter than this stays with the block, in bytes. Default: 1.
    pub min_remainder: u32,
    /// How the heap gets longer. A heap that does not grow is as long as its capacity from the start. Default: by what
    /// is missing, in steps of 64 KiB.
    pub growth: Growth,
    /// The least alignment, the least request, and what a request of 0 bytes gets: under
    /// [`Zero::Null`](crate::Zero::Null) it fails. Default: no such rule, and a block.
    pub requests: Requests,
    /// Pages in holes are purged when this many bytes of them are pending, or a fraction of the bytes in use if that is
    /// more (of the heap without statistics). Default: 32 MiB, about as much as other allocators retain.
    pub keep: usize,
    /// That fraction, as a divisor, not 0. In a heap with statistics, up to eight times as much is pending for a while
    /// where purged pages are used again within 0.1 s; they count until the next sweep. Default: a quarter.
    pub keep_part: usize,
    /// When memory is backed. Default: ahead.
    pub backing: Backing,
    /// Seed of random fit.
    pub seed: u64,
    /// Whether the heap keeps [`Counters`](heapwright_placement::Counters).
    pub statistics: Statistics,
}

impl Settings {
    /// The rules of an engine over a region at an address.
    pub(super) fn rules(&self, phase: usize) -> Rules {
        Rules {
            granule: self.granule,
            header: self.header,
            min_remainder: self.min_remainder,
            growth: self.growth,
            phase,
            statistics: self.statistics,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            capacity: 1 << 40,
            granule: 16,
            header: 0,
            min_remainder: 1,
            growth: Growth::Pages(64 << 10),
            requests: Requests::USUAL,
            keep: 32 << 20,
            keep_part: 4,
            backing: Backing::Ahead,
            seed: 0,
            statistics: Statistics::Kept,
        }
    }
}

/// The bytes of addresses, whole pages, that are claimed for tables beside those of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Directly in front of the heap's own tables. At an address that is a multiple of a power of two that is as long
    /// as a 64th of the capacity, at most 1 GiB.
    pub before: usize,
    /// Behind them.
    pub after: usize,
}

/// Why a heap could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The settings are invalid.
    Rules(RulesError),
    /// The least alignment is no power of two up to 4096.
    Align,
    /// The system refused even a small heap.
    Refused,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Rules(error) => error.fmt(f),
            CreateError::Align => Invalid::Align.fmt(f),
            CreateError::Refused => Refused.fmt(f),
        }
    }
}

impl core::error::Error for CreateError {}

impl From<RulesError> for CreateError {
    fn from(error: RulesError) -> Self {
        CreateError::Rules(error)
    }
}
