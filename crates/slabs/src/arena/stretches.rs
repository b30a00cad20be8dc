//! Huge pages where a dense heap grows.
//!
//! A stretch is as long as a huge page. When a slab is placed that begins one, and the heap below is nearly full, the
//! stretch is backed by a huge page: the system needs an eighth of the time for it that it needs for as many small
//! ones. It is touched at once, and no other huge pages are asked for: what is purged later is not backed again as a
//! whole by the system of its own accord.
//!
//! Of a huge page all is in memory, so that it does not tell whether the heap is full. Every fourth stretch is a probe
//! that gets small pages, and what the program touches in probes decides about the stretches that follow. A program
//! that goes on with blocks which it does not touch gets no more.
//!
//! A system may take longer for a huge page than for small ones: when it has to make room first, or when the memory is
//! taken back by the host of a virtual machine while it is free. Each one is timed therefore, and after one that took
//! too long, more and more stretches are left to small pages.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heapwright_os::{HUGE_PAGE, back_by_huge_page, forbid_huge_pages, huge_page_size, resident_unless_filtered};

use crate::scarcity;

/// The length of a stretch, in bytes. Where pages are longer than 4 KiB, huge pages have 32 or 512 MiB, and are not
/// asked for.
const STRETCH: usize = HUGE_PAGE;

/// The bytes of slabs and long blocks from which on the system makes no huge pages of its own accord, so that there are
/// probes.
const PROBED_FROM: usize = 16 << 20;

/// The bytes from which on huge pages are asked for: the untouched end of one is then a small part of the heap.
const FROM: usize = 32 << 20;

/// From one probe to the next, in stretches.
const PROBE_DISTANCE: usize = 4;

/// The part of the bytes in use that was placed last, in which the slabs of many classes are still filled.
const RECENT_PART: usize = 8;

/// A small page takes some 2 microseconds, of which a quarter is gained at least where a huge one takes less than this
/// for as much memory, in nanoseconds.
const QUICK: u64 = 800_000;

/// The stretches that are left to small pages, until the next is backed by a huge one.
static LEFT_SMALL: AtomicU32 = AtomicU32::new(0);

/// How many stretches are left to small pages after the next one that takes too long.
static NEXT_SMALL: AtomicU32 = AtomicU32::new(FEWEST_SMALL);
const FEWEST_SMALL: u32 = 8;
const MOST_SMALL: u32 = 512;

/// Which part of the page heap was considered.
pub(super) struct Stretches {
    /// No stretch that begins below this address is considered again.
    seen: usize,
    /// The addresses for which the system was asked for no huge pages.
    small: Range<usize>,
}

impl Stretches {
    pub(super) const NONE: Stretches = Stretches { seen: 0, small: 0..0 };

    /// Observes that the page heap reaches up to `end` before it grows.
    pub(super) fn observe_end(&mut self, end: usize) {
        self.seen = self.seen.min(end);
        self.small.end = self.small.end.min(end);
        if self.small.is_empty() {
            self.small = 0..0;
        }
    }

    /// Observes that a slab was placed, in a heap with `used` bytes that reaches from `base` up to `end`. Returns the
    /// stretch that begins with it if that is to be backed.
    pub(super) fn observe_slab(
        &mut self,
        slab: NonNull<u8>,
        used: usize,
        (base, end): (NonNull<u8>, usize),
    ) -> Option<Stretch> {
        let start = slab.addr().get();
        if used < PROBED_FROM || huge_page_size() != STRETCH {
            return None;
        }
        if end > self.small.end {
            if self.small.is_empty() {
                self.small = start..start;
            }
            forbid_huge_pages(self.small.end..end);
            self.small.end = end;
        }
        let is_new = start.is_multiple_of(STRETCH) && start >= self.seen && start + STRETCH <= end;
        if used < FROM || !is_new || is_probe(start) {
            return None;
        }
        self.seen = start + STRETCH;
        let probes = probes_below(start - used / RECENT_PART);
        (probes[0] >= self.small.start).then_some(Stretch { base, start: slab, probes })
    }
}

fn is_probe(start: usize) -> bool {
    (start / STRETCH).is_multiple_of(PROBE_DISTANCE)
}

/// Returns the addresses of the last two probes that end at an address or below.
fn probes_below(end: usize) -> [usize; 2] {
    let last = (end / STRETCH).saturating_sub(1) / PROBE_DISTANCE * PROBE_DISTANCE;
    [last.saturating_sub(PROBE_DISTANCE), last].map(|number| number * STRETCH)
}

/// A stretch that begins with a new slab.
#[must_use]
pub(crate) struct Stretch {
    /// Where the heap begins.
    base: NonNull<u8>,
    start: NonNull<u8>,
    /// The addresses of the probes that decide.
    probes: [usize; 2],
}

impl Stretch {
    /// Backs it by a huge page, if the heap is dense below, and that is quick.
    ///
    /// # Safety
    /// The slab is the caller's, and its contents are not needed or 0.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn back(self) {
        if scarcity::purges_at_once()
            || is_left_small()
            || !self.probes.into_iter().all(|probe| self.is_nearly_full(probe))
        {
            return;
        }
        // SAFETY: the caller's promise. The pages are private anonymous memory, and purged by the functions of `os`.
        match unsafe { back_by_huge_page(self.base.addr().get(), self.start) } {
            Some(duration) if duration > QUICK => {
                let next = NEXT_SMALL.load(Relaxed);
                LEFT_SMALL.store(next, Relaxed);
                NEXT_SMALL.store((2 * next).min(MOST_SMALL), Relaxed);
            }
            Some(_) => NEXT_SMALL.store(FEWEST_SMALL, Relaxed),
            None => {}
        }
    }

    /// Returns whether nearly all pages of a probe are in memory.
    fn is_nearly_full(&self, probe: usize) -> bool {
        const NEARLY: usize = STRETCH / 16 * 15;
        let start = NonNull::new(self.base.as_ptr().with_addr(probe));
        start.and_then(|start| resident_unless_filtered(start, STRETCH)).is_some_and(|resident| resident >= NEARLY)
    }
}

/// Counts a stretch as left to small pages, as long as some are to be.
fn is_left_small() -> bool {
    let left = LEFT_SMALL.load(Relaxed);
    LEFT_SMALL.store(left.saturating_sub(1), Relaxed);
    left != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn probes_lie_below_and_are_never_backed() {
        for end in (8 * STRETCH..32 * STRETCH).step_by(STRETCH / 2) {
            let [lower, upper] = probes_below(end);
            assert!(is_probe(lower) && is_probe(upper) && upper - lower == PROBE_DISTANCE * STRETCH);
            assert!(upper + STRETCH <= end && upper + (PROBE_DISTANCE + 1) * STRETCH > end, "{upper:x} {end:x}");
        }
    }
}
