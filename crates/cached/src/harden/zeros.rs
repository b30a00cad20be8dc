//! Blocks that are made zero when they are freed, and verified when they are used again.

use core::ptr::NonNull;

use heapwright_slabs::classes::GRAIN;

/// What an allocated block contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// Whatever its memory contains.
    Any,
    /// Zeros.
    Zeros,
}

/// The longest block that is processed by overlapping steps: longer ones are faster by `memset` and by a plain loop.
pub(super) const LONGEST: usize = 512;

/// Calls `act` with the offset of each grain of a block of up to [`LONGEST`] bytes, with some more than once: as many
/// from the start on as before the end. The number depends on the doubling of the length only, so that it is predicted.
#[inline(always)]
fn each_grain(length: usize, mut act: impl FnMut(usize)) {
    if length == GRAIN {
        act(0);
    } else if length <= 4 * GRAIN {
        each_of_halves::<2>(length, &mut act);
    } else if length <= 8 * GRAIN {
        each_of_halves::<4>(length, &mut act);
    } else if length <= 16 * GRAIN {
        each_of_halves::<8>(length, &mut act);
    } else {
        each_of_halves::<16>(length, &mut act);
    }
}

/// Calls `act` with the offsets of the first and of the last `N` grains.
#[inline(always)]
fn each_of_halves<const N: usize>(length: usize, act: &mut impl FnMut(usize)) {
    for grain in 0..N {
        act(grain * GRAIN);
        act(length - N * GRAIN + grain * GRAIN);
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
    // SAFETY: the block is that long, as this function requires.
    let bytes = unsafe { core::slice::from_raw_parts(block.as_ptr(), length) };
    // If the first grain is zero and each is equal to the next, all are. The C library compares fastest.
    bytes[..GRAIN] == [0; GRAIN] && bytes[..length - GRAIN] == bytes[GRAIN..]
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
