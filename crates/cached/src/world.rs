//! What the heaps of a process stand on, as it is; `model.rs` has the same names for loom.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

pub(crate) use heapwright_os::{ForkHandlers, Lock, Locked, ThreadEnd, at_fork};

/// How much address space slabs and the blocks between them may take.
pub(crate) const CAPACITY: usize = 4 << 40;

/// How many freed blocks are gathered for an owner.
pub(crate) const GATHERED: u32 = 32;

/// Something that there is once in the process.
macro_rules! only_one {
    ($(#[$about:meta])* $visible:vis static $name:ident: $type:ty = $initial:expr;) => {
        $(#[$about])*
        $visible static $name: $type = $initial;
    };
}
pub(crate) use only_one;

/// Memory at this address that is not atomic is about to be used: here only loom wants to know.
#[inline(always)]
pub(crate) fn touch<T>(_place: *const T) {}

/// Makes so many numbers at `_place` atomic zeros, which they are, for the memory is zero.
pub(crate) unsafe fn make_atomic(_place: *mut AtomicU32, _count: usize) {}
