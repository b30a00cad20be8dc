//! Android's memory_replay: `tid: call pointer arguments… [begin end]`, the two times being there or not.

use std::io::Write;

use super::book::Book;
use super::lines::number;
use super::{ImportError, Line};
use crate::event::{Kind, USUAL_ALIGN};

pub(super) fn read<W: Write>(line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() {
        return Ok(Line::PassedOver);
    }
    let Some((thread, said)) = line.split_once(':') else { return Ok(Line::NotUnderstood) };
    let Some(thread) = number(thread.trim()) else { return Ok(Line::NotUnderstood) };
    let mut fields = said.split_whitespace();
    let call = fields.next().unwrap_or_default();
    let Some(numbers) = fields.map(number).collect::<Option<Vec<u64>>>() else { return Ok(Line::NotUnderstood) };
    book.in_thread(thread)?;
    match (call, &numbers[..]) {
        ("thread_done", _) => Ok(Line::PassedOver),
        // A free of nothing.
        ("free", [0, ..]) => Ok(Line::PassedOver),
        ("malloc", [0, size] | [0, size, _, _]) => book.fail(*size, USUAL_ALIGN),
        ("malloc", [pointer, size] | [pointer, size, _, _]) => book.malloc(*pointer, *size),
        ("calloc", [pointer, count, size] | [pointer, count, size, _, _]) => match count.checked_mul(*size) {
            // What overflows is refused, and so it must have been.
            Some(size) if *pointer != 0 => book.allocate(*pointer, Kind::Calloc, size, USUAL_ALIGN),
            None if *pointer != 0 => Ok(Line::NotUnderstood),
            size => book.fail(size.unwrap_or(u64::MAX), USUAL_ALIGN),
        },
        ("realloc", [0, _, size] | [0, _, size, _, _]) => book.fail(*size, USUAL_ALIGN),
        ("realloc", [pointer, 0, size] | [pointer, 0, size, _, _]) => book.malloc(*pointer, *size),
        ("realloc", [pointer, old, size] | [pointer, old, size, _, _]) => book.resize(*old, *pointer, *size),
        ("memalign", [0, align, size] | [0, align, size, _, _]) => book.fail(*size, *align),
        ("memalign", [pointer, align, size] | [pointer, align, size, _, _]) => {
            book.allocate(*pointer, Kind::Aligned, *size, *align)
        }
        ("free", [pointer] | [pointer, _, _]) => book.free(*pointer),
        _ => Ok(Line::NotUnderstood),
    }
}
