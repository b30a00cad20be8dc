//! How a watcher finds the heap of a process from outside: what both know of one another.
//!
//! A process under the drop-in library has one [`Beacon`] in the library's data. It tells where the heap's metadata is and
//! costs nothing after it was lit. A watcher looks for the beacon's first bytes in the process's writable mappings of files,
//! and reads the rest by [`Beacon::read`]. Processes that fork inherit it lit; a new program (`exec`) lights its own.
//!
//! A process that was asked to also leaves its heap's last state in a file when it exits: the beacon's bytes, then for a
//! heap with an engine the metadata up to the end of the block map's used part, for another one its counters; for the
//! cached heap, behind the metadata of its engine, the entries of the slabs that lie in the heap, what is known of each, and
//! the heaps, each of the three filled up to a multiple of 8 bytes.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering};

/// The first bytes of every beacon. A watcher keeps no copy of them in writable data of its own.
pub const MAGIC: [u8; 16] = *b"heapwright heap\n";

/// The version of all that is told here.
const LAYOUT: u64 = 2;

/// How many figures a [`Sighting`] has.
const FIGURES: usize = 9;

/// The light itself: one per process, in writable data.
#[repr(C, align(64))]
pub struct Beacon {
    magic: [u8; 16],
    /// [`LAYOUT`] once the figures stand, 0 before.
    layout: AtomicU64,
    figures: [AtomicU64; FIGURES],
    rest: [u64; 4],
}

/// What a beacon tells. Addresses are the process's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The policy's number, `PolicyKind as u64`; 0 for a heap without an engine, in which every block is a mapping. Of the cached
    /// heap, that of the engine which places its slabs.
    pub policy: u64,
    /// A word of 4 bytes that is 0 while nobody works on the heap.
    pub lock: u64,
    /// The first byte of the heap's region; 0 without an engine.
    pub region: u64,
    /// The first byte of the engine's metadata; 0 without an engine.
    pub metadata: u64,
    /// The metadata's length in cells of 8 bytes.
    pub cells: u64,
    /// The counters of a heap without an engine; 0 with one.
    pub counters: u64,
    /// The entries of the cached heap's slabs; 0 of any other heap.
    pub entries: u64,
    /// What is known of its slabs beside that; 0 of any other heap.
    pub slabs: u64,
    /// The heaps of its threads, of which number 0 is nobody's; 0 of any other heap.
    pub heaps: u64,
}

/// Why there is no sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dark {
    /// These bytes are no beacon.
    NotABeacon,
    /// There is no heap yet.
    NotLit,
    /// The beacon of another version of the library.
    OtherVersion(u64),
}

impl Beacon {
    /// How many bytes a beacon has.
    pub const LENGTH: usize = size_of::<Beacon>();
    /// A beacon's address is a multiple of this.
    pub const ALIGN: usize = align_of::<Beacon>();

    /// A beacon that is not lit yet.
    #[must_use]
    pub const fn new() -> Beacon {
        let figures = [const { AtomicU64::new(0) }; FIGURES];
        Beacon { magic: MAGIC, layout: AtomicU64::new(0), figures, rest: [0; 4] }
    }

    /// Lights the beacon.
    pub fn light(&self, sighting: &Sighting) {
        let Sighting { policy, lock, region, metadata, cells, counters, entries, slabs, heaps } = *sighting;
        let figures = [policy, lock, region, metadata, cells, counters, entries, slabs, heaps];
        for (place, figure) in self.figures.iter().zip(figures) {
            place.store(figure, Ordering::Relaxed);
        }
        self.layout.store(LAYOUT, Ordering::Release);
    }

    /// The beacon's bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let words = [&self.layout].into_iter().chain(&self.figures);
        bytes[..MAGIC.len()].copy_from_slice(&self.magic);
        for (place, word) in bytes[MAGIC.len()..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes
    }

    /// What the beacon with these bytes tells.
    ///
    /// ```
    /// use heapwright_beacon::{Beacon, Dark, Sighting};
    /// static BEACON: Beacon = Beacon::new();
    /// assert_eq!(Beacon::read(&BEACON.bytes()), Err(Dark::NotLit));
    /// let told = Sighting { policy: 3, metadata: 0x7f00_0000_0000, cells: 100, ..Sighting::default() };
    /// BEACON.light(&told);
    /// assert_eq!(Beacon::read(&BEACON.bytes()), Ok(told));
    /// assert_eq!(Beacon::read(b"something else"), Err(Dark::NotABeacon));
    /// ```
    ///
    /// # Errors
    /// [`Dark`].
    pub fn read(bytes: &[u8]) -> Result<Sighting, Dark> {
        let rest = bytes.get(..Self::LENGTH).and_then(|bytes| bytes.strip_prefix(&MAGIC)).ok_or(Dark::NotABeacon)?;
        let word = |at: usize| u64::from_ne_bytes(rest.as_chunks().0[at]);
        match word(0) {
            0 => Err(Dark::NotLit),
            LAYOUT => Ok(Sighting {
                policy: word(1),
                lock: word(2),
                region: word(3),
                metadata: word(4),
                cells: word(5),
                counters: word(6),
                entries: word(7),
                slabs: word(8),
                heaps: word(9),
            }),
            other => Err(Dark::OtherVersion(other)),
        }
    }
}

impl Default for Beacon {
    fn default() -> Self {
        Self::new()
    }
}
