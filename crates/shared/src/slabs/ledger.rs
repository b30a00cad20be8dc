//! Where a process finds its slabs.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::format::classes::Granule;
use crate::format::slab::{SLAB, Shape, Slab, Tenure};
use crate::mapped::sections::Sections;

/// Where slabs are, and where a process writes besides what it takes and frees. The addresses are found once, not for
/// each block.
pub(super) struct Ledger {
    /// The number of the process's slot, and what the tenures of its slabs have in common.
    pub(super) slot: u8,
    pub(super) tenures: u64,
    pub(super) granule: Granule,
    /// The owner of the first granule.
    owners: NonNull<AtomicU8>,
    /// The metadata of the first slab.
    slabs: NonNull<AtomicU64>,
    shape: Shape,
    /// How many slabs are known to fit the heap.
    units: usize,
}

impl Ledger {
    /// Of the process of `slot`, in a heap whose slabs look like `shape`.
    ///
    /// # Safety
    /// Nothing is asked of this when the sections are no longer mapped.
    pub(super) unsafe fn of(sections: &Sections, slot: u8, shape: Shape) -> Ledger {
        let (owners, slabs) = (NonNull::from(sections.owners()).cast(), sections.slabs());
        Ledger { slot, tenures: Tenure::of_owner(slot), granule: shape.granule(), owners, slabs, shape, units: 0 }
    }

    /// Of no slabs.
    pub(super) fn nothing() -> Ledger {
        let (owners, slabs, shape) = (NonNull::dangling(), NonNull::dangling(), Shape::of(0));
        Ledger { slot: u8::MAX, tenures: 0, granule: shape.granule(), owners, slabs, shape, units: 0 }
    }

    /// The heap is known to have `size` bytes of data, and never becomes shorter.
    pub(super) fn set_reach(&mut self, size: usize) {
        self.units = size / SLAB;
    }

    /// Returns the metadata of the slab at `unit`; `None` where the heap is not known to have any.
    #[inline(always)]
    pub(super) fn slab(&self, unit: usize) -> Option<Slab<'_>> {
        // SAFETY: the metadata of a slab of the heap is backed, and mapped for as long as this is used.
        (unit < self.units).then(|| unsafe { Slab::at(self.slabs.byte_add(unit * self.shape.stride()), &self.shape) })
    }

    /// Returns the owner of the block at `place`.
    ///
    /// # Safety
    /// It lies in the heap.
    #[inline(always)]
    pub(super) unsafe fn owner(&self, place: usize) -> &'static AtomicU8 {
        // SAFETY: each granule of the heap has an owner, mapped for as long as this is used.
        unsafe { self.owners.add(place >> self.granule.shift()).as_ref() }
    }
}

/// Returns what outlives the borrow of the sections.
///
/// # Safety
/// It is not used when the sections are no longer mapped.
pub(super) unsafe fn lasting<T: ?Sized>(part: &T) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*ptr::from_ref(part) }
}
