//! Pseudo-random numbers, deterministic per seed on every machine. Each takes about a nanosecond.

use heapwright_placement::Generator;

/// A [`Generator`] with its state.
pub struct Numbers(u64);

impl Numbers {
    /// Returns the generator of the sequence of `seed`.
    pub fn seeded(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// Returns the next number below `bound`, uniformly distributed to within 2^-32 for the bounds used here.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        Generator(&mut self.0).below(bound)
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..1000).collect();
        Numbers::seeded(1).shuffle(&mut items);
        assert_ne!(items, (0..1000).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
