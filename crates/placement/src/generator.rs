//! The random number generator of random fit.

/// SplitMix64 over a state kept elsewhere (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014):
/// one word of state, every seed as good as another.
///
/// ```
/// use heapwright_placement::Generator;
/// let mut state = 7;
/// assert!(Generator(&mut state).below(10) < 10);
/// ```
pub struct Generator<'s>(
    /// The state; every number drawn advances it.
    pub &'s mut u64,
);

impl Generator<'_> {
    /// Returns the next 64 random bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        *self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `count` (which is not 0), the upper half of `draw() * count`: its bias is below `count /
    /// 2^64`.
    #[inline]
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.draw()) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Generator;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        // The published test vector of seed 1234567.
        let mut state = 1_234_567;
        assert_eq!(Generator(&mut state).draw(), 6_457_827_717_110_365_317);
        assert_eq!(Generator(&mut state).draw(), 3_203_168_211_198_807_973);
    }
}
