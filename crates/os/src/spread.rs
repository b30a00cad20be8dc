//! The multiplier of hash tables and hashes.

/// 2^64 divided by the golden ratio, and odd: multiples of it lie as far apart as possible (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
pub const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

/// Multiplies a number by [`GOLDEN_RATIO`] modulo 2^64, so that dense or aligned numbers differ in the upper bits, from
/// which hash tables take the place of an entry. Different numbers have different products.
#[inline(always)]
#[must_use]
pub const fn spread(number: u64) -> u64 {
    number.wrapping_mul(GOLDEN_RATIO)
}
