//! Arithmetic on the words of the block map. Bit `i` of a word stands for the `i`-th of its 64 granules.

/// Returns the bits above bit `bit` (which is below 64).
#[inline(always)]
pub(crate) const fn above(bit: usize) -> u64 {
    (!1u64) << bit
}

/// Returns the bits below bit `bit` (which is below 64).
#[inline(always)]
pub(crate) const fn below(bit: usize) -> u64 {
    (1u64 << bit) - 1
}

/// Returns the lowest set bit's index; `word` is not 0 (for 0 the result is some number up to 64).
#[inline(always)]
pub(crate) const fn lowest(word: u64) -> usize {
    debug_assert!(word != 0);
    word.trailing_zeros() as usize
}

/// Returns the highest set bit's index; `word` is not 0 (for 0 the result is 0).
#[inline(always)]
pub(crate) const fn highest(word: u64) -> usize {
    debug_assert!(word != 0);
    (word | 1).ilog2() as usize
}

/// Returns the granules that lie in holes, as far as this word contains them: adding the hole starts to the run of
/// non-starts behind each carries through exactly those runs. Holes never touch one another.
#[inline(always)]
pub(crate) const fn free_granules(starts: u64, holes: u64) -> u64 {
    let runs = !starts | holes;
    runs & !runs.wrapping_add(holes)
}

/// Returns the granules at which a run of `length` ones begins (1 to 64).
#[inline(always)]
pub(crate) const fn runs_of(mut ones: u64, length: usize) -> u64 {
    let mut rest = length - 1;
    let mut step = 1;
    while step <= 32 {
        let shift = if rest < step { rest } else { step };
        ones &= ones >> shift;
        rest -= shift;
        step *= 2;
    }
    ones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_granules_end_at_the_next_start() {
        // Holes at 1 (length 3), 8 (to the end of the word); used blocks at 0, 4, 5.
        let holes = (1 << 1) | (1 << 8);
        let starts = holes | 1 | (1 << 4) | (1 << 5);
        assert_eq!(free_granules(starts, holes), 0b1110 | (!0 << 8));
    }

    #[test]
    fn runs_begin_where_enough_ones_follow() {
        let ones = 0b1110 | (!0u64 << 8);
        for length in 1..=64 {
            let mut expected = 0;
            for bit in 0..64 {
                if bit + length <= 64 && (0..length).all(|k| ones >> (bit + k) & 1 == 1) {
                    expected |= 1 << bit;
                }
            }
            assert_eq!(runs_of(ones, length), expected, "length {length}");
        }
    }
}
