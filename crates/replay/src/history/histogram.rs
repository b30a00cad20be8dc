//! How many of which size.

/// How many bins: one per power of two below 2^48, and what is longer in the last.
const BINS: usize = 48;

/// Things by a size of theirs: bin `k` holds those of `2^k` to `2^(k+1) - 1`, bin 0 also those of 0.
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
    /// How many.
    pub count: u64,
    /// Of what weight (mostly: bytes), all together.
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
    /// One more, of this size and this weight.
    #[inline]
    pub fn add(&mut self, size: u64, weight: u64) {
        let bin = size.checked_ilog2().map_or(0, |power| power as usize).min(BINS - 1);
        self.count += 1;
        self.weight = self.weight.saturating_add(weight);
        self.counts[bin] += 1;
        self.weights[bin] = self.weights[bin].saturating_add(weight);
    }

    /// How many are in each bin, up to the last that holds any.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts[..self.used()]
    }

    /// The weight in each bin, up to the last that holds any.
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
    fn nothing_is_lost_at_the_ends() {
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
