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

/// Returns the largest entry without that of `lane`, which counts as 0.
#[inline(always)]
pub(crate) fn max_but(row: &[i32; WIDTH], lane: usize) -> i32 {
    let mut quad = [0; 4];
    for (k, next) in row.as_chunks::<4>().0.iter().enumerate() {
        for (j, (largest, &entry)) in quad.iter_mut().zip(next).enumerate() {
            let counts = (4 * k + j) as i32 != lane as i32;
            *largest = (*largest).max(if counts { entry } else { 0 });
        }
    }
    quad.into_iter().fold(0, i32::max)
}
