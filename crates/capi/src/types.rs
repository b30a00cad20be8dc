//! The types of `heapwright.h`, in the layout that it declares.

use core::ffi::{CStr, c_char, c_int, c_void};

use heapwright_heaps::{AllocateError, FreeError, HoleStats, ReallocateError, ResizeError, RulesError};

/// Declares `hw_status` from the one table of its numbers and texts.
macro_rules! statuses {
    ($($Name:ident = $number:literal, $text:literal;)*) => {
        /// `hw_status`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub enum Status {
            $(#[doc = $text] $Name = $number,)*
        }

        impl Status {
            /// Every status, in the order of their numbers.
            pub const ALL: &[Status] = &[$(Status::$Name),*];

            /// The description of the status, in a few words.
            #[must_use]
            pub const fn text(self) -> &'static CStr {
                match self {
                    $(Status::$Name => const {
                        match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                            Ok(text) => text,
                            Err(_) => panic!("a text has no NUL"),
                        }
                    },)*
                }
            }
        }
    };
}

// The comments of `heapwright.h` are these texts; `tests/compiled.rs` compares them.
statuses! {
    Ok = 0, "done";
    NullPointer = 1, "a pointer that must not be null is null";
    NotAHeap = 2, "the handle is not that of a heap, or that heap was destroyed";
    UnknownPolicy = 3, "no such policy; the policies are first, next, best, worst, random, buddy, good";
    BadOptions = 4, "an option or size is out of range, or does not apply to this kind of heap";
    TooShort = 5, "the memory is too short for a heap: see hw_least_bytes and hw_metadata_bytes";
    Full = 6, "no hole fits the request, and the heap cannot grow enough";
    BadAlignment = 7, "the alignment is not a power of two, or above 1 GiB (in shared heaps, 4096)";
    NotABlock = 8, "no used block starts at the address; for a word: none lies there; for a mutex: none can";
    AlreadyFree = 9, "the block is already free: the address lies in a hole";
    WrongSize = 10, "the block is shorter than the size that was passed";
    NoStatistics = 11, "the heap was made without statistics";
    Damaged = 12, "the heap's metadata is damaged";
    OutOfMemory = 13, "the system refused memory, address space or file space";
    BadName = 14, "the name is not valid for a segment";
    Exists = 15, "a segment or file of this name exists already";
    NotFound = 16, "no segment of this name exists, or no directory for it";
    NotOurs = 17, "the segment belongs to a user that is not trusted";
    NotASegment = 18, "the file is not a segment of this library";
    OtherVersion = 19, "the segment was created by another version of this library";
    WrongLength = 20, "the segment's length differs from that in its header";
    OtherNamespace = 21, "the segment is of another PID namespace, and locks on its file do not work";
    TooManyProcesses = 22, "the segment's process table is full";
    TimedOut = 23, "waiting for the segment's lock, or a mutex, timed out: a living process holds it";
    NoRoom = 24, "the block cannot be resized to that size in place";
    BeyondMaximum = 25, "the size is above the maximum that the segment was created with";
    BadRootName = 26, "a root's name has 1 to 40 bytes of UTF-8, none of them NUL";
    RootsFull = 27, "the table of roots is full";
    RootDiffers = 28, "the root does not point where it was expected to";
    Refused = 29, "the system refused a call, or the segment's descriptor was closed: see hw_shared_last_error";
    HolderUnknown = 30,
        "waiting for the segment's lock, or a mutex, timed out, and whether its holder lives is unknown: see \
         hw_shared_repair";
    PreviousHolderDied = 31, "the mutex is locked; a process died while it held it: see hw_shared_lock";
    NotTheHolder = 32, "this process does not hold the mutex";
    Overlap = 33, "the memory and the metadata of hw_create_beside overlap";
    InUse = 34, "live processes use the segment: see hw_shared_repair";
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
