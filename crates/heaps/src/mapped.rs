//! The heap that maps every allocation separately.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_os::{map, map_aligned, page_size, purge, remap, round_to_pages, unmap};
use heapwright_placement::{Counters, FreeError, HoleStats, Violation};

use crate::growing::OutOfMemory;

mod table;

pub use table::{Mapping, MappingTotals, Mappings};

/// A block of a [`MappedHeap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its start, at an OS page boundary.
    pub start: NonNull<u8>,
    /// Its length in bytes, whole OS pages.
    pub size: usize,
}

/// A heap in which every allocation is a mapping of its own, rounded up to whole OS pages, and every free unmaps at
/// once.
///
/// No address space is reused on purpose and there are no holes, so that the hardware detects an access after a free.
/// The price is one or two system calls per operation, at least a page per block, and the system's limit on the number
/// of mappings.
///
/// ```
/// use core::alloc::Layout;
/// let mut heap = heapwright::MappedHeap::new();
/// let layout = Layout::new::<u64>();
/// let block = heap.allocate(layout)?;
/// assert_eq!(heap.usable_size(block), Some(4096));
/// // SAFETY: the block is not used any more.
/// unsafe { heap.deallocate(block, layout)? };
/// assert_eq!(heap.usable_size(block), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MappedHeap {
    table: Mappings,
    counters: Counters,
}

// SAFETY: the heap owns its table and its mappings, and none of them is tied to a thread.
unsafe impl Send for MappedHeap {}

impl MappedHeap {
    /// Creates an empty heap.
    #[must_use]
    pub const fn new() -> Self {
        const NOTHING: Counters = Counters {
            mallocs: 0,
            frees: 0,
            reuses: 0,
            grows: 0,
            splits: 0,
            coalesces: 0,
            resizes: 0,
            blocks: 0,
            holes: 0,
            requested: 0,
            rounded: 0,
            released: 0,
            unsized_frees: 0,
            live: 0,
            peak_live: 0,
            heap_size: 0,
            peak_heap_size: 0,
        };
        MappedHeap { table: Mappings::new(), counters: NOTHING }
    }

    /// Maps a zeroed block for `layout`.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the heap is unchanged.
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let length = round_to_pages(layout.size()).ok_or(OutOfMemory)?;
        self.table.make_room().map_err(|_| OutOfMemory)?;
        let mapped = if layout.align() <= page_size() { map(length) } else { map_aligned(length, layout.align()) };
        let start = mapped.map_err(|_| OutOfMemory)?;
        self.table.insert(Mapping { address: start.addr().get(), length });
        self.counters.mallocs += 1;
        self.counters.grows += 1;
        self.counters.blocks += 1;
        self.counters.requested += layout.size() as u64;
        self.counters.rounded += length as u64;
        self.count_live(0, length);
        Ok(start)
    }

    /// Unmaps a block that was allocated for `layout`.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`] when no block starts there, [`FreeError::WrongSize`] when it is too short for `layout`;
    /// the heap is unchanged then.
    ///
    /// # Safety
    /// If a block starts at `block`, it is not used any more.
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        match self.usable_size(block) {
            None => return Err(FreeError::NotABlock),
            Some(size) if size < layout.size() => return Err(FreeError::WrongSize),
            Some(_) => self.counters.released += layout.size() as u64,
        }
        // SAFETY: if a block starts at this address, it is not used any more, as this function requires.
        unsafe { self.release(block) }
    }

    /// Unmaps a block of unknown size.
    ///
    /// # Errors
    /// As [`MappedHeap::deallocate`].
    ///
    /// # Safety
    /// If a block starts at `block`, it is not used any more.
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        // SAFETY: if a block starts at this address, it is not used any more, as this function requires.
        unsafe { self.release(block) }?;
        self.counters.unsized_frees += 1;
        Ok(())
    }

    unsafe fn release(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        let length = self.table.remove(block.addr().get()).ok_or(FreeError::NotABlock)?;
        // SAFETY: the table contains this mapping, so that it belongs to this heap, and the block is not used any more.
        unsafe {
            if unmap(block, length).is_err() {
                // The system has too many mappings to split one: the address range leaks, but its memory is returned.
                let _ = purge(block, length);
            }
        }
        self.counters.frees += 1;
        self.counters.blocks -= 1;
        self.count_live(length, 0);
        Ok(())
    }

    /// Resizes a block of `old` requested bytes to `new` bytes, and keeps its contents; returns the block. Pages are
    /// moved, not copied.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the block is unchanged. Also when no block starts there.
    ///
    /// # Safety
    /// If a block starts at `block`, the bytes cut off and, if the result is another address, the old block are not
    /// used any more. A block that moves is aligned to OS pages only.
    pub unsafe fn resize(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let before = self.usable_size(block).ok_or(OutOfMemory)?;
        let after = round_to_pages(new).ok_or(OutOfMemory)?;
        let mut start = block;
        if after != before {
            // SAFETY: the table contains this mapping, so that it belongs to this heap; the bytes cut off and the old
            // address after a move are not used any more, as this function requires.
            start = unsafe { remap(block, before, after) }.map_err(|_| OutOfMemory)?;
            self.table.remove(block.addr().get());
            self.table.insert(Mapping { address: start.addr().get(), length: after });
            self.count_live(before, after);
        }
        self.counters.resizes += 1;
        self.counters.requested += new.saturating_sub(old) as u64;
        self.counters.rounded += after.saturating_sub(before) as u64;
        self.counters.released += old.saturating_sub(new) as u64;
        Ok(start)
    }

    fn count_live(&mut self, before: usize, after: usize) {
        let counters = &mut self.counters;
        counters.live = counters.live + after as u64 - before as u64;
        counters.peak_live = counters.peak_live.max(counters.live);
        counters.heap_size = counters.live;
        counters.peak_heap_size = counters.peak_live;
    }

    /// Returns the number of bytes in the block at `block`; `None` when no block starts there.
    #[must_use]
    pub fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.table.get(block.addr().get())
    }

    /// Returns the block that contains `address`. Time: proportional to the number of blocks.
    #[must_use]
    pub fn block_containing(&self, address: NonNull<u8>) -> Option<Mapped> {
        let address = address.addr().get();
        self.blocks().find(|block| address.wrapping_sub(block.start.addr().get()) < block.size)
    }

    /// Returns all blocks, in no particular order.
    pub fn blocks(&self) -> impl Iterator<Item = Mapped> + '_ {
        self.table.iter().filter_map(|Mapping { address, length }| {
            NonNull::new(core::ptr::with_exposed_provenance_mut(address)).map(|start| Mapped { start, size: length })
        })
    }

    /// Returns the heap's counters. Every request counts as a grow, the block count is that of live blocks, and a free
    /// reduces the heap's size.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the counters in place, for readers outside the process.
    #[must_use]
    pub fn counters_in_place(&self) -> &Counters {
        &self.counters
    }

    /// Returns the holes: there are never any.
    #[must_use]
    pub fn holes(&self) -> HoleStats {
        HoleStats::default()
    }

    /// Verifies that every block can be found and that the counters agree. Time: proportional to the number of blocks.
    ///
    /// # Errors
    /// The first invariant that is violated.
    pub fn check(&self) -> Result<(), Violation> {
        self.table.check().map_err(|offset| Violation { invariant: "every mapping is found in the table", offset })?;
        let live: usize = self.table.iter().map(|entry| entry.length).sum();
        let blocks = self.table.iter().count() as u64;
        if self.counters.live != live as u64 || self.counters.blocks != blocks {
            return Err(Violation { invariant: "the counters agree with the table", offset: 0 });
        }
        Ok(())
    }
}

impl Default for MappedHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for MappedHeap {
    fn drop(&mut self) {
        for block in self.blocks() {
            // SAFETY: the mappings belong to this heap, and its blocks are not used after it is dropped.
            let _ = unsafe { unmap(block.start, block.size) };
        }
    }
}
