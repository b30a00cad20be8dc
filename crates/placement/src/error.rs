//! One small enum of errors per operation. A failed operation leaves the heap unchanged.

use core::fmt;

/// Why a set of rules, or a region, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesError {
    /// The granule is not a power of two from 1 to 4096 bytes.
    Granule,
    /// The header is not a multiple of the granule or is longer than 4096 bytes.
    Header,
    /// The minimum remainder is longer than 1 MiB.
    MinRemainder,
    /// The growth step is zero or not a multiple of the granule, or this policy cannot grow that way.
    Growth,
    /// The phase is not a multiple of the granule.
    Phase,
    /// The region holds no granule, or more than [`PolicyKind::most_granules`](crate::PolicyKind::most_granules).
    Capacity,
    /// The region is too short for metadata and one granule.
    TooShort {
        /// The bytes that a region at this address needs.
        least: usize,
    },
    /// The metadata block is shorter than [`AnyEngine::metadata_cells`](crate::AnyEngine::metadata_cells) returns.
    MetadataTooShort,
    /// The metadata block was not written by this version of the engine under this policy.
    NotAHeap,
}

/// Why a request was not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateError {
    /// No hole fits, and the heap may not grow far enough.
    RegionFull,
    /// The alignment is not a power of two.
    BadAlignment,
}

/// Why a block was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// No block starts at this offset: it lies inside a used block, or outside the heap.
    NotABlock,
    /// The offset lies in a hole: it was freed before, or never allocated.
    AlreadyFree,
    /// The block cannot have been requested with this size.
    WrongSize,
}

/// Why a block was not resized in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// No used block starts at this offset.
    NotABlock,
    /// The granules behind the block are not free, or not enough.
    NoRoom,
}

/// The first violated invariant, as found by [`Engine::check`](crate::Engine::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, in a few words.
    pub invariant: &'static str,
    /// The offset in the region where it fails, in bytes.
    pub offset: usize,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RulesError::TooShort { least } => return write!(f, "the region is too short: it needs {least} bytes"),
            RulesError::Granule => "the granule must be a power of two from 1 to 4096 bytes",
            RulesError::Header => "the header must be a multiple of the granule, at most 4096 bytes",
            RulesError::MinRemainder => "the minimum remainder must be at most 1 MiB",
            RulesError::Growth => {
                "the growth step must be a positive multiple of the granule, and the policy must be able to grow"
            }
            RulesError::Phase => "the phase must be a multiple of the granule",
            RulesError::Capacity => "a region holds from 1 to 2^36 granules (best and good fit: 2^42)",
            RulesError::MetadataTooShort => "the metadata block is too short for this region and policy",
            RulesError::NotAHeap => "this is not the metadata of a heap of this version and policy",
        })
    }
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllocateError::RegionFull => "no hole fits the request and the heap may not grow",
            AllocateError::BadAlignment => "the alignment is not a power of two",
        })
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreeError::NotABlock => "no block starts there",
            FreeError::AlreadyFree => "the block is already free",
            FreeError::WrongSize => "the block was not allocated with this size",
        })
    }
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResizeError::NotABlock => "no used block starts there",
            ResizeError::NoRoom => "the block cannot grow where it is",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at offset {:#x})", self.invariant, self.offset)
    }
}

impl core::error::Error for RulesError {}
impl core::error::Error for AllocateError {}
impl core::error::Error for FreeError {}
impl core::error::Error for ResizeError {}
impl core::error::Error for Violation {}
