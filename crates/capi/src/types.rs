//! The types of `heapwright.h`, in the layout that it declares.

use core::ffi::{CStr, c_char, c_int, c_void};

use heapwright_heaps::{AllocateError, FreeError, HoleStats, ReallocateError, ResizeError, RulesError};

/// `hw_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A pointer that must not be null is null.
    NullPointer = 1,
    /// The handle is not that of a heap, or that heap was destroyed.
    NotAHeap = 2,
    /// There is no such policy.
    UnknownPolicy = 3,
    /// An option or size is out of range, or does not apply to this kind of heap.
    BadOptions = 4,
    /// The memory is too short for a heap.
    TooShort = 5,
    /// No hole fits the request, and the heap cannot grow.
    Full = 6,
    /// The alignment is not a power of two, or above the largest that the heap supports.
    BadAlignment = 7,
    /// No used block starts at the address.
    NotABlock = 8,
    /// The block is free already: the address lies in a hole.
    AlreadyFree = 9,
    /// The block is shorter than the size that was passed.
    WrongSize = 10,
    /// The heap was made without statistics.
    NoStatistics = 11,
    /// The heap's metadata is damaged.
    Damaged = 12,
    /// The system refused memory, address space or file space.
    OutOfMemory = 13,
    /// The name is not valid for a segment.
    BadName = 14,
    /// A segment or file of this name exists already.
    Exists = 15,
    /// No segment of this name exists.
    NotFound = 16,
    /// The segment belongs to a user that is not trusted.
    NotOurs = 17,
    /// The file is not a segment of this library.
    NotASegment = 18,
    /// The segment was created by another version of the library.
    OtherVersion = 19,
    /// The file's length differs from that in its header.
    WrongLength = 20,
    /// The segment was created in another PID namespace.
    OtherNamespace = 21,
    /// The process table is full.
    TooManyProcesses = 22,
    /// Waiting for the segment's lock timed out: a living process holds it.
    TimedOut = 23,
    /// The block cannot be resized to that size in place.
    NoRoom = 24,
    /// The size is above the heap's maximum.
    BeyondMaximum = 25,
    /// The name is not valid for a root.
    BadRootName = 26,
    /// The table of roots is full.
    RootsFull = 27,
    /// The root does not point where it was expected to.
    RootDiffers = 28,
    /// A system call failed.
    Refused = 29,
    /// Waiting for the segment's lock timed out; whether its holder lives is unknown.
    HolderUnknown = 30,
    /// The mutex is locked; a process died while it held it.
    PreviousHolderDied = 31,
    /// This process does not hold the mutex.
    NotTheHolder = 32,
    /// Ranges of memory overlap that must be apart.
    Overlap = 33,
    /// Live processes use the segment.
    InUse = 34,
}

impl Status {
    /// Every status, in the order of their numbers.
    pub const ALL: [Status; 35] = [
        Status::Ok,
        Status::NullPointer,
        Status::NotAHeap,
        Status::UnknownPolicy,
        Status::BadOptions,
        Status::TooShort,
        Status::Full,
        Status::BadAlignment,
        Status::NotABlock,
        Status::AlreadyFree,
        Status::WrongSize,
        Status::NoStatistics,
        Status::Damaged,
        Status::OutOfMemory,
        Status::BadName,
        Status::Exists,
        Status::NotFound,
        Status::NotOurs,
        Status::NotASegment,
        Status::OtherVersion,
        Status::WrongLength,
        Status::OtherNamespace,
        Status::TooManyProcesses,
        Status::TimedOut,
        Status::NoRoom,
        Status::BeyondMaximum,
        Status::BadRootName,
        Status::RootsFull,
        Status::RootDiffers,
        Status::Refused,
        Status::HolderUnknown,
        Status::PreviousHolderDied,
        Status::NotTheHolder,
        Status::Overlap,
        Status::InUse,
    ];

    /// The description of the status, in a few words.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Status::Ok => c"done",
            Status::NullPointer => c"a pointer that must not be null is null",
            Status::NotAHeap => c"this is not the handle of a heap, or the heap was destroyed",
            Status::UnknownPolicy => c"no such policy; the policies are first, next, best, worst, random, buddy, good",
            Status::BadOptions => c"an option or size is out of range, or does not apply to this kind of heap",
            Status::TooShort => {
                c"the memory is too short for a heap; hw_least_bytes and hw_metadata_bytes say how much it takes"
            }
            Status::Full => c"no hole fits the request and the heap cannot grow",
            Status::BadAlignment => c"the alignment must be a power of two, at most 1 GiB (in shared heaps, 4096)",
            Status::NotABlock => c"no used block starts at this address",
            Status::AlreadyFree => c"the block is already free",
            Status::WrongSize => c"the block is shorter than the size that was passed",
            Status::NoStatistics => c"the heap was made without statistics",
            Status::Damaged => c"the heap's metadata is damaged",
            Status::OutOfMemory => c"the system refused memory, address space or file space",
            Status::BadName => c"this is not a valid name for a segment",
            Status::Exists => c"a segment or file of this name exists already",
            Status::NotFound => c"no segment of this name exists",
            Status::NotOurs => c"the segment belongs to a user that is not trusted",
            Status::NotASegment => c"this is not a segment of this library",
            Status::OtherVersion => c"the segment was created by another version of this library",
            Status::WrongLength => c"the segment's length differs from that in its header",
            Status::OtherNamespace => c"the segment was created in another PID namespace",
            Status::TooManyProcesses => c"the segment's process table is full",
            Status::TimedOut => c"waiting for the segment's lock timed out: a living process holds it",
            Status::NoRoom => c"the block cannot be resized to that size in place",
            Status::BeyondMaximum => c"the size is above the maximum that the segment was created with",
            Status::BadRootName => c"a root's name has 1 to 40 bytes of UTF-8",
            Status::RootsFull => c"the table of roots is full",
            Status::RootDiffers => c"the root does not point where it was expected to",
            Status::Refused => c"a system call failed",
            Status::HolderUnknown => {
                c"waiting for the segment's lock, or a mutex, timed out: whether its holder lives is unknown"
            }
            Status::PreviousHolderDied => c"the mutex is locked; a process died while it held it",
            Status::NotTheHolder => c"this process does not hold the mutex",
            Status::Overlap => c"the memory and the metadata overlap; pass ranges that are apart",
            Status::InUse => c"live processes use the segment",
        }
    }
}

impl From<RulesError> for Status {
    fn from(error: RulesError) -> Self {
        match error {
            RulesError::TooShort { .. } => Status::TooShort,
            _ => Status::BadOptions,
        }
    }
}

impl From<AllocateError> for Status {
    fn from(error: AllocateError) -> Self {
        match error {
            AllocateError::RegionFull => Status::Full,
            AllocateError::BadAlignment => Status::BadAlignment,
        }
    }
}

impl From<FreeError> for Status {
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::NotABlock => Status::NotABlock,
            FreeError::AlreadyFree => Status::AlreadyFree,
            FreeError::WrongSize => Status::WrongSize,
        }
    }
}

impl From<ResizeError> for Status {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::NotABlock => Status::NotABlock,
            ResizeError::NoRoom => Status::Full,
        }
    }
}

impl From<ReallocateError> for Status {
    fn from(error: ReallocateError) -> Self {
        match error {
            ReallocateError::NotABlock => Status::NotABlock,
            ReallocateError::Allocate(error) => error.into(),
        }
    }
}

/// The status of an operation without a result.
pub(crate) fn status(result: Result<(), Status>) -> Status {
    result.err().unwrap_or(Status::Ok)
}

/// `hw_options`; all zeros is the default.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Options {
    /// Bytes; 0 stands for 16.
    pub granule: u32,
    /// Bytes in front of every block.
    pub header: u32,
    /// Bytes; a shorter remainder stays with the block.
    pub min_remainder: u32,
    /// 0: kept; 1: off.
    pub statistics: u32,
    /// The seed of random fit.
    pub seed: u64,
    /// The most bytes that a growing heap can grow to, rounded up to whole pages; 0 stands for 1 TiB.
    pub capacity: usize,
    /// 0: by steps; 1: by what is missing; 2: by the block. 0 for fixed heaps.
    pub growth: u32,
    /// Bytes of a step; 0 stands for 64 KiB.
    pub growth_step: u32,
}

/// `hw_requests`; all zeros is the default.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RequestRules {
    /// Bytes; 0 stands for 1.
    pub align: u32,
    /// Bytes.
    pub least: u32,
    /// 0: a block; 1: null.
    pub zero: u32,
}

/// `hw_block`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Block {
    /// Where it starts, header included.
    pub address: *mut c_void,
    /// Bytes, header included.
    pub size: usize,
    /// 1: used; 0: a hole.
    pub used: c_int,
}

/// `hw_visitor`.
pub(crate) type Visitor = Visit<Block>;

/// The callback of a walk, called for each item; returns 0 to go on.
pub(crate) type Visit<T> = unsafe extern "C" fn(item: *const T, context: *mut c_void) -> c_int;

/// `hw_holes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Holes {
    /// Number of holes.
    pub count: usize,
    /// Sum of their sizes in bytes.
    pub total: usize,
    /// Size of the smallest in bytes.
    pub smallest: usize,
    /// Size of the largest in bytes.
    pub largest: usize,
    /// Mean size in bytes; NaN without holes.
    pub mean: f64,
    /// Standard deviation of the sizes (population) in bytes; NaN without holes.
    pub deviation: f64,
    /// 1 - largest / total; NaN without holes.
    pub fragmentation: f64,
    /// Entry k counts the holes from 2^k to 2^(k+1) - 1 bytes.
    pub by_doubling: [usize; 48],
}

impl From<HoleStats> for Holes {
    fn from(holes: HoleStats) -> Self {
        Holes {
            count: holes.count,
            total: holes.total,
            smallest: holes.min,
            largest: holes.max,
            mean: holes.mean().unwrap_or(f64::NAN),
            deviation: holes.variance().map_or(f64::NAN, f64::sqrt),
            fragmentation: holes.external_fragmentation().unwrap_or(f64::NAN),
            by_doubling: holes.histogram,
        }
    }
}

/// `hw_violation`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Violation {
    /// Bytes from the heap's base.
    pub offset: usize,
    /// The invariant, truncated if it is longer, and a zero.
    pub invariant: [c_char; 120],
}

impl From<heapwright_heaps::Violation> for Violation {
    fn from(violation: heapwright_heaps::Violation) -> Self {
        Violation { offset: violation.offset, invariant: cut(violation.invariant) }
    }
}

/// `text` for C with a zero at its end, truncated to the length of the array.
pub(crate) fn cut<const N: usize>(text: &str) -> [c_char; N] {
    let mut characters = [0; N];
    for (to, &from) in characters.iter_mut().take(N - 1).zip(text.as_bytes()) {
        *to = from as c_char;
    }
    characters
}
