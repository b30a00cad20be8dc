//! Encoding of name and value pairs: each name and each value ends with a zero byte.

/// Appends a name and its value. Zero bytes inside them become spaces, because a zero byte ends a text.
pub(crate) fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    for text in [name, value] {
        bytes.extend(text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
        bytes.push(0);
    }
}

/// Returns the pairs in `bytes`; `None` if `bytes` is not an encoding of pairs.
pub(crate) fn pairs(bytes: &[u8]) -> Option<impl Iterator<Item = (&str, &str)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let whole = text.is_empty() || text.ends_with('\0');
    if !whole || !text.bytes().filter(|&byte| byte == 0).count().is_multiple_of(2) {
        return None;
    }
    let mut texts = text.split_terminator('\0');
    Some(std::iter::from_fn(move || Some((texts.next()?, texts.next()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_round_trip() {
        let mut bytes = Vec::new();
        put(&mut bytes, "a", "1");
        put(&mut bytes, "b\0c", "");
        put(&mut bytes, "", "2");
        let found: Vec<_> = pairs(&bytes).unwrap().collect();
        assert_eq!(found, [("a", "1"), ("b c", ""), ("", "2")]);
        assert_eq!(pairs(b"").unwrap().count(), 0);
    }

    #[test]
    fn incomplete_pairs_are_rejected() {
        assert!(pairs(b"a\0").is_none());
        assert!(pairs(b"a\0b").is_none());
        assert!(pairs(b"a").is_none());
        assert!(pairs(b"\xff\0\0").is_none());
    }
}
