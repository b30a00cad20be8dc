//! Reads lines of untrusted text.

use std::io::{BufRead, Read};

use super::ImportError;

/// The limit of a line, in bytes.
const LONGEST: u64 = 1 << 20;

/// Reads lines one at a time into the same buffer.
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

    /// Returns the next line, trimmed and without a byte order mark, with its number from 1; replaces invalid UTF-8.
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
        Ok(Some((self.number, without_mark(&self.text).trim())))
    }
}

/// Returns a text without the byte order mark that some programs of Windows begin text files with.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Parses a number, decimal or (after `0x`) hexadecimal.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses an address as glibc prints it: hexadecimal after `0x`, or `(nil)`.
pub(super) fn address(text: &str) -> Option<u64> {
    if text == "(nil)" { Some(0) } else { number(text) }
}

/// The limit of a name, in bytes.
const LONGEST_NAME: usize = 300;

/// Returns a name, truncated to [`LONGEST_NAME`].
pub(super) fn cut(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Returns a path without its directories.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The result of importing a line.
pub(super) enum Line {
    /// The line was handled, and its events are in the trace.
    Done,
    /// The line is valid, but not about blocks.
    PassedOver,
    /// The line is about a process that is not imported.
    OfAnotherProcess,
    /// The line is invalid.
    NotUnderstood,
}
