//! Lines of a text that may be anything.

use std::io::{BufRead, Read};

use super::ImportError;

/// No line of any format is that long, in bytes.
const LONGEST: u64 = 1 << 20;

/// Lines, read one at a time into the same buffer.
pub(super) struct Lines<R> {
    source: R,
    bytes: Vec<u8>,
    text: String,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Lines { source, bytes: Vec::new(), text: String::new(), number: 0 }
    }

    /// The next line, with its number from 1, without its end and the blanks around it; what is no UTF-8 in it is replaced.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, &str)>, ImportError> {
        self.bytes.clear();
        if (&mut self.source).take(LONGEST).read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.bytes.len() as u64 == LONGEST && !self.bytes.ends_with(b"\n") {
            return Err(ImportError::LongLine { line: self.number });
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.bytes));
        Ok(Some((self.number, self.text.trim())))
    }
}

/// A number, decimal or (after `0x`) hexadecimal.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// As glibc prints addresses: hexadecimal after `0x`, or `(nil)`.
pub(super) fn address(text: &str) -> Option<u64> {
    if text == "(nil)" { Some(0) } else { number(text) }
}

/// The most of a name that is kept, in bytes.
const LONGEST_NAME: usize = 300;

/// A name, cut when it is very long.
pub(super) fn cut(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
