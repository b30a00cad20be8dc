//! What is counted, for who asks for it: per class, how many blocks came and went.
//!
//! The ways that most calls take count nothing; whoever wants figures has all take the longer one (`mode`).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::classes::{CLASSES, size_of_class};
use crate::mode;

/// What is counted of one class, or of all blocks that have none.
struct Count {
    allocated: AtomicU64,
    freed: AtomicU64,
}

/// The counts of the process. Equation, when no thread is at work: `live` is the sum over classes of `(allocated - freed) * size`, and
/// the lengths of the blocks that have none.
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
    /// How long its blocks are, in bytes; `None` for the blocks that have no class, each of its own length.
    pub size: Option<usize>,
    /// Blocks allocated.
    pub allocated: u64,
    /// Blocks freed.
    pub freed: u64,
}

/// What has been allocated and freed so far, in bytes but for the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Blocks allocated; those that `realloc` replaces count.
    pub allocated: u64,
    /// Blocks freed.
    pub freed: u64,
    /// What was asked for.
    pub requested: u64,
    /// The same, rounded up to classes and pages.
    pub rounded: u64,
    /// The blocks that live.
    pub live: u64,
    /// The most that `live` was.
    pub peak_live: u64,
}

/// Has everything counted from now on. To be called before the first allocation.
pub fn keep_counts() {
    mode::count();
}

/// Whether anything is counted.
#[inline]
pub(crate) fn are_kept() -> bool {
    mode::is_counted()
}

/// A block of `rounded` bytes was allocated; it has a class, or not.
pub(crate) fn see_allocated(class: Option<usize>, requested: usize, rounded: usize) {
    COUNTS.classes[class.unwrap_or(CLASSES)].allocated.fetch_add(1, Relaxed);
    COUNTS.requested.fetch_add(requested as u64, Relaxed);
    COUNTS.rounded.fetch_add(rounded as u64, Relaxed);
    let live = COUNTS.live.fetch_add(rounded as u64, Relaxed) + rounded as u64;
    COUNTS.peak_live.fetch_max(live, Relaxed);
}

/// A block of `rounded` bytes was freed.
pub(crate) fn see_freed(class: Option<usize>, rounded: usize) {
    COUNTS.classes[class.unwrap_or(CLASSES)].freed.fetch_add(1, Relaxed);
    COUNTS.live.fetch_sub(rounded as u64, Relaxed);
}

/// A block of `before` bytes has `after` bytes now.
pub(crate) fn see_resized(before: usize, after: usize) {
    let change = (after as u64).wrapping_sub(before as u64);
    let live = COUNTS.live.fetch_add(change, Relaxed).wrapping_add(change);
    COUNTS.peak_live.fetch_max(live, Relaxed);
}

/// The sums; `None` when nothing is counted.
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

/// The sizes of which a block was ever allocated, the shortest first; nothing when nothing is counted.
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
