//! Everything that can go wrong: what, where, and what to do next.

use std::fmt;

use heapwright_os::FileError;
use heapwright_placement::Violation;

use crate::terms::place::Place;

/// Why something was not done. What fails leaves the heap as it was, unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be that of a segment.
    BadName {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The settings make no sense, or those of the heap exclude the call.
    BadSettings {
        /// Which, and what they may be.
        why: &'static str,
    },
    /// Something of this name is there already.
    Exists {
        /// Its place.
        place: Place,
    },
    /// Nothing of this name is there.
    NotFound {
        /// Where it was looked for.
        place: Place,
    },
    /// There is no directory for the segment to be made in.
    NoDirectory {
        /// Where the segment was to be.
        place: Place,
    },
    /// The segment belongs to a user whom the caller does not trust.
    NotOurs {
        /// The segment's place.
        place: Place,
        /// The number of its owner.
        owner: u32,
    },
    /// What lies there is not a segment of this library.
    NotASegment {
        /// Its place.
        place: Place,
        /// What it lacks.
        why: &'static str,
    },
    /// The segment was made by another version of this library.
    OtherVersion {
        /// The segment's place.
        place: Place,
        /// The version of its format.
        found: u32,
        /// The version that this library knows.
        known: u32,
    },
    /// The file is not as long as its header says.
    WrongLength {
        /// The segment's place.
        place: Place,
        /// What the header says, in bytes.
        expected: u64,
        /// How long the file is, in bytes.
        found: u64,
    },
    /// What the segment holds contradicts itself.
    Corrupted {
        /// What is wrong.
        what: &'static str,
        /// Where in the segment, in bytes from its start.
        offset: u64,
    },
    /// What the segment holds contradicts itself, and repair has nothing to go by: what it would keep might be wrong.
    BeyondRepair {
        /// What is wrong.
        what: &'static str,
        /// Where in the segment, in bytes from its start.
        offset: u64,
    },
    /// The segment was made in another namespace of process numbers, and this process cannot announce itself to its
    /// users.
    OtherNamespace {
        /// The segment's place.
        place: Place,
    },
    /// As many processes are attached as the segment has room for.
    TooManyProcesses {
        /// How many that is.
        most: usize,
    },
    /// The lock was held by one process, without a release, for longer than the caller's patience.
    TimedOut {
        /// The number of the process that holds it, which is alive.
        holder: u32,
    },
    /// A mutex of the heap's users was held by one process, without an unlock, for longer than the caller's patience.
    MutexHeld {
        /// The number of the process that holds it, which is alive; `None` for the calling process.
        holder: Option<u32>,
    },
    /// The lock, or a mutex, was not free in time. Whether its holder lives, or still uses the segment, is unknown.
    HolderUnknown {
        /// The segment whose lock it is; `None` for a mutex in it.
        place: Option<Place>,
        /// The number of the process that holds it, in its own namespace.
        holder: u32,
        /// Why it is unknown.
        why: &'static str,
    },
    /// The segment was in the middle of a change whenever it was looked at, and its file may not be written to, so that
    /// its lock cannot be taken.
    Restless {
        /// The segment's place.
        place: Place,
    },
    /// Memory, address space or file space of the system is used up, or beyond what the process may use.
    NoSpace {
        /// How many bytes were asked for.
        bytes: u64,
    },
    /// The system refused a call.
    System {
        /// The segment's place.
        place: Place,
        /// Its reason.
        reason: FileError,
    },
    /// The program closed the segment's file descriptor. Another file that has its number now was left alone.
    DescriptorReplaced {
        /// The segment's place.
        place: Place,
    },
    /// A process uses the segment that lives, or may live.
    InUse {
        /// The segment's place.
        place: Place,
        /// The number of such a process.
        by: u32,
    },
    /// No hole fits the request, and the heap cannot grow enough.
    Full {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The alignment is not a power of two, or above what segments can grant.
    BadAlignment {
        /// What was asked for.
        align: usize,
        /// The most there is.
        most: usize,
    },
    /// No used block starts there.
    NotABlock {
        /// The offset that was given.
        offset: u64,
    },
    /// No word of a used block that could show where a block lies is there.
    NotAWord {
        /// The offset that was given.
        offset: u64,
    },
    /// The offset lies in a hole: freed before, or never allocated.
    AlreadyFree {
        /// The offset that was given.
        offset: u64,
    },
    /// The block cannot become that long where it is.
    NoRoom {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The heap may not become that long.
    BeyondMaximum {
        /// How many bytes were asked for.
        bytes: usize,
        /// The most it may have.
        most: usize,
    },
    /// A root's name is empty, too long, or contains a NUL byte.
    BadRootName,
    /// A root points where no used block starts.
    RootOfNoBlock {
        /// The root's name.
        name: String,
        /// Where it points.
        offset: u64,
    },
    /// There is no room for another root.
    RootsFull {
        /// How many there is room for.
        most: usize,
    },
    /// The root is not what the caller expected.
    RootDiffers {
        /// What it is: an offset in the segment, or nothing.
        found: Option<u64>,
    },
    /// This process does not hold the mutex.
    NotTheHolder,
}

/// What can be wrong with the fixed part of a header, from which everything else in a segment is found.
pub(crate) const HEADER_FAULTS: [&str; 3] =
    ["it ends within its header", "the checksum of its header differs", "its header contradicts itself"];

/// What to do with a segment that repair refuses.
const LAST_RESORT: &str = "restore it from a copy, or remove it by `heapwright shm remove --force`";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Error as E;
        match self {
            E::BadName { why } => write!(f, "this cannot be the name of a segment: {why}"),
            E::BadSettings { why } => write!(f, "the settings do not allow this: {why}"),
            E::Exists { place } => write!(f, "{place} exists already; open it, remove it or choose another name"),
            E::NotFound { place } => write!(f, "there is no {place}; check the name, or create it"),
            E::NoDirectory { place } => write!(f, "there is no directory for {place}; make it first"),
            E::NotOurs { place, owner } => {
                write!(
                    f,
                    "{place} is owned by user {owner}, which is not trusted here; if you trust that user, open it with \
                     --any-owner (heapwright shm), Owner::User or Owner::Anybody (Rust), HW_OWNER_USER or \
                     HW_OWNER_ANYBODY (C)"
                )
            }
            E::NotASegment { place, why } => {
                write!(f, "{place} is not a segment of this library: {why}; choose another name")
            }
            E::OtherVersion { place, found, known } => {
                write!(
                    f,
                    "{place} has format version {found}, this library knows {known}; use the version that made it, or \
                     remove it by `heapwright shm remove --force` and create it anew"
                )
            }
            E::WrongLength { place, expected, found } => write!(
                f,
                "{place} is {found} bytes long but was made with {expected}; restore it from a copy, or remove it"
            ),
            E::Corrupted { what, offset } if HEADER_FAULTS.contains(what) => {
                let unmet = "repair needs a header that is whole";
                write!(f, "the segment is corrupted: {what} (at {offset:#x}); {unmet}: {LAST_RESORT}")
            }
            E::Corrupted { what, offset } => {
                write!(
                    f,
                    "the segment is corrupted: {what} (at {offset:#x}); end its processes and run `heapwright shm \
                     repair`, or restore it from a copy"
                )
            }
            E::BeyondRepair { what, offset } => {
                write!(f, "the segment is corrupted beyond repair: {what} (at {offset:#x}); {LAST_RESORT}")
            }
            E::OtherNamespace { place } => write!(
                f,
                "{place} was made in another namespace of processes, and locks on its file do not work here, by which its \
                 processes would know of this one; open it there, or, when no process uses it there, run \
                 `heapwright shm repair --take-over`"
            ),
            E::TooManyProcesses { most } => write!(
                f,
                "the segment has no room for another process, only for {most} at a time; close it in one, or make the \
                 segment for more"
            ),
            E::TimedOut { holder } => write!(
                f,
                "process {holder} holds the segment's lock and does not let go of it; continue or end that process"
            ),
            E::MutexHeld { holder: Some(holder) } => {
                write!(f, "process {holder} holds the mutex and does not unlock it; continue or end that process")
            }
            E::MutexHeld { holder: None } => f.write_str(
                "this process holds the mutex already, in this thread or another, and does not unlock it; a mutex is \
                 not reentrant",
            ),
            E::HolderUnknown { place: None, holder, why } => write!(
                f,
                "process {holder} holds the mutex; whether it lives is unknown, because {why}; end it: the next lock \
                 succeeds, and reports that a holder died"
            ),
            E::HolderUnknown { place: Some(place), holder, why } => write!(
                f,
                "process {holder} holds the lock of {place}; whether it lives is unknown, because {why}; end it, and, \
                 when no process uses the segment, run `heapwright shm repair --take-over`"
            ),
            E::Restless { place } => write!(
                f,
                "{place} was in the middle of a change whenever it was looked at; look again, or get the permission to \
                 write to it, which its lock takes"
            ),
            E::NoSpace { bytes } => {
                write!(
                    f,
                    "the system has no {bytes} bytes more for the segment; free some, raise the limit or ask for less"
                )
            }
            E::System { place, reason } => write!(f, "the system refused {place}: {reason}"),
            E::DescriptorReplaced { place } => write!(
                f,
                "the program closed the file descriptor of {place}, whose number may be another file's now; close the \
                 handle, open the segment anew, and leave its descriptor open"
            ),
            E::InUse { place, by } => write!(
                f,
                "{place} is in use by process {by}, which lives as far as is known; processes that use a segment keep it \
                 in order themselves: end them to repair it"
            ),
            E::Full { bytes } => {
                write!(f, "no hole holds {bytes} bytes, and the segment cannot grow enough; free something")
            }
            E::BadAlignment { align, most } => {
                write!(f, "an alignment of {align} is not possible here: a power of two up to {most} is")
            }
            E::NotABlock { offset } => write!(f, "no block starts at {offset:#x}; it was never allocated here"),
            E::NotAWord { offset } => write!(
                f,
                "{offset:#x} is no word that could show where a block lies: eight bytes, aligned, of another used block"
            ),
            E::AlreadyFree { offset } => {
                write!(f, "what lies at {offset:#x} is free: a block there was freed before, or there was none yet")
            }
            E::NoRoom { bytes } => write!(f, "the block cannot have {bytes} bytes where it is; let it move"),
            E::BeyondMaximum { bytes, most } => {
                write!(f, "the segment cannot have {bytes} bytes of blocks: {most} is what it was made for")
            }
            E::BadRootName => {
                write!(
                    f,
                    "a root's name has 1 to {} bytes of UTF-8, none of them NUL",
                    crate::terms::limits::LONGEST_NAME
                )
            }
            E::RootOfNoBlock { name, offset } => write!(
                f,
                "the root {name:?} points at {offset:#x}, where no block starts; remove or replace that root: its \
                 block was probably freed"
            ),
            E::RootsFull { most: 0 } => write!(f, "the segment was made without room for roots; make one with some"),
            E::RootsFull { most } => write!(f, "all {most} roots are set; remove one, or make the segment with more"),
            E::RootDiffers { found: Some(offset) } => {
                write!(f, "the root is at {offset:#x}, not what was expected; look again")
            }
            E::RootDiffers { found: None } => write!(f, "the root is not set, which was not expected; look again"),
            E::NotTheHolder => write!(f, "this process does not hold the mutex; lock it first"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Returns what an engine found wrong, the engine's region starting at `base`.
    pub(crate) fn violated(violation: Violation, base: usize) -> Error {
        Error::Corrupted { what: violation.invariant, offset: (base + violation.offset) as u64 }
    }

    /// Returns what the system said to something about the file at `place`, `bytes` of which were wanted.
    pub(crate) fn refused(place: &Place, bytes: usize, reason: FileError) -> Error {
        let place = place.clone();
        match reason {
            FileError::NotFound => Error::NotFound { place },
            FileError::Exists => Error::Exists { place },
            FileError::NotAFile => Error::NotASegment { place, why: "it is not a regular file" },
            FileError::NoSpace | FileError::NoMemory if bytes > 0 => Error::NoSpace { bytes: bytes as u64 },
            FileError::Replaced => Error::DescriptorReplaced { place },
            reason => Error::System { place, reason },
        }
    }
}
