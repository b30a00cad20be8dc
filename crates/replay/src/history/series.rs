//! A time series in bounded memory.

/// The values of a quantity during some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The minimum.
    pub min: u64,
    /// The maximum.
    pub max: u64,
    /// The value after the last of these events.
    pub last: u64,
}

impl Bucket {
    fn of(value: u64) -> Bucket {
        Bucket { min: value, max: value, last: value }
    }

    fn join(&mut self, later: Bucket) {
        *self = Bucket { min: self.min.min(later.min), max: self.max.max(later.max), last: later.last };
    }
}

/// A time series of one value per event, stored as minimum and maximum of buckets of consecutive events.
///
/// The number of buckets is limited. When all are full, neighbours are merged and each bucket covers twice as many
/// events, so that no extreme value is ever lost.
///
/// ```
/// use heapwright_replay::history::Series;
/// let mut series = Series::new(4);
/// for value in [3, 1, 4, 1, 5, 9, 2, 6, 5] {
///     series.push(value);
/// }
/// assert_eq!((series.width(), series.buckets().len()), (4, 3));
/// assert_eq!((series.buckets()[1].min, series.buckets()[1].max, series.buckets()[1].last), (2, 9, 6));
/// ```
#[derive(Clone, Debug)]
pub struct Series {
    limit: usize,
    width: u64,
    /// The number of events in the last bucket.
    filled: u64,
    buckets: Vec<Bucket>,
}

impl Series {
    /// Returns an empty series of at most `buckets` buckets, rounded up to an even number of at least 2.
    #[must_use]
    pub fn new(buckets: usize) -> Series {
        let limit = buckets.max(1).next_multiple_of(2);
        Series { limit, width: 1, filled: 1, buckets: Vec::with_capacity(limit) }
    }

    /// Adds the value after the next event. Time: amortized constant.
    #[inline]
    pub fn push(&mut self, value: u64) {
        if self.filled == self.width {
            self.open_bucket(value);
        } else if let Some(last) = self.buckets.last_mut() {
            last.join(Bucket::of(value));
            self.filled += 1;
        }
    }

    #[cold]
    fn open_bucket(&mut self, value: u64) {
        if self.buckets.len() == self.limit {
            self.join_neighbours();
        }
        self.buckets.push(Bucket::of(value));
        self.filled = 1;
    }

    fn join_neighbours(&mut self) {
        for at in 0..self.limit / 2 {
            let mut pair = self.buckets[2 * at];
            pair.join(self.buckets[2 * at + 1]);
            self.buckets[at] = pair;
        }
        self.buckets.truncate(self.limit / 2);
        self.width *= 2;
    }

    /// Returns the number of events per bucket; the last bucket may have fewer.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Returns the buckets, in order.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Returns the maximum of all values; `None` for an empty series.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.buckets.iter().map(|bucket| bucket.max).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_match_those_of_the_whole_sequence() {
        let mut random = fastrand::Rng::with_seed(1);
        for length in [0, 1, 2, 7, 8, 9, 15, 16, 17, 100, 1023, 1024, 1025] {
            let values: Vec<u64> = (0..length).map(|_| random.u64(..1000)).collect();
            let mut series = Series::new(8);
            values.iter().for_each(|&value| series.push(value));
            let expected: Vec<Bucket> = values
                .chunks(series.width() as usize)
                .map(|some| Bucket {
                    min: *some.iter().min().unwrap(),
                    max: *some.iter().max().unwrap(),
                    last: some[some.len() - 1],
                })
                .collect();
            assert_eq!(series.buckets(), expected, "{length}");
            assert!(series.buckets().len() <= 8 && (length < 8 || series.buckets().len() > 4), "{length}");
        }
    }
}
