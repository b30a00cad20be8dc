//! Where a block belongs: the slab that it lies in, that slab's heap, and the class of the block.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use crate::arena::ARENA;
use crate::classes::{SLAB, is_block};
use crate::corruption::corrupted;
use crate::entry::{DISSOLVED, Entry};
use crate::platform::fence;

/// Where a block belongs.
pub struct Origin {
    /// The entry of its slab.
    pub entry: Entry,
    /// The class of the block.
    pub class: usize,
}

impl Origin {
    /// Returns where the block at an address belongs; `None` if no block begins there.
    #[inline]
    pub fn of(block: NonNull<u8>) -> Option<Origin> {
        let entry = ARENA.entry(ARENA.number_of(block.addr().get())?);
        let class = class_of_block(block, entry)?;
        Some(Origin { entry, class })
    }

    /// Returns where a block belongs that came from a list. Ends the process if it is none.
    pub(crate) fn of_listed(block: NonNull<u8>) -> Origin {
        Origin::of(block).unwrap_or_else(|| corrupted(block))
    }
}

/// Returns the class of the block at an address in a slab with this entry; `None` if no block begins there.
#[inline]
pub(crate) fn class_of_block(block: NonNull<u8>, entry: Entry) -> Option<usize> {
    match entry.class() {
        _ if entry == Entry::NONE => None,
        DISSOLVED => class_in_dissolved(block),
        class => is_block(block.addr().get() % SLAB, class).then_some(class),
    }
}

/// Returns the class of the block at an address in a dissolved slab; `None` if no block begins there.
#[cold]
#[inline(never)]
pub(crate) fn class_in_dissolved(block: NonNull<u8>) -> Option<usize> {
    // The entry was written after the map.
    fence(Ordering::Acquire);
    let number = ARENA.number_of(block.addr().get())?;
    ARENA.grain_map(number).class_at(block.addr().get() % SLAB)
}
