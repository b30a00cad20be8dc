//! The counters of a heap, defined once for every policy, heap and table of the project.

use crate::error::Violation;

/// Counts of what has happened in a heap since it was created.
///
/// Two equations always hold and [`Engine::check`](crate::Engine::check) verifies them:
///
/// ```text
/// mallocs = reuses + grows
/// blocks  = blocks at creation + grows + splits - coalesces
/// ```
///
/// A heap that grows into its last hole counts one grow (the new block) and one coalesce (the two becoming one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Requests placed.
    pub mallocs: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Requests placed without growing the heap.
    pub reuses: u64,
    /// Requests for which the heap grew.
    pub grows: u64,
    /// Blocks cut in two: a remainder that became a hole, a front gap that alignment left, one halving of a buddy.
    pub splits: u64,
    /// Merges of a free block with a free neighbour; a merge on both sides counts two.
    pub coalesces: u64,
    /// Blocks resized in place.
    pub resizes: u64,
    /// Blocks in the heap now, used and free, the free tail included.
    pub blocks: u64,
    /// Free blocks in the heap now, the free tail included.
    pub holes: u64,
    /// Requested bytes, summed over all requests (and over what resizing added).
    pub requested: u64,
    /// Requested bytes, each request rounded up to granules, summed over all requests (and over what resizing added).
    pub rounded: u64,
    /// Requested bytes of the blocks that were freed by [`Engine::deallocate_sized`](crate::Engine::deallocate_sized)
    /// (and what resizing took away); see [`Counters::live_requested`].
    pub released: u64,
    /// Blocks freed without a known size.
    pub unsized_frees: u64,
    /// Bytes in used blocks now: payload, rounding, kept remainders and headers.
    pub live: u64,
    /// The peak of `live`.
    pub peak_live: u64,
    /// Bytes from the region's start to the heap's end now.
    pub heap_size: u64,
    /// The peak of `heap_size`.
    pub peak_heap_size: u64,
}

impl Counters {
    /// Returns the requested bytes of the live blocks, or `None` if unknown because some block was freed without its
    /// size.
    #[must_use]
    pub fn live_requested(&self) -> Option<u64> {
        (self.unsized_frees == 0).then(|| self.requested.saturating_sub(self.released))
    }

    /// Returns `1 - requested / allocated` over the live blocks; `None` if unknown or nothing is live.
    #[must_use]
    pub fn internal_fragmentation(&self) -> Option<f64> {
        let requested = self.live_requested()?;
        (self.live != 0).then(|| 1.0 - requested as f64 / self.live as f64)
    }

    /// Returns peak live bytes over peak heap size; `None` for a heap that never contained a block.
    #[must_use]
    pub fn utilisation(&self) -> Option<f64> {
        (self.peak_heap_size != 0).then(|| self.peak_live as f64 / self.peak_heap_size as f64)
    }
}

/// What one placement counted for which the heap did not grow: see [`Counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    requested: u64,
    rounded: u64,
    splits: u64,
}

impl Reuse {
    /// Nothing counted.
    pub const NONE: Reuse = Reuse { requested: 0, rounded: 0, splits: 0 };

    /// Returns what the one placement counted that was made between two states of the counters; `None` when nothing was
    /// placed, or the heap has another length than before.
    #[inline(always)]
    #[must_use]
    pub fn between(before: &Counters, after: &Counters) -> Option<Reuse> {
        (after.reuses != before.reuses && after.heap_size == before.heap_size).then(|| Reuse {
            requested: after.requested - before.requested,
            rounded: after.rounded - before.rounded,
            splits: after.splits - before.splits,
        })
    }

    /// Counts a free of the block, and the same placement again, for a caller that makes neither because the heap would
    /// be the same afterwards. `freed_as` is the size in bytes that the free names, if it names one.
    #[inline(always)]
    pub fn count_again(&self, freed_as: Option<usize>, counters: &mut Counters) {
        counters.frees += 1;
        counters.unsized_frees += u64::from(freed_as.is_none());
        counters.released += freed_as.unwrap_or(0) as u64;
        counters.coalesces += self.splits;
        counters.mallocs += 1;
        counters.reuses += 1;
        counters.splits += self.splits;
        counters.requested += self.requested;
        counters.rounded += self.rounded;
    }
}

/// The sizes of the holes of a heap at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoleStats {
    /// Number of holes.
    pub count: usize,
    /// The sum of their sizes.
    pub total: usize,
    /// The smallest; 0 when there is none.
    pub min: usize,
    /// The largest; 0 when there is none.
    pub max: usize,
    mean: f64,
    /// Sum of squared distances from the mean, updated by Welford's method.
    scatter: f64,
    /// Holes by size: entry `k` counts those from `2^k` to `2^(k+1) - 1` bytes.
    pub histogram: [usize; 48],
}

impl Default for HoleStats {
    fn default() -> Self {
        HoleStats { count: 0, total: 0, min: 0, max: 0, mean: 0.0, scatter: 0.0, histogram: [0; 48] }
    }
}

impl HoleStats {
    /// Adds a hole of `bytes`.
    pub fn add(&mut self, bytes: usize) {
        self.min = if self.count == 0 { bytes } else { self.min.min(bytes) };
        self.max = self.max.max(bytes);
        self.count += 1;
        self.total += bytes;
        let distance = bytes as f64 - self.mean;
        self.mean += distance / self.count as f64;
        self.scatter += distance * (bytes as f64 - self.mean);
        self.histogram[bytes.checked_ilog2().unwrap_or(0).min(47) as usize] += 1;
    }

    /// Returns the mean size; `None` without holes.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count != 0).then_some(self.mean)
    }

    /// Returns the variance of the sizes over the whole population; `None` without holes. Its square root, the standard
    /// deviation, is left to callers that have a square root.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        (self.count != 0).then(|| self.scatter / self.count as f64)
    }

    /// Returns `1 - largest hole / free bytes`; `None` without holes.
    #[must_use]
    pub fn external_fragmentation(&self) -> Option<f64> {
        (self.total != 0).then(|| 1.0 - self.max as f64 / self.total as f64)
    }
}

/// The result of a walk of a heap, to compare the counters with. Sizes in bytes.
pub(crate) struct Census {
    pub(crate) at_creation: u64,
    pub(crate) blocks: u64,
    pub(crate) holes: u64,
    pub(crate) live: u64,
    pub(crate) heap_size: u64,
}

/// Makes the counters agree with a walk of the heap and their equations hold, whatever they were. An operation that was
/// interrupted before it was counted is counted as the allocation or the free that makes them agree. Impossible
/// counters are reset.
pub(crate) fn reconcile(counters: &mut Counters, census: &Census) {
    make_agree(counters, census);
    if !counts_below(counters, 1 << 61) {
        *counters = Counters::default();
        make_agree(counters, census);
    }
}

fn make_agree(counters: &mut Counters, census: &Census) {
    let used = census.blocks - census.holes;
    let counted = counters.mallocs.wrapping_sub(counters.frees);
    if counted < used {
        counters.mallocs = counters.frees.wrapping_add(used);
    } else {
        counters.unsized_frees = counters.unsized_frees.wrapping_add(counted - used);
        counters.frees = counters.mallocs.wrapping_sub(used);
    }
    counters.grows = counters.grows.min(counters.mallocs);
    counters.reuses = counters.mallocs - counters.grows;
    let made = census.at_creation.wrapping_add(counters.grows).wrapping_add(counters.splits);
    let expected = made.wrapping_sub(counters.coalesces);
    if expected < census.blocks {
        counters.splits = counters.splits.wrapping_add(census.blocks - expected);
    } else {
        counters.coalesces = counters.coalesces.wrapping_add(expected - census.blocks);
    }
    counters.blocks = census.blocks;
    counters.holes = census.holes;
    counters.live = census.live;
    counters.peak_live = counters.peak_live.max(census.live);
    counters.heap_size = census.heap_size;
    counters.peak_heap_size = counters.peak_heap_size.max(census.heap_size);
}

/// Returns whether no counter reaches `limit`.
fn counts_below(counters: &Counters, limit: u64) -> bool {
    let Counters { mallocs, frees, reuses, grows, splits, coalesces, resizes, .. } = *counters;
    let Counters { requested, rounded, released, unsized_frees, .. } = *counters;
    let sums = [mallocs, frees, reuses, grows, splits, coalesces, resizes, requested, rounded, released, unsized_frees];
    sums.into_iter().all(|sum| sum < limit)
}

/// Checks that the counters satisfy their equations and agree with a walk of the heap.
pub(crate) fn verify(counters: &Counters, census: &Census) -> Result<(), Violation> {
    let Counters { mallocs, frees, reuses, grows, splits, coalesces, blocks, holes, live, heap_size, .. } = *counters;
    let Counters { peak_live, peak_heap_size, .. } = *counters;
    let equations = [
        ("no heap counts as far as 2^62", counts_below(counters, 1 << 62)),
        ("mallocs = reuses + grows", mallocs == reuses.wrapping_add(grows)),
        (
            "blocks = blocks at creation + grows + splits - coalesces",
            blocks.wrapping_add(coalesces) == census.at_creation.wrapping_add(grows).wrapping_add(splits),
        ),
        ("blocks are counted", blocks == census.blocks),
        ("holes are counted", holes == census.holes),
        ("used blocks = mallocs - frees", mallocs.wrapping_sub(frees) == census.blocks - census.holes),
        ("live bytes are counted", live == census.live && peak_live >= live),
        ("heap size is counted", heap_size == census.heap_size && peak_heap_size >= heap_size),
    ];
    match equations.into_iter().find(|(_, holds)| !holds) {
        Some((invariant, _)) => Err(Violation { invariant, offset: 0 }),
        None => Ok(()),
    }
}
