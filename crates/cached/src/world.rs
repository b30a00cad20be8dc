//! What the heaps of a process stand on, as it is; `model.rs` has the same names for loom.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, fence};

pub(crate) use core::hint::spin_loop;

pub(crate) use heapwright_os::{
    ForkHandlers, Lock, Locked, ThreadEnd, at_fork, is_single_threaded, sleep_while, wake_one,
};

/// How much address space slabs and the blocks between them may take.
pub(crate) const CAPACITY: usize = 4 << 40;

/// How many freed blocks are gathered for an owner.
#[inline(always)]
pub(crate) const fn gathered() -> u32 {
    32
}

/// The weight (see `inbox::weight_of`) of the freed blocks that are gathered for an owner.
pub(crate) const GATHERED_WEIGHT: usize = 32 << 10;

/// The weight of the freed blocks that wait for an owner that is at work: what its lists have room for.
pub(crate) const BUDGET: usize = 1 << 20;

/// The weight of those that wait for an owner that sleeps.
pub(crate) const LEAST_BUDGET: usize = 64 << 10;

/// How often an owner looks whether its lock is free before it sleeps: for about as long as a visitor needs to leave.
pub(crate) const SPINS: u32 = 100;

/// Returns whether the calling thread does not exist in the model of a fork's child; here no such thread runs.
#[inline(always)]
pub(crate) fn is_left_behind() -> bool {
    false
}

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

/// In the model: ends a thread that a fork's child does not have, before it uses what it has just locked.
#[inline(always)]
pub(crate) fn stay_behind(_word: &AtomicU32, _free: u32) {}
