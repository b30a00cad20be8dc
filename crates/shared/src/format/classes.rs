//! Size classes: the lengths of slab blocks, in granules.
//!
//! Every number of granules up to 16, then four per doubling.

use std::hint::assert_unchecked;

/// The longest block of a slab, in bytes: a slab has 8 of them at least.
pub(crate) const LONGEST: usize = 4096;

/// How many classes have every number of granules.
const FINE: usize = 16;
/// The classes per doubling above those, as a power of two.
const STEPS: usize = 2;

/// Returns the granules of a block of `class`.
pub(crate) const fn granules_of(class: usize) -> usize {
    if class < FINE {
        return class + 1;
    }
    let (doubling, step) = ((class - FINE) >> STEPS, (class - FINE) & ((1 << STEPS) - 1));
    (FINE << doubling) + ((step + 1) << (doubling + 2))
}

/// Returns the class of the shortest blocks of at least `granules`, which is not 0.
pub(crate) const fn class_of(granules: usize) -> usize {
    if granules <= FINE {
        return granules - 1;
    }
    let last = granules - 1;
    let doubling = last.ilog2() as usize - 4;
    FINE + (doubling << STEPS) + (last >> (doubling + 2)) - (1 << STEPS)
}

/// The least granule of any heap, as a power of two.
const LEAST_SHIFT: u32 = 4;

/// The classes of 0 (as 1), 1, 2, 3… granules.
static CLASSES: [u8; (LONGEST >> LEAST_SHIFT) + 1] = {
    let mut classes = [0; (LONGEST >> LEAST_SHIFT) + 1];
    let mut at = 1;
    while at < classes.len() {
        classes[at] = class_of(at) as u8;
        at += 1;
    }
    classes
};

/// A granule, by which lengths are rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granule {
    /// log2 of its bytes, [`LEAST_SHIFT`] at least.
    shift: u32,
    /// One byte less than it has.
    rest: usize,
}

impl Granule {
    /// That of `1 << shift` bytes, or the least of any heap.
    pub(crate) const fn of(shift: u32) -> Granule {
        assert!(shift < usize::BITS);
        let shift = if shift < LEAST_SHIFT { LEAST_SHIFT } else { shift };
        Granule { shift, rest: (1 << shift) - 1 }
    }

    /// log2 of its bytes.
    #[inline(always)]
    pub(crate) fn shift(self) -> u32 {
        // SAFETY: `of` asserts it.
        unsafe { assert_unchecked(self.shift < usize::BITS) };
        self.shift
    }

    /// The class of the shortest blocks of at least `bytes` (0 is taken as 1); `None` beyond the longest blocks of any
    /// heap.
    #[inline(always)]
    pub(crate) fn class_for(self, bytes: usize) -> Option<usize> {
        if bytes > LONGEST {
            return None;
        }
        // SAFETY: of this length, those bytes have no more granules than of the least.
        Some(usize::from(*unsafe { CLASSES.get_unchecked((bytes + self.rest) >> self.shift()) }))
    }
}

/// Returns how many classes a heap of this granule (as a power of two, at most 256 bytes) has.
pub(crate) fn count(shift: u32) -> usize {
    class_of(LONGEST >> shift) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_the_shortest_class_that_holds_it() {
        for granules in 1..=256 {
            let class = class_of(granules);
            assert!(granules_of(class) >= granules);
            assert!(class == 0 || granules_of(class - 1) < granules, "{granules}");
        }
        assert_eq!([4, 6, 8].map(count), [32, 24, 16]);
        assert_eq!(granules_of(count(4) - 1), 256);
    }

    #[test]
    fn lengths_are_rounded_up_to_granules() {
        for shift in [0, 4, 6, 8] {
            let granule = Granule::of(shift);
            let rounded = |bytes: usize| class_of(bytes.max(1).div_ceil(1 << granule.shift()));
            assert!((0..=LONGEST).all(|bytes| granule.class_for(bytes) == Some(rounded(bytes))));
            assert_eq!([LONGEST + 1, usize::MAX].map(|bytes| granule.class_for(bytes)), [None; 2]);
        }
    }
}
