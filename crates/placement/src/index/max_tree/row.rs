//! One row of the max tree: the entries of a cache line, compared together.

/// Entries in a row.
pub(crate) const WIDTH: usize = 16;

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
            let floor = _mm_set1_epi32(wanted);
            let too_small = |k| _mm_cmpgt_epi32(floor, _mm_loadu_si128(quads.add(k)));
            let low = _mm_packs_epi32(too_small(0), too_small(1));
            let high = _mm_packs_epi32(too_small(2), too_small(3));
            !_mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
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
            __m128i, _mm_and_si128, _mm_andnot_si128, _mm_cmpgt_epi32, _mm_cvtsi128_si32, _mm_loadu_si128,
            _mm_or_si128, _mm_set1_epi32, _mm_shuffle_epi32,
        };
        let quads: *const __m128i = row.as_ptr().cast();
        let masks: *const __m128i = MASKS[WIDTH - lane % WIDTH..][..WIDTH].as_ptr().cast();
        // SAFETY: SSE2 is available (see the cfg), and a row and the `WIDTH` lanes of the mask are each as long as four
        // unaligned loads of 16 bytes.
        unsafe {
            let quad = |k| _mm_andnot_si128(_mm_loadu_si128(masks.add(k)), _mm_loadu_si128(quads.add(k)));
            let max = |a, b| {
                let greater = _mm_cmpgt_epi32(a, b);
                _mm_or_si128(_mm_and_si128(greater, a), _mm_andnot_si128(greater, b))
            };
            let four = max(max(quad(0), quad(1)), max(quad(2), quad(3)));
            let four = max(four, _mm_set1_epi32(value));
            let two = max(four, _mm_shuffle_epi32::<0x4e>(four));
            _mm_cvtsi128_si32(max(two, _mm_shuffle_epi32::<0xb1>(two)))
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
