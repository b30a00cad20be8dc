//! One row of the max tree: the entries of a cache line, compared together.
//!
//! Entries other than 0 are the bits of positive numbers of floating point, which have the same order: the oldest
//! vector instructions have maxima of those, but not of integers. They are normal numbers, because a processor may be
//! set to take others for 0.

/// Entries in a row.
pub(crate) const WIDTH: usize = 16;

/// All entries but 0 are greater than this: the bits of the least normal number.
pub(crate) const LEAST: i32 = f32::MIN_POSITIVE.to_bits() as i32;

/// The greatest entry: the bits of the greatest number.
pub(crate) const GREATEST: i32 = f32::MAX.to_bits() as i32;

/// Returns a bit for each entry that is at least `wanted`.
#[inline(always)]
pub(crate) fn at_least(row: &[i32; WIDTH], wanted: i32) -> u16 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use core::arch::x86_64::{
            __m128i, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
            _mm_set1_epi32,
        };
        let quads: *const __m128i = row.as_ptr().cast();
        // SAFETY: SSE2 is available (see the cfg), and a row is as long as four unaligned loads of 16 bytes.
        unsafe {
            let below = _mm_set1_epi32(wanted - 1);
            let enough = |k| _mm_cmpgt_epi32(_mm_loadu_si128(quads.add(k)), below);
            let low = _mm_packs_epi32(enough(0), enough(1));
            let high = _mm_packs_epi32(enough(2), enough(3));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    {
        row.iter().enumerate().fold(0, |mask, (k, &entry)| mask | u16::from(entry >= wanted) << k)
    }
}

/// Returns the largest entry.
#[inline(always)]
pub(crate) fn max(row: &[i32; WIDTH]) -> i32 {
    let mut quad = [0; 4];
    for next in row.as_chunks::<4>().0 {
        for (lane, &entry) in quad.iter_mut().zip(next) {
            *lane = (*lane).max(entry);
        }
    }
    quad.into_iter().fold(0, i32::max)
}

/// All bits of the middle lane: the `WIDTH` lanes from `WIDTH - lane` on are a mask of `lane`.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
static MASKS: [i32; 2 * WIDTH] = {
    let mut lanes = [0; 2 * WIDTH];
    lanes[WIDTH] = -1;
    lanes
};

/// Returns the largest entry, where that of `lane` counts as `value`.
#[inline(always)]
pub(crate) fn max_with(row: &[i32; WIDTH], lane: usize, value: i32) -> i32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use core::arch::x86_64::{
            _mm_andnot_ps, _mm_castps_si128, _mm_castsi128_ps, _mm_cvtsi128_si32, _mm_loadu_ps, _mm_max_ps,
            _mm_set1_epi32, _mm_shuffle_ps,
        };
        let quads: *const f32 = row.as_ptr().cast();
        let masks: *const f32 = MASKS[WIDTH - lane % WIDTH..][..WIDTH].as_ptr().cast();
        // SAFETY: SSE2 is available (see the cfg), and a row and the `WIDTH` lanes of the mask are each as long as four
        // unaligned loads of 16 bytes.
        unsafe {
            let quad = |k: usize| _mm_andnot_ps(_mm_loadu_ps(masks.add(4 * k)), _mm_loadu_ps(quads.add(4 * k)));
            let four = _mm_max_ps(_mm_max_ps(quad(0), quad(1)), _mm_max_ps(quad(2), quad(3)));
            let four = _mm_max_ps(four, _mm_castsi128_ps(_mm_set1_epi32(value)));
            let two = _mm_max_ps(four, _mm_shuffle_ps::<0x4e>(four, four));
            _mm_cvtsi128_si32(_mm_castps_si128(_mm_max_ps(two, _mm_shuffle_ps::<0xb1>(two, two))))
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    {
        let mut quad = [value; 4];
        for (k, next) in row.as_chunks::<4>().0.iter().enumerate() {
            for (j, (largest, &entry)) in quad.iter_mut().zip(next).enumerate() {
                *largest = (*largest).max(if 4 * k + j == lane { value } else { entry });
            }
        }
        quad.into_iter().fold(value, i32::max)
    }
}
