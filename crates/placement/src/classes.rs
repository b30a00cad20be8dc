//! The size classes of long holes: eight per doubling above 64 granules.

/// Lengths up to this many granules are classes of their own.
pub(crate) const EXACT: usize = 64;

/// Returns the class of a hole of `len` granules: `len` itself up to 64, then eight per doubling.
#[inline]
pub(crate) const fn class_of(len: usize) -> usize {
    if len <= EXACT {
        return len;
    }
    let doubling = len.ilog2() as usize;
    EXACT + 1 + (doubling - 6) * 8 + (len >> (doubling - 3) & 7)
}

/// Returns the lowest class all of whose holes are at least `len` granules long.
#[inline]
pub(crate) const fn class_that_holds(len: usize) -> usize {
    if len <= EXACT { len } else { class_of(len - 1) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_with_length_and_hold_what_they_say() {
        let longest = if cfg!(miri) { 300 } else { 20_000 };
        for len in 1..longest {
            assert!(class_of(len) <= class_of(len + 1));
            let class = class_that_holds(len);
            assert!(class_of(len) <= class && class <= class_of(len) + 1);
            let shortest = (class_of(len)..).find(|&l| class_of(l) == class).unwrap_or(0);
            assert!(shortest >= len, "class {class} of {len} begins at {shortest}");
        }
    }
}
