//! The beacon by which a watcher finds the heap of another process: its layout, which both sides use.
//!
//! A process under the drop-in library has one [`Beacon`] in the library's data. It holds the addresses of the heap's
//! metadata and costs nothing after it is set (lit). A watcher searches the process's writable mappings of files for
//! the beacon's first bytes, and decodes the rest by [`Beacon::read`]. The children of forks inherit it lit; a new
//! program (`exec`) lights its own.
//!
//! On request, a process also writes the final state of its heap to a file when it exits. The file begins with the
//! beacon's bytes. For a heap with an engine, the metadata follows, up to the end of the used part of the block map;
//! for one without, its counters. For the cached heap, four parts follow the metadata of its engine, each padded to a
//! multiple of 8 bytes: the entries of the slabs, the slabs' metadata, the number and the bytes of the blocks with
//! mappings of their own, and the threads' heaps.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering};

/// The first bytes of every beacon. A watcher keeps no copy of them in writable data of its own.
pub const MAGIC: [u8; 16] = *b"heapwright heap\n";

/// The version of this layout.
const LAYOUT: u64 = 4;

/// The number of figures of a [`Sighting`].
const FIGURES: usize = 10;

/// The beacon: one per process, in writable data.
#[repr(C, align(64))]
pub struct Beacon {
    magic: [u8; 16],
    /// [`LAYOUT`] when the figures are set, 0 before.
    layout: AtomicU64,
    figures: [AtomicU64; FIGURES],
    rest: [u64; 3],
}

/// The figures of a beacon. Addresses are those of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The policy's number, `PolicyKind as u64`; 0 for a heap without an engine, in which every block is a mapping. For
    /// the cached heap, the policy of the engine that places its slabs.
    pub policy: u64,
    /// The heap's lock: a word of 4 bytes that is 0 while the lock is free.
    pub lock: u64,
    /// The first byte of the heap's region; 0 without an engine.
    pub region: u64,
    /// The first byte of the engine's metadata; 0 without an engine.
    pub metadata: u64,
    /// The metadata's length in cells of 8 bytes.
    pub cells: u64,
    /// The counters of a heap without an engine; 0 with one.
    pub counters: u64,
    /// The entries of the cached heap's slabs; 0 for any other heap.
    pub entries: u64,
    /// The metadata of slab 0 of the cached heap, above that of the other slabs; 0 for any other heap.
    pub slabs: u64,
    /// The end of heap 1 of the cached heap's threads, above the other heaps; 0 for any other heap.
    pub heaps: u64,
    /// The number of the cached heap's blocks that have mappings of their own, 8 bytes, and then their bytes; 0 for any
    /// other heap.
    pub mappings: u64,
}

/// The reason for which a beacon cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dark {
    /// The bytes are not a beacon.
    NotABeacon,
    /// The beacon is not set: the process has no heap yet.
    NotLit,
    /// The beacon belongs to another version of the library.
    OtherVersion(u64),
}

impl Beacon {
    /// The length of a beacon in bytes.
    pub const LENGTH: usize = size_of::<Beacon>();
    /// The alignment of a beacon in bytes.
    pub const ALIGN: usize = align_of::<Beacon>();

    /// A beacon that is not set (lit) yet.
    #[must_use]
    pub const fn new() -> Beacon {
        let figures = [const { AtomicU64::new(0) }; FIGURES];
        Beacon { magic: MAGIC, layout: AtomicU64::new(0), figures, rest: [0; 3] }
    }

    /// Sets (lights) the beacon.
    pub fn light(&self, sighting: &Sighting) {
        let Sighting { policy, lock, region, metadata, cells, counters, entries, slabs, heaps, mappings } = *sighting;
        let figures = [policy, lock, region, metadata, cells, counters, entries, slabs, heaps, mappings];
        for (place, figure) in self.figures.iter().zip(figures) {
            place.store(figure, Ordering::Relaxed);
        }
        self.layout.store(LAYOUT, Ordering::Release);
    }

    /// Returns the beacon's bytes.
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

    /// Decodes the beacon with these bytes.
    ///
    /// ```
    /// use heapwright_beacon::{Beacon, Dark, Sighting};
    /// static BEACON: Beacon = Beacon::new();
    /// assert_eq!(Beacon::read(&BEACON.bytes()), Err(Dark::NotLit));
    /// let sighting = Sighting { policy: 3, metadata: 0x7f00_0000_0000, cells: 100, ..Sighting::default() };
    /// BEACON.light(&sighting);
    /// assert_eq!(Beacon::read(&BEACON.bytes()), Ok(sighting));
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
                mappings: word(10),
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
