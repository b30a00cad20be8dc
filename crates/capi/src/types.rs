//! What crosses the border: the types of `heapwright.h`, in the layout that it gives them.

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
    /// The handle is not that of a heap, or of one that was destroyed.
    NotAHeap = 2,
    /// There is no such policy.
    UnknownPolicy = 3,
    /// The options make no sense for this kind of heap.
    BadOptions = 4,
    /// The memory is too short for a heap.
    TooShort = 5,
    /// Nothing fits, and the heap cannot grow.
    Full = 6,
    /// The alignment is not a power of two, or above what the heap can grant.
    BadAlignment = 7,
    /// No used block starts at the address.
    NotABlock = 8,
    /// The address lies in a hole.
    AlreadyFree = 9,
    /// The block is too short for the size it is said to have.
    WrongSize = 10,
    /// The heap was made without statistics.
    NoStatistics = 11,
    /// The heap's own data are damaged.
    Damaged = 12,
    /// The system refused memory, address space or file space.
    OutOfMemory = 13,
    /// The name cannot be that of a segment.
    BadName = 14,
    /// Something of this name is there already.
    Exists = 15,
    /// Nothing of this name is there.
    NotFound = 16,
    /// The segment belongs to a user who is not trusted.
    NotOurs = 17,
    /// What lies there is not a segment.
    NotASegment = 18,
    /// The segment was made by another version of the library.
    OtherVersion = 19,
    /// The file is not as long as its header says.
    WrongLength = 20,
    /// The segment was made in another namespace of process numbers.
    OtherNamespace = 21,
    /// As many processes are attached as there is room for.
    TooManyProcesses = 22,
    /// The segment's lock was not free in time.
    TimedOut = 23,
    /// The block cannot become that long where it is.
    NoRoom = 24,
    /// The heap may not become that long.
    BeyondMaximum = 25,
    /// The name cannot be that of a root.
    BadRootName = 26,
    /// There is no room for another root.
    RootsFull = 27,
    /// The root is not what was expected.
    RootDiffers = 28,
    /// The system refused a call.
    Refused = 29,
}

impl Status {
    /// Every status, in the order of their numbers.
    pub const ALL: [Status; 30] = [
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
    ];

    /// What the status says, in a few words.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Status::Ok => c"done",
            Status::NullPointer => c"a pointer that must not be null is null",
            Status::NotAHeap => c"this is not the handle of a heap, or of one that was destroyed",
            Status::UnknownPolicy => c"no such policy; the policies are first, next, best, worst, random, buddy, good",
            Status::BadOptions => c"the options make no sense for this kind of heap",
            Status::TooShort => c"the memory is too short for a heap",
            Status::Full => c"no hole fits the request and the heap cannot grow",
            Status::BadAlignment => c"the alignment must be a power of two, at most 1 GiB (in shared heaps, 4096)",
            Status::NotABlock => c"no used block starts at this address",
            Status::AlreadyFree => c"the block is already free",
            Status::WrongSize => c"the block is too short for the size it is said to have",
            Status::NoStatistics => c"the heap was made without statistics",
            Status::Damaged => c"the heap's own data are damaged",
            Status::OutOfMemory => c"the system refused memory, address space or file space",
            Status::BadName => c"this cannot be the name of a segment",
            Status::Exists => c"something of this name exists already",
            Status::NotFound => c"nothing of this name exists",
            Status::NotOurs => c"the segment belongs to a user who is not trusted",
            Status::NotASegment => c"this is not a segment of this library",
            Status::OtherVersion => c"the segment was made by another version of this library",
            Status::WrongLength => c"the segment is not as long as it was made",
            Status::OtherNamespace => c"the segment was made in another namespace of processes",
            Status::TooManyProcesses => c"as many processes are attached as the segment has room for",
            Status::TimedOut => c"the segment's lock was not free in time",
            Status::NoRoom => c"the block cannot become that long where it is",
            Status::BeyondMaximum => c"the segment was not made to become that long",
            Status::BadRootName => c"a root's name has 1 to 40 bytes of UTF-8",
            Status::RootsFull => c"all roots are set",
            Status::RootDiffers => c"the root is not what was expected",
            Status::Refused => c"the system refused a call",
        }
    }
}

impl From<RulesError> for Status {
    fn from(error: RulesError) -> Self {
        if error == RulesError::Capacity { Status::TooShort } else { Status::BadOptions }
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

/// The status of something that gives nothing back.
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
    /// Of random fit.
    pub seed: u64,
    /// Bytes of address space of a growing heap; 0 stands for 1 TiB.
    pub capacity: usize,
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

/// What a walk calls for everything that it passes; 0 to go on.
pub(crate) type Visit<T> = unsafe extern "C" fn(item: *const T, context: *mut c_void) -> c_int;

/// `hw_holes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Holes {
    /// How many.
    pub count: usize,
    /// Bytes in all of them.
    pub total: usize,
    /// Bytes of the smallest.
    pub smallest: usize,
    /// Bytes of the largest.
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
    /// The invariant, cut off where it is longer, and a zero.
    pub invariant: [c_char; 120],
}

impl From<heapwright_heaps::Violation> for Violation {
    fn from(violation: heapwright_heaps::Violation) -> Self {
        Violation { offset: violation.offset, invariant: cut(violation.invariant) }
    }
}

/// `text` for C, cut off where it is longer than there is room for.
pub(crate) fn cut<const N: usize>(text: &str) -> [c_char; N] {
    let mut characters = [0; N];
    for (to, &from) in characters.iter_mut().take(N - 1).zip(text.as_bytes()) {
        *to = from as c_char;
    }
    characters
}
