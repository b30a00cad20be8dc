//! A coarse set of numbers, in a fixed number of words.

use core::ops::Range;

const WORDS: usize = 16;
const BITS: usize = WORDS * 64;

/// A set that contains at least the numbers that were inserted. A bit stands for a group of neighbours; there are
/// enough for the highest number so far, and groups become twice as long when there are not.
pub(super) struct Summary {
    bits: [u64; WORDS],
    /// The binary logarithm of a group's length.
    shift: u32,
}

impl Summary {
    pub(super) const EMPTY: Summary = Summary { bits: [0; WORDS], shift: 0 };

    /// Adds a number.
    #[inline]
    pub(super) fn insert(&mut self, number: usize) {
        while number >> self.shift >= BITS {
            self.join_pairs();
        }
        let bit = number >> self.shift;
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Removes the group of a number, which was found by [`Summary::last`].
    pub(super) fn remove(&mut self, number: usize) {
        let bit = number >> self.shift;
        self.bits[bit / 64] &= !(1 << (bit % 64));
    }

    /// Returns the numbers of the highest group with numbers in `within`, some of which may lie outside of it.
    pub(super) fn last(&self, within: Range<usize>) -> Option<Range<usize>> {
        if within.is_empty() {
            return None;
        }
        let (first, last) = (within.start >> self.shift, ((within.end - 1) >> self.shift).min(BITS - 1));
        let bit = (first / 64..last / 64 + 1).rev().find_map(|word| {
            let above = if word == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            let below = if word == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
            (self.bits[word] & above & below).checked_ilog2().map(|bit| word * 64 + bit as usize)
        })?;
        Some(bit << self.shift..(bit + 1) << self.shift)
    }

    /// Makes groups twice as long.
    #[cold]
    fn join_pairs(&mut self) {
        let joined: [u64; WORDS] = core::array::from_fn(|word| {
            let half = |at: usize| self.bits.get(at).map_or(0, |&bits| u64::from(any_of_pairs(bits)));
            half(2 * word) | half(2 * word + 1) << 32
        });
        self.bits = joined;
        self.shift += 1;
    }
}

/// Returns a bit for each pair of neighbours: whether any of the two is set.
fn any_of_pairs(bits: u64) -> u32 {
    (0..32).fold(0, |pairs, pair| pairs | u32::from(bits >> (2 * pair) & 3 != 0) << pair)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use super::*;

    /// Finds every number that a set has, highest first, and no group twice, however long groups have become.
    #[test]
    fn what_was_inserted_is_found() {
        for most in [10, BITS, BITS + 1, 100_000, 1 << 22, usize::MAX >> 1] {
            let (mut summary, mut numbers) = (Summary::EMPTY, BTreeSet::new());
            let mut number = 1_usize;
            for step in 0..300 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Small numbers first: groups become longer meanwhile.
                let number = (number >> 1) % (most >> (9 - step / 32).min(most.ilog2() as usize)).max(1);
                summary.insert(number);
                numbers.insert(number);
            }
            let (mut end, mut found) = (most, BTreeSet::new());
            while let Some(group) = summary.last(0..end) {
                assert!(group.start < end, "{group:?} again");
                found.extend(numbers.range(group.clone()));
                assert!(numbers.range(group.clone()).next().is_some(), "{group:?} of {most} has no number");
                end = group.start;
            }
            assert_eq!(found, numbers);
            for number in numbers {
                // It may have gone with another number of its group.
                if let Some(group) = summary.last(number..number + 1) {
                    assert!(group.contains(&number));
                    summary.remove(group.start);
                }
                assert_eq!(summary.last(number..number + 1), None);
            }
            assert_eq!(summary.last(0..usize::MAX), None);
        }
    }
}
