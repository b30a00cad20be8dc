//! A busy process: allocates, frees, resizes and names blocks until it is killed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use heapwright_shared::{Access, Error, Offset, Place, SharedHeap};

use crate::census::{fill, verify};
use crate::ledger::{Entry, Page, Stage};
use crate::words;

/// A wait that is longer than this counts as a hang.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The name by which worker `number` is to be found, dead or alive.
pub fn root_name(number: usize) -> String {
    format!("worker {number}")
}

/// Attaches to a segment as workers do.
pub fn open(place: &Place) -> Result<SharedHeap, String> {
    let access = Access { patience: PATIENCE, ..Access::default() };
    SharedHeap::open_with(place, &access).map_err(words("open"))
}

/// Works on the heap at `place` for ever.
///
/// # Errors
/// Anything that goes wrong; a full heap does not count.
pub fn work(place: &Place, number: usize, page: &Page, seed: u64) -> Result<(), String> {
    let mut worker = Worker { heap: open(place)?, root: root_name(number), page, rng: Rng::with_seed(seed) };
    worker.inherit()?;
    page.started.store(1, Ordering::Release);
    loop {
        worker.turn()?;
        page.operations.fetch_add(1, Ordering::Relaxed);
    }
}

struct Worker<'p> {
    heap: SharedHeap,
    root: String,
    page: &'p Page,
    rng: Rng,
}

impl Worker<'_> {
    /// Takes over the named block of the worker that was here before, and frees what the dead left without a name.
    fn inherit(&self) -> Result<(), String> {
        if let Some(named) = self.named()? {
            self.heap.adopt(named).map_err(words("adopt"))?;
        }
        self.heap.reclaim_dead().map(drop).map_err(words("reclaim_dead"))
    }

    fn named(&self) -> Result<Option<Offset>, String> {
        self.heap.root(&self.root).map_err(words("root"))
    }

    fn turn(&mut self) -> Result<(), String> {
        let entry = &self.page.entries[self.rng.usize(..self.page.entries.len())];
        let Some((offset, bytes, tag)) = entry.live() else { return self.allocate(entry) };
        match self.rng.u32(..16) {
            0 => self.heap.set_root(&self.root, offset).map(drop).map_err(words("set_root")),
            1..6 => self.resize(entry, offset, bytes, tag),
            _ => self.free(entry, offset, bytes, tag),
        }
    }

    fn some_bytes(&mut self) -> usize {
        let most = if self.rng.u32(..8) == 0 { 8192 } else { 512 };
        8 * self.rng.usize(1..=most / 8)
    }

    fn allocate(&mut self, entry: &Entry) -> Result<(), String> {
        let (bytes, tag) = (self.some_bytes(), self.rng.u64(..1 << 48));
        let offset = match self.rng.u32(..8) {
            0 => self.heap.allocate_aligned(bytes, 256),
            _ => self.heap.allocate(bytes),
        };
        match offset {
            Ok(offset) => {
                fill(&self.heap, offset, bytes, tag);
                entry.enter(offset, bytes, tag);
                Ok(())
            }
            Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(format!("allocate: {error}")),
        }
    }

    fn free(&self, entry: &Entry, offset: Offset, bytes: usize, tag: u64) -> Result<(), String> {
        verify(&self.heap, offset, bytes, tag)?;
        if self.named()? == Some(offset) {
            self.heap.replace_root(&self.root, Some(offset), None).map_err(words("replace_root"))?;
        }
        entry.set(Stage::Changing);
        self.heap.deallocate(offset).map_err(words("deallocate"))?;
        entry.set(Stage::Empty);
        Ok(())
    }

    fn resize(&mut self, entry: &Entry, offset: Offset, bytes: usize, tag: u64) -> Result<(), String> {
        if self.named()? == Some(offset) {
            return Ok(());
        }
        let new_bytes = self.some_bytes();
        entry.set(Stage::Changing);
        // SAFETY: the block is this process's own, and only this thread uses it.
        let place = match unsafe { self.heap.resize(offset, new_bytes) } {
            Ok(place) => place,
            Err(Error::Full { .. }) => {
                entry.set(Stage::Live);
                return Ok(());
            }
            Err(error) => return Err(format!("resize: {error}")),
        };
        verify(&self.heap, place, bytes.min(new_bytes), tag)?;
        fill(&self.heap, place, new_bytes, tag);
        entry.enter(place, new_bytes, tag);
        Ok(())
    }
}
