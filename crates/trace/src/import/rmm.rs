//! The log of RAPIDS RMM: `Thread,Time,Action,Pointer,Size,Stream`.

use std::io::Write;

use super::book::Book;
use super::lines::number;
use super::{ImportError, Line};
use crate::event::Kind;

/// What RMM's device memory is aligned to, in bytes.
const ALIGN: u64 = 256;

pub(super) fn read<W: Write>(line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() || line.starts_with("Thread,") {
        return Ok(Line::PassedOver);
    }
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [thread, _, action, pointer, size, ..] = fields[..] else { return Ok(Line::NotUnderstood) };
    let (Some(thread), Some(pointer), Some(size)) = (number(thread), address(pointer), number(size)) else {
        return Ok(Line::NotUnderstood);
    };
    book.in_thread(thread)?;
    match action {
        "allocate failure" => book.fail(size, ALIGN),
        "allocate" => book.allocate(pointer, Kind::Aligned, size, ALIGN),
        "free" => book.free(pointer),
        _ => Ok(Line::NotUnderstood),
    }
}

/// Pointers are hexadecimal, with a prefix or without, or `(nil)`.
fn address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if text == "(nil)" { Some(0) } else { u64::from_str_radix(digits, 16).ok() }
}
