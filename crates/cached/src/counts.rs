//! Counts of allocations and frees per class, for programs that ask for them.
//!
//! The fast path counts nothing. Counting makes all calls take the slow path (`mode`).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heapwright_slabs::classes::{CLASSES, size_of_class};
use heapwright_slabs::mode;

/// The counts of one class, or of all blocks that have none.
struct Count {
    allocated: AtomicU64,
    freed: AtomicU64,
}

/// The counts of the process. Equation, when no call is in progress: `live` is the sum over classes of `(allocated -
/// freed) * size`, and the lengths of the blocks that have none.
struct Counts {
    classes: [Count; CLASSES + 1],
    requested: AtomicU64,
    rounded: AtomicU64,
    live: AtomicU64,
    peak_live: AtomicU64,
}

static COUNTS: Counts = Counts {
    classes: [const { Count { allocated: AtomicU64::new(0), freed: AtomicU64::new(0) } }; CLASSES + 1],
    requested: AtomicU64::new(0),
    rounded: AtomicU64::new(0),
    live: AtomicU64::new(0),
    peak_live: AtomicU64::new(0),
};

/// The blocks of one class so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCount {
    /// The length of its blocks in bytes; `None` for the blocks that have no class, each of its own length.
    pub size: Option<usize>,
    /// Blocks allocated.
    pub allocated: u64,
    /// Blocks freed.
    pub freed: u64,
}

/// The sums of all allocations and frees so far, in bytes except the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Blocks allocated; those that `realloc` replaces count.
    pub allocated: u64,
    /// Blocks freed.
    pub freed: u64,
    /// The bytes requested.
    pub requested: u64,
    /// The same, rounded up to classes and pages.
    pub rounded: u64,
    /// The bytes of live blocks.
    pub live: u64,
    /// The maximum of `live` so far.
    pub peak_live: u64,
}

/// Enables counting. To be called before the first allocation.
pub fn keep_counts() {
    mode::count();
}

/// Returns whether calls are counted.
#[inline]
pub(crate) fn are_kept() -> bool {
    mode::is_counted()
}

/// Records the allocation of a block of `rounded` bytes, which has a class or not.
pub(crate) fn record_allocation(class: Option<usize>, requested: usize, rounded: usize) {
    COUNTS.classes[class.unwrap_or(CLASSES)].allocated.fetch_add(1, Relaxed);
    COUNTS.requested.fetch_add(requested as u64, Relaxed);
    COUNTS.rounded.fetch_add(rounded as u64, Relaxed);
    let live = COUNTS.live.fetch_add(rounded as u64, Relaxed) + rounded as u64;
    COUNTS.peak_live.fetch_max(live, Relaxed);
}

/// Records the free of a block of `rounded` bytes.
pub(crate) fn record_free(class: Option<usize>, rounded: usize) {
    COUNTS.classes[class.unwrap_or(CLASSES)].freed.fetch_add(1, Relaxed);
    COUNTS.live.fetch_sub(rounded as u64, Relaxed);
}

/// Records that a block of `before` bytes has `after` bytes now.
pub(crate) fn record_resize(before: usize, after: usize) {
    let change = (after as u64).wrapping_sub(before as u64);
    let live = COUNTS.live.fetch_add(change, Relaxed).wrapping_add(change);
    COUNTS.peak_live.fetch_max(live, Relaxed);
}

/// Returns the sums; `None` when calls are not counted.
#[must_use]
pub fn totals() -> Option<Totals> {
    let sum = |read: fn(&Count) -> &AtomicU64| COUNTS.classes.iter().map(|count| read(count).load(Relaxed)).sum();
    are_kept().then(|| Totals {
        allocated: sum(|count| &count.allocated),
        freed: sum(|count| &count.freed),
        requested: COUNTS.requested.load(Relaxed),
        rounded: COUNTS.rounded.load(Relaxed),
        live: COUNTS.live.load(Relaxed),
        peak_live: COUNTS.peak_live.load(Relaxed),
    })
}

/// Returns the counts of the sizes of which a block was ever allocated, the shortest first; none when calls are not
/// counted.
pub fn class_counts() -> impl Iterator<Item = ClassCount> {
    // The first two classes have blocks of one size.
    let counts = COUNTS.classes.iter().enumerate().skip(1).map(|(class, count)| {
        let more = (class == 1).then_some(&COUNTS.classes[0]);
        let sum = |read: fn(&Count) -> &AtomicU64| {
            read(count).load(Relaxed) + more.map_or(0, |more| read(more).load(Relaxed))
        };
        let size = (class < CLASSES).then(|| size_of_class(class));
        ClassCount { size, allocated: sum(|count| &count.allocated), freed: sum(|count| &count.freed) }
    });
    counts.filter(|count| count.allocated != 0)
}
