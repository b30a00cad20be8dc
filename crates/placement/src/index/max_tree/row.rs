//! One row of the max tree: 64 entries looked at together.

/// A bit for each entry that is at least `wanted`.
#[inline(always)]
pub(crate) fn at_least(row: &[i32; 64], wanted: i32) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use core::arch::x86_64::{
            __m128i, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
            _mm_set1_epi32,
        };
        let mut mask = 0;
        for (k, group) in row.as_chunks::<16>().0.iter().enumerate() {
            let p: *const __m128i = group.as_ptr().cast();
            // SAFETY: SSE2 is there (see the cfg), and `group` is 64 bytes, four unaligned loads of 16.
            let bits = unsafe {
                let floor = _mm_set1_epi32(wanted - 1);
                let enough = |k| _mm_cmpgt_epi32(_mm_loadu_si128(p.add(k)), floor);
                let low = _mm_packs_epi32(enough(0), enough(1));
                let high = _mm_packs_epi32(enough(2), enough(3));
                _mm_movemask_epi8(_mm_packs_epi16(low, high))
            };
            mask |= u64::from(bits as u32) << (16 * k);
        }
        mask
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    {
        row.iter().enumerate().fold(0, |mask, (k, &entry)| mask | u64::from(entry >= wanted) << k)
    }
}

/// The largest entry.
#[inline(always)]
pub(crate) fn max(row: &[i32; 64]) -> i32 {
    let mut lanes = [0; 8];
    for chunk in row.as_chunks::<8>().0 {
        for (lane, &entry) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane).max(entry);
        }
    }
    lanes.into_iter().fold(0, i32::max)
}
