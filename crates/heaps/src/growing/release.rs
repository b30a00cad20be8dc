//! Frees, and what they give back to the system.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_os::page_size;
use heapwright_placement::{Block, BlockState, Engine, FreeError, Freed};

use super::GrowingHeap;
use crate::policy::Policy;

/// What a heap has given back to the system so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageReturns {
    /// How often the heap looked for pages to give back, by itself or on request.
    pub sweeps: u64,
    /// Runs of pages given back.
    pub runs: u64,
    /// Bytes given back.
    pub bytes: u64,
}

impl<P: Policy> GrowingHeap<P> {
    /// Frees a block that was allocated for `layout`.
    ///
    /// # Errors
    /// [`FreeError`] when `block` is not the start of a used block or that is too short for `layout`; found exactly and
    /// always, and nothing has changed then.
    ///
    /// # Safety
    /// If a used block starts at `block`, nobody uses it any more.
    #[inline]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        let freed = self.engine.deallocate_sized(self.region.offset(block), layout.size())?;
        self.note(&freed);
        Ok(())
    }

    /// Frees a block whose size the caller does not know. From then on the heap cannot tell how much of it is
    /// internal fragmentation.
    ///
    /// # Errors
    /// As [`GrowingHeap::deallocate`].
    ///
    /// # Safety
    /// As [`GrowingHeap::deallocate`].
    #[inline]
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        let freed = self.engine.deallocate(self.region.offset(block))?;
        self.note(&freed);
        Ok(())
    }

    /// Marks the pages that a free made part of a hole, and sweeps when many have gathered.
    #[inline(always)]
    pub(super) fn note(&mut self, freed: &Freed) {
        if self.dirty.mark(freed) && self.dirty.bytes() > self.keep {
            self.sweep_if_worth_it();
        }
    }

    #[cold]
    #[inline(never)]
    fn sweep_if_worth_it(&mut self) {
        if self.dirty.bytes() > self.engine.top() / self.keep_part {
            self.trim();
        }
    }

    /// Gives every whole page that lies in a hole back to the system, and returns how many bytes that were.
    ///
    /// Time: proportional to the pages that came to lie in holes since the last time.
    pub fn trim(&mut self) -> usize {
        let mut bytes = 0;
        let mut page = 0;
        while let Some(run) = self.dirty.take_run(page) {
            page = run.end;
            bytes += self.purge_holes(run.start * page_size(), run.end * page_size());
        }
        self.returns.sweeps += 1;
        self.returns.bytes += bytes as u64;
        bytes
    }

    /// Gives back the whole pages between two page boundaries that lie in holes.
    fn purge_holes(&mut self, from: usize, to: usize) -> usize {
        let page = page_size();
        let mut bytes = 0;
        let mut at = from;
        while at < to
            && let Some(Block { offset, size, state }) = self.engine.block_containing(at)
        {
            let end = (offset + size).min(to) & !(page - 1);
            if state == BlockState::Free && at < end {
                // SAFETY: the range lies in a hole, which has no contents.
                bytes += unsafe { self.region.purge(at, end) };
                self.returns.runs += 1;
            }
            at = end.max(at + page);
        }
        bytes
    }

    /// Whether every page of a block, which is this heap's and whole pages long, lay in a hole at some time and was not given back
    /// since: so that most likely it is in memory, and need not be had from the system.
    #[must_use]
    pub fn was_kept(&self, block: NonNull<u8>, bytes: usize) -> bool {
        let first = self.region.offset(block) / page_size();
        self.dirty.has_all(first..first + bytes / page_size())
    }

    /// Changes how many bytes of pages in holes are kept, see [`Settings::keep`](super::Settings).
    pub fn set_keep(&mut self, bytes: usize) {
        self.keep = bytes;
    }

    /// What has been given back to the system so far.
    #[must_use]
    pub fn returns(&self) -> PageReturns {
        self.returns
    }
}
