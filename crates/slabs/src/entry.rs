//! The entry of a slab in the page map: its owner and its class in one word, found by the slab's number.

use crate::classes::{CLASSES, GRAIN};

/// The class in the entry of a dissolved slab, whose blocks have several classes.
pub const DISSOLVED: usize = CLASSES;

/// The owner and the class of a slab: the owner's number in the high bits, the class in the low 12.
///
/// The class is stored as the distance in bytes of the class's free list from that of class 0 (a list takes [`GRAIN`]
/// bytes). The XOR of an entry with the owner's entry for class 0 is therefore the offset of the list in the owner's
/// thread cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry(u32);

impl Entry {
    /// The number of bits below the owner's number.
    const OWNER: u32 = 12;

    /// The bytes of a free list.
    pub(crate) const STEP: usize = GRAIN;

    /// The entry of pages without a slab.
    pub const NONE: Entry = Entry(0);

    pub(crate) const fn new(owner: u32, class: usize) -> Entry {
        Entry(owner << Entry::OWNER | (class * Entry::STEP) as u32)
    }

    pub(crate) const fn from_bits(bits: u32) -> Entry {
        Entry(bits)
    }

    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the number of the heap that has the slab; 0 for none.
    pub const fn owner(self) -> u32 {
        self.0 >> Entry::OWNER
    }

    /// Returns the class of all blocks of the slab, or [`DISSOLVED`].
    pub const fn class(self) -> usize {
        (self.0 & ((1 << Entry::OWNER) - 1)) as usize / Entry::STEP
    }
}

const _: () = assert!(DISSOLVED * Entry::STEP < 1 << Entry::OWNER);
