//! Size classes: every 16 bytes up to 1 KiB, then eight per doubling up to 32 KiB.
//!
//! At most an eighth of a block above 1 KiB is lost to rounding, and at most 15 bytes below.

use core::num::NonZero;

/// The alignment of every block, and the step of the small classes.
pub const GRAIN: usize = 16;

/// The longest request of the classes that are 16 bytes apart.
const FINE: usize = 1024;

/// The longest request of the small classes, whose free blocks hold their links. No two longer blocks begin in the same
/// KiB.
pub(crate) const SMALL: usize = FINE;

/// The longest request that has a class.
pub const LARGEST: usize = 32 << 10;

/// The length of a slab in bytes, and its alignment.
pub const SLAB: usize = 64 << 10;

/// The length of the pages in bytes by which a slab is managed.
pub const PAGE: usize = 4 << 10;

const _: () = assert!(SLAB.is_multiple_of(PAGE));

/// Classes per doubling above [`FINE`], as a power of two.
const LOG2_STEPS: u32 = 3;

/// The number of small classes; they are the first.
pub(crate) const SMALL_CLASSES: usize = SMALL / GRAIN + 1;

/// The number of classes. Class 0 is for requests of no bytes and holds blocks of 16, as class 1 does.
pub const CLASSES: usize = SMALL_CLASSES + ((LARGEST.ilog2() - FINE.ilog2()) << LOG2_STEPS) as usize;

/// The length of each class's blocks in bytes.
const SIZES: [u16; CLASSES] = {
    let mut sizes = [GRAIN as u16; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        sizes[class] = if class < SMALL_CLASSES {
            (class * GRAIN) as u16
        } else {
            let step = class - SMALL_CLASSES;
            let base = FINE << (step >> LOG2_STEPS);
            (base + (base >> LOG2_STEPS) * ((step & ((1 << LOG2_STEPS) - 1)) + 1)) as u16
        };
        class += 1;
    }
    sizes
};

/// 2^32 over each class's length, rounded up.
const RECIPROCALS: [u32; CLASSES] = {
    let mut reciprocals = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        reciprocals[class] = (1u64 << 32).div_ceil(SIZES[class] as u64) as u32;
        class += 1;
    }
    reciprocals
};

/// Returns the class of a request of at most [`SMALL`] bytes.
#[inline(always)]
pub(crate) const fn small_class_of(size: usize) -> usize {
    debug_assert!(size <= SMALL);
    size.div_ceil(GRAIN)
}

/// Returns the class of a request of more than [`SMALL`] and at most [`LARGEST`] bytes.
#[inline(always)]
pub(crate) const fn medium_class_of(size: usize) -> usize {
    debug_assert!(size > SMALL && size <= LARGEST);
    const STEPS: usize = 1 << LOG2_STEPS;
    /// The step that the first medium class would have if the doublings began at 1.
    const FIRST: usize = STEPS + (FINE >> LOG2_STEPS).ilog2() as usize * STEPS;
    let last = size - 1;
    let Some(eighths) = NonZero::new(last >> LOG2_STEPS) else { return SMALL_CLASSES };
    // Shifted before the logarithm is taken, not after: that saves three instructions.
    let doubling = eighths.ilog2();
    // The highest bit that is left counts for the steps of one doubling.
    (last >> doubling) + doubling as usize * STEPS - FIRST + SMALL_CLASSES
}

/// Returns the class of a request of at most [`LARGEST`] bytes.
#[inline(always)]
pub const fn class_of(size: usize) -> usize {
    if size <= SMALL { small_class_of(size) } else { medium_class_of(size) }
}

/// Returns the class that serves the first requests of a class: among the small ones, every fourth serves the three
/// below. Block lengths that are multiples of 32 or 64 are replaced by such multiples.
#[inline(always)]
pub(crate) const fn substitute_of(class: usize) -> usize {
    const EACH: usize = 4;
    if class >= SMALL_CLASSES {
        return class;
    }
    let next = class.next_multiple_of(EACH);
    if next == 0 { EACH } else { next }
}

/// Returns the length of a class's blocks in bytes.
#[inline(always)]
pub const fn size_of_class(class: usize) -> usize {
    SIZES[class] as usize
}

/// Returns the length in bytes of the blocks of the class of a request of at most [`LARGEST`] bytes.
#[inline(always)]
pub const fn size_of_request(size: usize) -> usize {
    match size {
        0 => GRAIN,
        1..=SMALL => size.next_multiple_of(GRAIN),
        _ => size_of_class(medium_class_of(size)),
    }
}

/// Returns whether a block of a class begins `offset` bytes, less than 2^16, behind the start of its slab.
#[inline(always)]
pub(crate) const fn is_start(offset: usize, class: usize) -> bool {
    blocks_before(offset, class).is_some()
}

/// Returns the number of the block of a class that begins `offset` bytes, less than 2^16, behind the start of its slab;
/// `None` when none begins there.
#[inline(always)]
pub const fn blocks_before(offset: usize, class: usize) -> Option<usize> {
    let blocks = number_of_block(offset, class);
    if blocks * size_of_class(class) == offset { Some(blocks) } else { None }
}

/// Returns the number of blocks of a class that begin in the first `offset` bytes, at most [`SLAB`], of a slab that
/// ends behind the last one.
#[inline(always)]
pub(crate) const fn blocks_to(offset: usize, class: usize) -> usize {
    // As above: less than 2^17 bytes.
    (((offset + size_of_class(class) - 1) as u64 * RECIPROCALS[class] as u64) >> 32) as usize
}

/// Returns the number of blocks of a class in a slab.
#[inline(always)]
pub(crate) const fn blocks_in_slab(class: usize) -> usize {
    ((SLAB as u64 * RECIPROCALS[class] as u64) >> 32) as usize
}

/// Returns the number of the block of a class that begins `offset` bytes, less than 2^16, behind the start of its slab.
#[inline(always)]
pub const fn number_of_block(offset: usize, class: usize) -> usize {
    // The product is off by less than offset * size / 2^32 blocks, which is less than one block's share.
    ((offset as u64 * RECIPROCALS[class] as u64) >> 32) as usize
}

/// Returns whether a block of a class lies `offset` bytes, less than [`SLAB`], behind the start of its slab.
pub(crate) const fn is_block(offset: usize, class: usize) -> bool {
    is_start(offset, class) && offset + size_of_class(class) <= SLAB
}

/// Returns the lengths of the classes' blocks in bytes, the shortest first.
pub fn sizes() -> impl Iterator<Item = usize> {
    (1..CLASSES).map(size_of_class)
}

/// Returns the smallest class whose blocks hold `size` bytes and all lie at multiples of `align`, a power of two;
/// `None` when there is none. Slabs begin at multiples of 64 KiB, so that the blocks of a class are aligned to each
/// power of two that divides their length.
pub fn aligned_class_of(size: usize, align: usize) -> Option<usize> {
    let rounded = size.max(1).checked_next_multiple_of(align).filter(|&rounded| rounded <= LARGEST)?;
    (class_of(rounded)..CLASSES).find(|&class| size_of_class(class).is_multiple_of(align))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_smallest_class_that_holds_it() {
        for size in 1..=LARGEST {
            let class = class_of(size);
            assert!(class < CLASSES && size_of_class(class) >= size, "{size}");
            assert!(class == 1 || size_of_class(class - 1) < size, "{size}");
        }
        (0..=LARGEST).for_each(|size| assert_eq!(size_of_request(size), size_of_class(class_of(size)), "{size}"));
        assert_eq!((class_of(0), size_of_class(0)), (0, 16));
        assert_eq!(class_of(LARGEST), CLASSES - 1);
    }

    #[test]
    fn the_starts_of_blocks_are_the_multiples_of_their_length() {
        for class in 0..CLASSES {
            for offset in 0..1 << 16 {
                assert_eq!(is_start(offset, class), offset.is_multiple_of(size_of_class(class)), "{class} {offset}");
            }
        }
    }

    #[test]
    fn blocks_are_counted_as_by_division() {
        for class in 0..CLASSES {
            assert_eq!(blocks_in_slab(class), SLAB / size_of_class(class), "{class}");
            for offset in 0..=SLAB {
                assert_eq!(blocks_to(offset, class), offset.div_ceil(size_of_class(class)), "{class} {offset}");
            }
        }
    }

    #[test]
    fn substitutes_are_as_long_and_as_aligned() {
        for class in 0..CLASSES {
            let (size, substitute) = (size_of_class(class), substitute_of(class));
            assert!(
                substitute < CLASSES && size_of_class(substitute) >= size && substitute_of(substitute) == substitute
            );
            assert!(size_of_class(substitute).trailing_zeros() >= size.trailing_zeros().min(6), "{class}");
            assert!(substitute == class || size_of_class(substitute) < size + 64, "{class}");
        }
    }

    #[test]
    fn little_is_lost_to_rounding() {
        for size in FINE + 1..=LARGEST {
            let class = size_of_class(class_of(size));
            assert!((class - size) * 8 < class, "{size} takes {class}");
        }
    }

    #[test]
    fn aligned_requests_have_classes_whose_blocks_are_aligned() {
        for log2 in 4..=15 {
            let align = 1 << log2;
            for size in [0, 1, 15, 16, 17, 100, 1000, 1025, 5000, 20_000, LARGEST] {
                let class = aligned_class_of(size, align).unwrap();
                assert!(size_of_class(class) >= size && size_of_class(class).is_multiple_of(align), "{size} {align}");
            }
        }
        assert_eq!(aligned_class_of(1, 64 << 10), None);
        assert_eq!(aligned_class_of(LARGEST + 1, 16), None);
        assert_eq!(size_of_class(aligned_class_of(100, 64).unwrap()), 128);
    }
}
