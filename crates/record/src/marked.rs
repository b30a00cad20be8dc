//! The marked blocks of a program: only what is requested in them is recorded, and how much was live in them is
//! counted.
//!
//! Outside of marked blocks requests are left out, and frees are recorded: the blocks of the trace are
//! freed when the program frees them.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};

use heapwright_os::variable;
use heapwright_stream::{Call, Packed, Record};

use crate::system;

/// The environment variable that requests marked blocks only.
const VARIABLE: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_MARKED";

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Number of marked blocks that the program is in.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Usable bytes of the live blocks, and their maximum since the newest block began.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// Reads the setting from the environment.
pub(crate) fn read_setting() {
    ENABLED.store(variable(VARIABLE, |_| ()).is_some(), Ordering::Relaxed);
}

/// Whether only marked blocks are recorded.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Counts the bytes of a call, and returns what is to be recorded of it: nothing of a request outside of marked blocks.
/// A resize there frees the block.
pub(crate) fn select(record: Packed) -> Option<Packed> {
    /// The end of a resize to 0 bytes, which frees the block.
    const FREED: Packed = Record { call: Call::ResizeEnds, log2_align: 0, size: 0, address: 0 }.packed();
    count(record);
    if OPEN.load(Ordering::Relaxed) > 0 || !record.is_request() {
        return Some(record);
    }
    // A resize that failed leaves the block as it was.
    let freed = if record.address() == 0 { record } else { FREED };
    record.is_resized().then_some(freed)
}

fn count(record: Packed) {
    if record.address() == 0 || !(record.is_request() || record.is_release()) {
        return;
    }
    // SAFETY: calls are recorded while the block lives: requests after glibc has allocated it, frees and resizes before
    // glibc frees it.
    let bytes = unsafe { system::usable_size(system::block_of(record)) } as i64;
    if record.is_release() {
        LIVE.fetch_sub(bytes, Ordering::Relaxed);
    } else {
        add(bytes);
    }
}

fn add(bytes: i64) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if live > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

/// Counts a block again whose resize has failed.
///
/// # Safety
/// The block lives.
#[cold]
pub(crate) unsafe fn restore(block: *mut u8) {
    if is_enabled() {
        // SAFETY: the block lives, as this function requires.
        add(unsafe { system::usable_size(block) } as i64);
    }
}

/// The blocks that are open, newest first. They may end in any order: those of threads and tasks overlap.
///
/// Each has a stretch of time, from its begin to that of the next newer one, and the most bytes that were live in it;
/// those of the newest, whose stretch goes on, are in [`PEAK`]. The peak of a block is that of its stretch and all
/// newer ones. When a block ends, its stretch becomes a part of the next older one's.
///
/// Changed while the lock of the recording's state is held, which is free in the child of a fork.
struct OpenBlocks {
    blocks: [OpenBlock; MOST_OPEN],
    /// The newest block, and one that is not open: their numbers plus one; 0 for none.
    newest: AtomicU32,
    unused: AtomicU32,
    /// Number of blocks that were ever open at a time: those from there on are not in the list of unused ones.
    fresh: AtomicU32,
}

struct OpenBlock {
    peak: AtomicI64,
    /// The next older block, or the next unused one, as in [`OpenBlocks`].
    next: AtomicU32,
}

/// How many blocks may be open at a time.
const MOST_OPEN: usize = 4096;

static OPEN_BLOCKS: OpenBlocks = OpenBlocks {
    blocks: [const { OpenBlock { peak: AtomicI64::new(0), next: AtomicU32::new(0) } }; MOST_OPEN],
    newest: AtomicU32::new(0),
    unused: AtomicU32::new(0),
    fresh: AtomicU32::new(0),
};

impl OpenBlocks {
    /// Returns the block of a number plus one.
    fn at(&self, number: u32) -> Option<&OpenBlock> {
        self.blocks.get((number as usize).checked_sub(1)?)
    }

    /// Opens a block while `live` bytes are; returns its number plus one, or `None` when too many are open.
    fn open(&self, live: i64) -> Option<u32> {
        let unused = self.unused.load(Ordering::Relaxed);
        let number = if unused != 0 { unused } else { self.fresh.load(Ordering::Relaxed) + 1 };
        let block = self.at(number)?;
        if unused != 0 {
            self.unused.store(block.next.load(Ordering::Relaxed), Ordering::Relaxed);
        } else {
            self.fresh.store(number, Ordering::Relaxed);
        }
        let before = PEAK.swap(live, Ordering::Relaxed);
        let newest = self.newest.swap(number, Ordering::Relaxed);
        if let Some(newest) = self.at(newest) {
            newest.peak.store(before, Ordering::Relaxed);
        }
        block.next.store(newest, Ordering::Relaxed);
        Some(number)
    }

    /// Closes a block and returns its peak; `None` when it is not open.
    fn close(&self, number: u32) -> Option<i64> {
        let (mut peak, mut newer, mut at) = (PEAK.load(Ordering::Relaxed), None, self.newest.load(Ordering::Relaxed));
        while at != number {
            let block = self.at(at)?;
            (newer, at) = (Some(block), block.next.load(Ordering::Relaxed));
            if at != 0 {
                peak = peak.max(self.at(at)?.peak.load(Ordering::Relaxed));
            }
        }
        let block = self.at(number)?;
        let older = block.next.load(Ordering::Relaxed);
        match (newer, self.at(older)) {
            (Some(newer), _) => newer.next.store(older, Ordering::Relaxed),
            (None, _) => self.newest.store(older, Ordering::Relaxed),
        }
        if let Some(older) = self.at(older) {
            match newer {
                Some(_) => _ = older.peak.fetch_max(block.peak.load(Ordering::Relaxed), Ordering::Relaxed),
                None => _ = PEAK.fetch_max(older.peak.load(Ordering::Relaxed), Ordering::Relaxed),
            }
        }
        block.next.store(self.unused.swap(number, Ordering::Relaxed), Ordering::Relaxed);
        Some(peak)
    }
}

/// Opens a block; returns how many bytes are live, and the block's number plus one. `None` when too many are open. The
/// lock of the recording's state is held.
pub(crate) fn open() -> Option<(i64, u32)> {
    let live = LIVE.load(Ordering::Relaxed);
    let number = OPEN_BLOCKS.open(live)?;
    OPEN.fetch_add(1, Ordering::Relaxed);
    Some((live, number))
}

/// Closes a block; returns the most bytes that were live in it, and `None` when it is not open. The lock is held.
pub(crate) fn close(number: u32) -> Option<i64> {
    let peak = OPEN_BLOCKS.close(number)?;
    OPEN.fetch_sub(1, Ordering::Relaxed);
    Some(peak)
}
