//! Platforms without assembly, and Miri: no registers, no counter, no thread-local words.

use core::ptr::NonNull;

use super::Place;

pub(crate) fn registers() -> Option<Place> {
    None
}

/// Does nothing.
pub fn prefetch(_address: *const u8) {}

/// Does nothing.
pub fn prefetch_to_write(_address: *const u8) {}

pub(crate) fn thread_pointer() -> usize {
    0
}

pub(crate) fn counter() -> Option<u64> {
    None
}

pub(crate) fn wait_for_instructions() {}

pub(crate) fn single_threaded_flag() -> Option<NonNull<u8>> {
    None
}

/// Nothing is found by its name.
macro_rules! weak_address {
    ($name:literal) => {
        core::ptr::null::<()>()
    };
}
pub(crate) use weak_address;
