//! Atomics, locks, thread ends and fork handlers, and constants that models change; `model.rs` has the same names for
//! loom.

pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, fence};

pub use core::hint::spin_loop;

pub use heapwright_os::{
    ForkHandlers, Lock, Locked, ThreadEnd, at_fork, is_single_threaded, sleep_while, thread_number, wake_one,
};

/// The bytes of address space that are reserved for the pages: a little less than 4 TiB, so that two parts of the page
/// heap's metadata, of which one is long for 4 TiB by as much as a page table maps, begin in one.
pub const CAPACITY: usize = (4 << 40) - (256 << 30);

/// Returns the number of blocks in a full remote-free buffer.
#[inline(always)]
pub const fn batch_blocks() -> u32 {
    32
}

/// The weight (see `inbox::weight_of`) of a full remote-free buffer.
pub const BATCH_WEIGHT: usize = 32 << 10;

/// The budget of the inbox of an owner that has collected, in weight: what two queues of 1,024 blocks hold. With half
/// of it, threads that free for a producer reclaimed in its place whenever it was not running.
pub const BUDGET: usize = 2 << 20;

/// The budget of the inbox of an owner that sleeps.
pub const LEAST_BUDGET: usize = 64 << 10;

/// The number of times that an owner checks whether its lock is free before it sleeps: about the time in which a
/// visitor unlocks.
pub const SPINS: u32 = 100;

/// Returns whether the calling thread does not exist in the model of a fork's child; here no such thread runs.
#[inline(always)]
pub fn is_left_behind() -> bool {
    false
}

/// Declares a static.
macro_rules! only_one {
    ($(#[$about:meta])* $visible:vis static $name:ident: $type:ty = $initial:expr;) => {
        $(#[$about])*
        $visible static $name: $type = $initial;
    };
}
pub(crate) use only_one;

/// Reports to loom that memory at this address that is not atomic is about to be used.
#[inline(always)]
pub fn touch<T>(_place: *const T) {}

/// Makes `_count` atomic zeros at `_place`: does nothing, because the memory is zero.
pub(crate) unsafe fn make_atomic(_place: *mut AtomicU32, _count: usize) {}

/// In the model: ends a thread that a fork's child does not have, before it uses what it has just locked.
#[inline(always)]
pub fn stay_behind(_word: &AtomicU32, _free: u32) {}
