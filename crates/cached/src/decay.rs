//! When a step of decay is due, and that of the arena: what was not used for a period is purged, some of it at a time.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heapwright_os::coarse_nanoseconds;
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::purging;

/// When the next step is due, in nanoseconds; 0 before the first.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns the time between two steps, in nanoseconds.
pub(crate) fn step_of(period: u64) -> u64 {
    /// The steps in a period.
    const STEPS: u64 = 8;
    const LEAST: u64 = 10_000_000;
    (period / STEPS).max(LEAST)
}

/// Returns whether the next step is due. Of several threads, one does it.
pub(crate) fn is_due(now: u64, period: u64) -> bool {
    let next = NEXT.load(Relaxed);
    now >= next && NEXT.compare_exchange(next, now + step_of(period), Relaxed, Relaxed).is_ok() && next != 0
}

/// Purges a part of what was not used in the arena for a period.
pub(crate) fn decay_arena(now: u64, period: u64) {
    /// The times that the arena is locked to purge some of its holes.
    const PARTS: u32 = 4;
    for _ in 0..PARTS {
        if !ARENA.lock().is_some_and(|mut arena| arena.decay(now, period)) {
            break;
        }
    }
}

/// Does what is due after a span was placed in the hardened heap, whose slabs and caches do not decay.
#[inline(never)]
pub(crate) fn attend_span() {
    let Some(period) = purging::period() else { return };
    let now = coarse_nanoseconds();
    if is_due(now, period) {
        decay_arena(now, period);
    }
}
