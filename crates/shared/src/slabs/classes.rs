//! Size classes: the lengths of slab blocks, in granules.
//!
//! Every number of granules up to 16, then four per doubling.

/// The longest block of a slab, in bytes.
pub(crate) const LONGEST: usize = 2048;

/// How many classes have every number of granules.
const FINE: usize = 16;
/// The classes per doubling above those, as a power of two.
const STEPS: usize = 2;

/// The granules of a block of `class`.
pub(crate) const fn granules_of(class: usize) -> usize {
    if class < FINE {
        return class + 1;
    }
    let (doubling, step) = ((class - FINE) >> STEPS, (class - FINE) & ((1 << STEPS) - 1));
    (FINE << doubling) + ((step + 1) << (doubling + 2))
}

/// The class of the shortest blocks of at least `granules`, which is not 0.
pub(crate) const fn class_of(granules: usize) -> usize {
    if granules <= FINE {
        return granules - 1;
    }
    let last = granules - 1;
    let doubling = last.ilog2() as usize - 4;
    FINE + (doubling << STEPS) + (last >> (doubling + 2)) - (1 << STEPS)
}

/// The classes of 1, 2, 3… granules.
const CLASSES: [u8; LONGEST >> 4] = {
    let mut classes = [0; LONGEST >> 4];
    let mut at = 0;
    while at < classes.len() {
        classes[at] = class_of(at + 1) as u8;
        at += 1;
    }
    classes
};

/// The class of the shortest blocks that have a granule of this number, counted from 0; `None` beyond the longest
/// blocks of any heap.
#[inline(always)]
pub(crate) fn class_of_last(granule: usize) -> Option<usize> {
    CLASSES.get(granule).map(|&class| usize::from(class))
}

/// How many classes a heap of this granule (as a power of two, at most 256 bytes) has.
pub(crate) fn count(shift: u32) -> usize {
    class_of(LONGEST >> shift) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_the_shortest_class_that_holds_it() {
        for granules in 1..=128 {
            let class = class_of(granules);
            assert!(granules_of(class) >= granules);
            assert_eq!(class_of_last(granules - 1), Some(class));
            assert!(class == 0 || granules_of(class - 1) < granules, "{granules}");
        }
        assert_eq!(class_of_last(128), None);
        assert_eq!([4, 6, 8].map(count), [28, 20, 8]);
        assert_eq!(granules_of(count(4) - 1), 128);
    }
}
