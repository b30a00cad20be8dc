//! Blocks that are made zero when they are freed, and verified when they are used again.

use core::ptr::NonNull;

use heapwright_slabs::classes::GRAIN;

/// The bytes of a step. Most blocks are no longer, so that the number of steps is predicted.
const STEP: usize = 128;

/// The longest block that is processed by overlapping steps: longer ones are faster by `memset` and by a plain loop.
const LONGEST: usize = 4 * STEP;

/// Calls `act` with the offset of each grain of a block, with some more than once.
#[inline(always)]
fn each_grain(length: usize, mut act: impl FnMut(usize)) {
    let last = length - GRAIN;
    let mut start = 0;
    while start < length {
        for grain in 0..STEP / GRAIN {
            act((start + grain * GRAIN).min(last));
        }
        start += STEP;
    }
}

/// Makes a block zero.
///
/// # Safety
/// The block has `length` bytes, a positive multiple of [`GRAIN`], and is not in use.
#[inline(always)]
pub(super) unsafe fn clear(block: NonNull<u8>, length: usize) {
    // SAFETY: the offsets are of grains of the block, as this function requires.
    unsafe {
        if length > LONGEST {
            block.write_bytes(0, length);
        } else {
            each_grain(length, |offset| block.add(offset).cast::<u128>().write(0));
        }
    }
}

/// Returns whether a block is zero.
///
/// # Safety
/// As [`clear`].
#[inline(always)]
pub(super) unsafe fn is_clear(block: NonNull<u8>, length: usize) -> bool {
    if length > LONGEST {
        // SAFETY: as this function requires.
        return unsafe { is_clear_long(block, length) };
    }
    let mut bits = [0u64; 2];
    each_grain(length, |offset| {
        // SAFETY: the offsets are of grains of the block, as this function requires.
        let words = unsafe { block.add(offset).cast::<[u64; 2]>().read() };
        bits = [bits[0] | words[0], bits[1] | words[1]];
    });
    bits == [0; 2]
}

/// # Safety
/// As [`clear`].
#[inline(never)]
unsafe fn is_clear_long(block: NonNull<u8>, length: usize) -> bool {
    // SAFETY: blocks consist of words, as this function requires.
    let words = unsafe { core::slice::from_raw_parts(block.as_ptr().cast::<u64>(), length / 8) };
    let (steps, rest) = words.as_chunks::<{ STEP / 8 }>();
    let bits_of = |words: &[u64]| words.iter().fold(0, |bits, word| bits | word);
    steps.iter().all(|step| bits_of(step) == 0) && bits_of(rest) == 0
}

/// Returns the offset of the first byte that is not zero; 0 if there is none.
///
/// # Safety
/// As [`clear`].
#[cold]
pub(super) unsafe fn first_other(block: NonNull<u8>, length: usize) -> usize {
    // SAFETY: the offsets are of bytes of the block, as this function requires.
    (0..length).find(|&offset| unsafe { block.add(offset).read() } != 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_cleared_and_verified() {
        for length in (GRAIN..3 * LONGEST).step_by(GRAIN) {
            let mut bytes = std::vec![0x55u128; length / GRAIN + 2];
            let block = NonNull::new(&raw mut bytes[1]).unwrap().cast::<u8>();
            // SAFETY: the vector has that many bytes, and one grain more on either side.
            unsafe {
                clear(block, length);
                assert!(is_clear(block, length), "{length}");
                for offset in 0..length {
                    block.add(offset).write(1);
                    assert!(!is_clear(block, length) && first_other(block, length) == offset, "{length} {offset}");
                    block.add(offset).write(0);
                }
            }
            assert!(bytes[0] == 0x55 && bytes[length / GRAIN + 1] == 0x55, "{length}");
        }
    }
}
