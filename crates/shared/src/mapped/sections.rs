//! The sections of a segment, wherever they are mapped.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, compiler_fence};

use heapwright_os::{Announcements, Deaths, SegmentFile};

use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::format::process_slot::{FORGOTTEN_DEAD, ProcessSlot};
use crate::format::publication::Published;
use crate::format::root_slot::RootSlot;
use crate::format::slab::{SLAB, Slab, SlabCounts};
use crate::terms::offset::Offset;

/// The sections of a segment, or of a private copy of one.
pub(crate) struct Sections {
    pub(crate) layout: Layout,
    base: NonNull<u8>,
    /// The first byte of the data.
    blocks: NonNull<u8>,
    /// The announcements of processes in the segment's file.
    announcements: Announcements,
}

impl Sections {
    /// Returns the sections that `layout` says lie at `base`, a multiple of the page size, of a segment in `file`.
    ///
    /// # Safety
    /// All that lies below the data is mapped for as long as this is used, and touched by others through atomics or
    /// under the segment's lock only. What the heap's size and capacity say is backed can be touched.
    pub(crate) unsafe fn at_base(base: NonNull<u8>, layout: Layout, file: &SegmentFile) -> Sections {
        // Sections of a private copy have no data, only the address that it would have.
        let blocks = base.map_addr(|address| address.saturating_add(layout.data));
        Sections { layout, base, blocks, announcements: file.announcements() }
    }

    /// Returns what can be found out here about the deaths of processes.
    pub(crate) fn deaths(&self) -> Deaths {
        Deaths::Announced(self.announcements, self.header().namespace())
    }

    /// Returns the segment's first byte.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the first byte of the data, in a mapping of the segment.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> NonNull<u8> {
        self.blocks
    }

    #[inline(always)]
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        // SAFETY: all sections lie within the layout's length, and so within the memory at the base.
        unsafe { self.base.add(offset).cast() }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the header lies at the start, is backed from the start, and consists of atomic integers.
        unsafe { self.at(0).as_ref() }
    }

    pub(crate) fn slots(&self) -> &[ProcessSlot] {
        // SAFETY: the section has a slot for each process, aligned to 8, backed from the start, and consists of atomic
        // integers.
        unsafe { slice::from_raw_parts(self.at(self.layout.slots).as_ptr(), self.layout.plan.processes) }
    }

    /// Has the slot of an owner count; what a number that no slot has owns is not counted.
    #[inline(always)]
    pub(crate) fn count_of(&self, owner: u8, count: fn(&ProcessSlot)) {
        if let Some(slot) = self.slots().get(usize::from(owner)) {
            count(slot);
        }
    }

    pub(crate) fn roots(&self) -> &[RootSlot] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.at(self.layout.roots).as_ptr(), self.layout.plan.roots) }
    }

    /// Returns the owners of all granules; only those of granules of the heap may be touched.
    #[inline(always)]
    pub(crate) fn owners(&self) -> &[AtomicU8] {
        let granules = self.layout.plan.max_size >> self.layout.shift;
        // SAFETY: as above, for bytes; what is not backed is not touched.
        unsafe { slice::from_raw_parts(self.at(self.layout.owners).as_ptr(), granules) }
    }

    /// Returns the owner of the block at `place`, in bytes from the data's start.
    #[inline(always)]
    pub(crate) fn owner(&self, place: usize) -> Option<&AtomicU8> {
        self.owners().get(place >> self.layout.shift)
    }

    /// Returns the number of the owner of the used block at `place`.
    pub(crate) fn owner_of(&self, place: usize) -> u8 {
        self.owner(place).map_or(FORGOTTEN_DEAD, |owner| owner.load(Relaxed))
    }

    /// Returns what lies beside the slot of a process; `None` for a number that no slot has, and in a heap without
    /// slabs.
    #[inline(always)]
    pub(crate) fn slab_counts(&self, slot: u8) -> Option<&SlabCounts> {
        self.layout.shape?;
        let count = self.layout.plan.processes;
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.at(self.layout.slab_counts).as_ptr(), count) }.get(usize::from(slot))
    }

    /// Returns the offset of what the engine sees at `place`.
    #[inline(always)]
    pub(crate) fn offset_at(&self, place: usize) -> Offset {
        // SAFETY: data does not begin at 0.
        unsafe { Offset::new_unchecked((self.layout.data + place) as u64) }
    }

    /// Counts what the process of `slot` has done, in a heap with slabs.
    #[inline(always)]
    pub(crate) fn count_of_slabs(&self, slot: u8, count: fn(&SlabCounts)) {
        if let Some(counts) = self.slab_counts(slot) {
            count(counts);
        }
    }

    /// Returns the metadata of the slab at `unit`, of which there are as many as slabs fit the data; `None` for others,
    /// and in a heap without slabs. Only those within the heap may be touched.
    #[inline(always)]
    pub(crate) fn slab(&self, unit: usize) -> Option<Slab<'_>> {
        let shape = self.layout.shape.as_ref()?;
        if unit >= self.layout.plan.max_size / SLAB {
            return None;
        }
        // SAFETY: as above: the metadata of this slab lies there.
        Some(unsafe { Slab::at(self.slabs().byte_add(unit * shape.stride()), shape) })
    }

    /// Returns the metadata of the first slab, where there is one.
    #[inline(always)]
    pub(crate) fn slabs(&self) -> NonNull<AtomicU64> {
        self.at(self.layout.slabs)
    }

    /// Stores a value in a word of the data.
    #[inline(always)]
    pub(crate) fn publish(&self, published: Published) {
        compiler_fence(SeqCst);
        // Release: a thread that reads the word without the lock sees the contents of the block.
        self.word(published.word).store(published.value, Release);
        compiler_fence(SeqCst);
    }

    /// Returns the word at an offset that was found to be one of the heap's.
    #[inline(always)]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: the offset is a multiple of 8 within the data, which is backed, and the word is used through atomics
        // only.
        unsafe { self.at(offset as usize).as_ref() }
    }

    /// Copies the first `bytes` of one block to another.
    ///
    /// # Safety
    /// Nothing uses the new block, or writes to the old one.
    pub(crate) unsafe fn copy_block(&self, from: Offset, to: Offset, bytes: usize) {
        let base = self.base;
        // SAFETY: both were used blocks of the heap under the lock, and so within the segment and apart; each holds as
        // much. Nothing else uses their bytes meanwhile.
        unsafe { base.add(to.get() as usize).copy_from_nonoverlapping(base.add(from.get() as usize), bytes) };
    }

    pub(crate) fn metadata(&self) -> NonNull<u64> {
        self.at(self.layout.metadata)
    }
}
