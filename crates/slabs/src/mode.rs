//! The mode of the heap: whether calls are counted, and which measures of hardening are taken.
//!
//! The fast path, `take` and `give` of `heapwright-cached`, reads the calling thread's slot and nothing else. In
//! every mode but the usual one the slots contain the empty heap, so that all calls take the slow path, which reads the
//! mode. The mode is set before the first allocation.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::measures::Measures;

static MODE: AtomicU8 = AtomicU8::new(0);

/// Calls are counted. (The bits below are the measures of hardening.)
const COUNTED: u8 = 1 << 7;

const _: () = assert!(Measures::ALL.bits() & COUNTED == 0);

/// Enables counting.
pub fn count() {
    MODE.fetch_or(COUNTED, Relaxed);
}

/// Enables measures of hardening.
pub fn harden(measures: Measures) {
    MODE.fetch_or(measures.bits(), Relaxed);
}

/// Returns whether calls are counted.
#[inline]
pub fn is_counted() -> bool {
    MODE.load(Relaxed) & COUNTED != 0
}

/// Returns the measures that are taken.
#[inline]
pub fn measures() -> Measures {
    Measures::from_bits(MODE.load(Relaxed))
}

/// Returns the measures that are taken; none if calls are counted.
#[inline(always)]
pub fn uncounted_measures() -> Measures {
    let mode = MODE.load(Relaxed);
    if mode & COUNTED == 0 { Measures::from_bits(mode) } else { Measures::NONE }
}

/// Returns whether any measure is taken.
#[inline]
pub fn is_hardened() -> bool {
    measures() != Measures::NONE
}

/// Returns whether the slots contain the threads' heaps, so that calls may take the fast path.
pub(crate) fn is_usual() -> bool {
    MODE.load(Relaxed) == 0
}
