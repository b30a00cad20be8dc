//! Which way calls take.
//!
//! The usual ways, [`take`](crate::take) and [`give`](crate::give), look at the calling thread's slot and at nothing else. Whoever
//! wants more of each call than these do has the slots keep the empty heap, so that all calls come to the long ways, which look here.
//! What is wanted is said before the first allocation and stays so.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::harden::Measures;

static MODE: AtomicU8 = AtomicU8::new(0);

/// Everything is counted. (The bits below are the measures of hardening.)
const COUNTED: u8 = 1 << 7;

const _: () = assert!(Measures::ALL.bits() & COUNTED == 0);

/// Has everything counted.
pub(crate) fn count() {
    MODE.fetch_or(COUNTED, Relaxed);
}

/// Has these measures taken.
pub(crate) fn harden(measures: Measures) {
    MODE.fetch_or(measures.bits(), Relaxed);
}

/// Whether everything is counted.
#[inline]
pub(crate) fn is_counted() -> bool {
    MODE.load(Relaxed) & COUNTED != 0
}

/// The measures that are taken.
#[inline]
pub(crate) fn measures() -> Measures {
    Measures::from_bits(MODE.load(Relaxed))
}

/// Whether slots keep the calling thread's heap.
pub(crate) fn is_usual() -> bool {
    MODE.load(Relaxed) == 0
}
