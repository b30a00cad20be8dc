//! Android's memory_replay: `tid: call pointer arguments… [begin end]`, the two times, in nanoseconds, being there or not.

use std::io::Write;

use super::book::Book;
use super::lines::number;
use super::{ImportError, Line};
use crate::event::{Kind, USUAL_ALIGN};

pub(super) fn read<W: Write>(line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() {
        return Ok(Line::PassedOver);
    }
    let Some((thread, call, numbers)) = parse(line) else { return Ok(Line::NotUnderstood) };
    let Some((arguments, times)) = numbers.split_at_checked(arguments_of(call)) else {
        return Ok(Line::NotUnderstood);
    };
    book.in_thread(thread)?;
    if let [begin, _] = times {
        book.at_time_of_day(*begin);
    }
    match (call, arguments, times) {
        ("thread_done", ..) => Ok(Line::PassedOver),
        (_, _, [] | [_, _]) => enter(call, arguments, book),
        _ => Ok(Line::NotUnderstood),
    }
}

fn parse(line: &str) -> Option<(u64, &str, Vec<u64>)> {
    let (thread, said) = line.split_once(':')?;
    let mut fields = said.split_whitespace();
    let call = fields.next()?;
    Some((number(thread.trim())?, call, fields.map(number).collect::<Option<_>>()?))
}

/// How many numbers belong to a call; what comes behind them are times.
fn arguments_of(call: &str) -> usize {
    match call {
        "malloc" => 2,
        "calloc" | "realloc" | "memalign" => 3,
        _ => 1,
    }
}

fn enter<W: Write>(call: &str, arguments: &[u64], book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    match (call, arguments) {
        // A free of nothing.
        ("free", [0]) => Ok(Line::PassedOver),
        ("free", &[pointer]) => book.free(pointer),
        ("malloc", &[0, size]) => book.fail(size, USUAL_ALIGN),
        ("malloc", &[pointer, size]) => book.malloc(pointer, size),
        // What is longer than all memory is refused.
        ("calloc", &[0, count, size]) => book.fail(count.saturating_mul(size), USUAL_ALIGN),
        ("calloc", &[pointer, count, size]) => match count.checked_mul(size) {
            Some(size) => book.allocate(pointer, Kind::Calloc, size, USUAL_ALIGN),
            None => Ok(Line::NotUnderstood),
        },
        // To no bytes: the block is freed.
        ("realloc", &[0, old, 0]) if old != 0 => book.free(old),
        ("realloc", &[0, _, size]) => book.fail(size, USUAL_ALIGN),
        ("realloc", &[pointer, 0, size]) => book.malloc(pointer, size),
        ("realloc", &[pointer, old, size]) => book.resize(old, pointer, size),
        ("memalign", &[0, align, size]) => book.fail(size, align),
        ("memalign", &[pointer, align, size]) => book.allocate(pointer, Kind::Aligned, size, align),
        _ => Ok(Line::NotUnderstood),
    }
}
