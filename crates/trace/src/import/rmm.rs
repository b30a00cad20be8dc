//! The log of RAPIDS RMM: `Thread,Time,Action,Pointer,Size,Stream`.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, number};
use crate::event::Kind;

/// The alignment of RMM's device memory, in bytes.
const ALIGN: u64 = 256;

pub(super) fn read<W: Write>(line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() || line.starts_with("Thread,") {
        return Ok(Line::PassedOver);
    }
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [thread, _, action, pointer, size, ..] = fields[..] else { return Ok(Line::NotUnderstood) };
    let (Some(thread), Some(pointer), Some(size)) = (number(thread), address(pointer), number(size)) else {
        return Ok(Line::NotUnderstood);
    };
    ledger.in_thread(thread);
    match action {
        "allocate failure" => ledger.fail(size, ALIGN),
        "allocate" => ledger.allocate(pointer, Kind::Aligned, size, ALIGN),
        "free" => ledger.free(pointer),
        _ => Ok(Line::NotUnderstood),
    }
}

/// Parses a pointer: hexadecimal with or without a prefix, or `(nil)`.
fn address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if text == "(nil)" { Some(0) } else { u64::from_str_radix(digits, 16).ok() }
}
