//! What every worker knows of its blocks, in a file of its own, so that it outlives the worker.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use heapwright_shared::Offset;
use memmap2::MmapRaw;

/// How many workers there are.
pub const WORKERS: usize = 4;
/// How many blocks each may have.
pub const ENTRIES: usize = 48;

/// What the worker is about to do with a block, written before it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stage {
    /// No block, or one that is just being allocated.
    Empty = 0,
    /// The block is there and its contents are as the entry says.
    Live = 1,
    /// It is being resized or freed.
    Changing = 2,
}

/// A block as its worker knows it. The stage is written last.
#[repr(C)]
#[derive(Default)]
pub struct Entry {
    stage: AtomicU64,
    offset: AtomicU64,
    bytes: AtomicU64,
    tag: AtomicU64,
}

impl Entry {
    /// The block, if the entry vouches for it: where, how many bytes, filled with what.
    pub fn live(&self) -> Option<(Offset, usize, u64)> {
        let offset = Offset::new(self.offset.load(Ordering::Relaxed))?;
        let live = self.stage.load(Ordering::Acquire) == Stage::Live as u64;
        live.then(|| (offset, self.bytes.load(Ordering::Relaxed) as usize, self.tag.load(Ordering::Relaxed)))
    }

    pub fn is_empty(&self) -> bool {
        self.stage.load(Ordering::Acquire) == Stage::Empty as u64
    }

    pub fn enter(&self, offset: Offset, bytes: usize, tag: u64) {
        self.offset.store(offset.get(), Ordering::Relaxed);
        self.bytes.store(bytes as u64, Ordering::Relaxed);
        self.tag.store(tag, Ordering::Relaxed);
        self.set(Stage::Live);
    }

    pub fn set(&self, stage: Stage) {
        self.stage.store(stage as u64, Ordering::Release);
    }
}

/// The page of one worker.
#[repr(C)]
pub struct Page {
    /// Whether the worker is through with its beginning.
    pub started: AtomicU64,
    /// How many operations were done here.
    pub operations: AtomicU64,
    pub entries: [Entry; ENTRIES],
    /// What the worker complained of before it gave up.
    complaint: [AtomicU8; 256],
}

impl Page {
    pub fn complain(&self, words: &str) {
        for (place, byte) in self.complaint.iter().zip(words.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    pub fn complaint(&self) -> String {
        let bytes = self.complaint.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|&byte| byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }
}

/// The pages of all workers.
pub struct Ledger(MmapRaw);

impl Ledger {
    /// An empty one, in the file at `path`, which is removed at once: forks share it.
    pub fn new(path: &Path) -> std::io::Result<Ledger> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        std::fs::remove_file(path)?;
        file.set_len((WORKERS * size_of::<Page>()) as u64)?;
        MmapRaw::map_raw(&file).map(Ledger)
    }

    pub fn pages(&self) -> &[Page; WORKERS] {
        // SAFETY: the mapping is aligned to pages, as long as the array and lives as long as `self`; all of it is
        // atomic.
        unsafe { &*self.0.as_ptr().cast() }
    }
}
