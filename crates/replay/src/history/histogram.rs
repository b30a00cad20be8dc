//! A histogram by powers of two.

/// The number of bins: one per power of two below 2^48; larger sizes are in the last.
const BINS: usize = 48;

/// A histogram of sizes: bin `k` counts sizes from `2^k` to `2^(k+1) - 1`, bin 0 also size 0.
///
/// ```
/// use heapwright_replay::history::Histogram;
/// let mut holes = Histogram::default();
/// holes.add(48, 48);
/// holes.add(32, 32);
/// assert_eq!((holes.counts()[5], holes.weights()[5], holes.counts().len()), (2, 80, 6));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The number of items.
    pub count: u64,
    /// The total weight of all items, usually in bytes.
    pub weight: u64,
    counts: [u64; BINS],
    weights: [u64; BINS],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { count: 0, weight: 0, counts: [0; BINS], weights: [0; BINS] }
    }
}

impl Histogram {
    /// Adds an item of this size and weight.
    #[inline]
    pub fn add(&mut self, size: u64, weight: u64) {
        let bin = size.checked_ilog2().map_or(0, |power| power as usize).min(BINS - 1);
        self.count += 1;
        self.weight = self.weight.saturating_add(weight);
        self.counts[bin] += 1;
        self.weights[bin] = self.weights[bin].saturating_add(weight);
    }

    /// Returns the number of items per bin, up to the last bin that is not empty.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts[..self.used()]
    }

    /// Returns the weight per bin, up to the last bin that is not empty.
    #[must_use]
    pub fn weights(&self) -> &[u64] {
        &self.weights[..self.used()]
    }

    fn used(&self) -> usize {
        self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_last_bins_catch_all_sizes() {
        let mut sizes = Histogram::default();
        assert!(sizes.counts().is_empty());
        for size in [0, 1, 2, 3, 1 << 47, u64::MAX] {
            sizes.add(size, size);
        }
        assert_eq!((sizes.counts()[0], sizes.counts()[1], sizes.counts()[47]), (2, 2, 2));
        assert_eq!(sizes.counts().iter().sum::<u64>(), sizes.count);
        assert_eq!((sizes.weights()[1], sizes.weight), (5, u64::MAX));
    }
}
