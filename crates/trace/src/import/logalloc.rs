//! Mozilla's logalloc: `process thread call(arguments)=#block`, blocks by numbers that are used again.

use std::io::Write;

use super::book::Book;
use super::lines::number;
use super::{ImportError, Line};
use crate::event::{Kind, USUAL_ALIGN};

/// A call taken apart: its name, its arguments, its result.
struct Call<'l> {
    thread: u64,
    name: &'l str,
    arguments: Vec<&'l str>,
    result: Option<&'l str>,
}

pub(super) fn read<W: Write>(line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() {
        return Ok(Line::PassedOver);
    }
    let Some(call) = parse(line) else { return Ok(Line::NotUnderstood) };
    book.in_thread(call.thread)?;
    enter(&call, book).unwrap_or(Ok(Line::NotUnderstood))
}

fn parse(line: &str) -> Option<Call<'_>> {
    let (process, rest) = line.split_once(' ')?;
    let (thread, rest) = rest.split_once(' ')?;
    number(process)?;
    let (name, rest) = rest.trim().split_once('(')?;
    let (arguments, result) = rest.rsplit_once(')')?;
    let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()).collect();
    let result = result.trim().strip_prefix('=').map(str::trim);
    Some(Call { thread: number(thread)?, name, arguments, result })
}

/// The number of the block in `#1`; `None` for null, written `#0` or `0` or nothing.
fn block(text: &str) -> Option<u64> {
    text.strip_prefix('#').and_then(number).filter(|&number| number != 0)
}

fn enter<W: Write>(call: &Call<'_>, book: &mut Book<'_, W>) -> Option<Result<Line, ImportError>> {
    if matches!(call.name, "free" | "jemalloc_stats" | "moz_dispose_arena") {
        return match (call.name, call.arguments.first().copied().and_then(block)) {
            ("free", Some(name)) => Some(book.free(name)),
            _ => Some(Ok(Line::PassedOver)),
        };
    }
    let request = request(call)?;
    let Some(result) = call.result.and_then(block) else {
        return Some(match request {
            // To no bytes: the block is freed.
            Request { old: Some(old), size: 0, .. } => book.free(old),
            // A request that failed has no block.
            Request { size, align, .. } => book.fail(size, align),
        });
    };
    let Request { kind, size, align, old } = request;
    Some(match old {
        Some(old) => book.resize(old, result, size),
        None => book.allocate(result, kind, size, align),
    })
}

/// What a call asks for.
struct Request {
    kind: Kind,
    size: u64,
    align: u64,
    /// The block that is resized.
    old: Option<u64>,
}

fn request(call: &Call<'_>) -> Option<Request> {
    let number_at = |at: usize| call.arguments.get(at).copied().and_then(number);
    let plain = |kind, size| Request { kind, size, align: USUAL_ALIGN, old: None };
    Some(match (call.name, call.arguments.len()) {
        ("malloc" | "valloc", 1) => plain(Kind::Malloc, number_at(0)?),
        ("calloc", 2) => plain(Kind::Calloc, number_at(0)?.checked_mul(number_at(1)?)?),
        ("memalign" | "aligned_alloc" | "posix_memalign", 2) => {
            Request { align: number_at(0)?, ..plain(Kind::Aligned, number_at(1)?) }
        }
        ("realloc", 2) => Request { old: block(call.arguments[0]), ..plain(Kind::Malloc, number_at(1)?) },
        _ => return None,
    })
}
