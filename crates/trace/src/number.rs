//! Variable-length integers (LEB128): seven bits per byte, lowest first, the top bit set in all bytes but the last.

/// The longest encoding of a `u64`, in bytes.
pub(crate) const LONGEST: usize = 10;

/// Appends the encoding of `value`.
#[inline]
pub(crate) fn put(bytes: &mut Vec<u8>, value: u64) {
    each_byte(value, |byte| bytes.push(byte));
}

/// Passes the bytes of the encoding of `value` to `push`.
#[inline]
pub(crate) fn each_byte(mut value: u64, mut push: impl FnMut(u8)) {
    while value >= 0x80 {
        push(value as u8 | 0x80);
        value >>= 7;
    }
    push(value as u8);
}

/// Integers below it take one byte or two.
pub(crate) const SHORT: u32 = 1 << 14;

/// Returns the encoding of an integer below [`SHORT`], and its length.
// Without a branch on the length, which varies between sizes and could not be predicted.
#[inline(always)]
pub(crate) fn short(value: u32) -> ([u8; 2], usize) {
    // 1 from 0x80 on.
    let more = (value + 0x3f80) >> 14;
    let bytes = (value + (value & 0x3f80)) | more << 7;
    ((bytes as u16).to_le_bytes(), 1 + more as usize)
}

/// Returns the encoding of an integer from [`SHORT`] to below 2²⁸, and its length.
#[inline(always)]
pub(crate) fn middling(value: u32) -> ([u8; 4], usize) {
    let is_longer = value >= 1 << 21;
    let low = value & 0x7f | (value & 0x3f80) << 1 | (value & 0x1f_c000) << 2 | 0x8080;
    let bytes = low | u32::from(is_longer) << 23 | (value & 0x0fe0_0000) << 3;
    (bytes.to_le_bytes(), 3 + usize::from(is_longer))
}

/// Takes an integer off the front of `bytes`; `None` if it is truncated or does not fit a `u64`.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut at = 0;
    let value = take_at(bytes, &mut at)?;
    *bytes = &bytes[at..];
    Some(value)
}

/// Returns the integer at `at` and advances `at` past it; `None` if it is truncated or does not fit a `u64`.
#[inline(always)]
pub(crate) fn take_at(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(u64::from(first));
    }
    take_long(bytes, at)
}

#[inline(never)]
fn take_long(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for (place, &byte) in bytes[*at..].iter().take(LONGEST).enumerate() {
        let (bits, shift) = (u64::from(byte & 0x7f), 7 * place as u32);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            *at += place + 1;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        let values = (0..64).flat_map(|shift| [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift]);
        for value in values {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(value), &[7][..]));
        }
    }

    #[test]
    fn truncated_and_overlong_numbers_are_rejected() {
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]), None);
    }
}
