//! Lookups by the address of a block.

use core::ptr::NonNull;

use crate::{harden, long};
use heapwright_slabs::classes::size_of_class;
use heapwright_slabs::mode;
use heapwright_slabs::origin::Origin;

/// Returns the length of the block of a slab at an address; `None` when no such block begins there.
pub(crate) fn length_in_slab(block: NonNull<u8>) -> Option<usize> {
    Origin::of(block).map(|origin| size_of_class(origin.class))
}

/// Returns the number of bytes of the block at `block` that the program may use; `None` when no block starts there. A
/// freed block of up to 32 KiB whose memory is still its heap's counts as one.
#[must_use]
pub fn usable_size(block: NonNull<u8>) -> Option<usize> {
    match length_in_slab(block) {
        Some(size) => Some(size),
        None => usable_size_without_class(block),
    }
}

#[inline(never)]
fn usable_size_without_class(block: NonNull<u8>) -> Option<usize> {
    if mode::is_hardened() { harden::usable_size(block) } else { long::usable_size(block) }
}
