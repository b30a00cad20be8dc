//! Android's memory_replay: `tid: call pointer arguments… [begin end]`, with two optional times in nanoseconds.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, number};
use crate::event::{DEFAULT_ALIGN, Kind};

pub(super) fn read<W: Write>(line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() {
        return Ok(Line::PassedOver);
    }
    let Some((thread, call, numbers)) = parse(line) else { return Ok(Line::NotUnderstood) };
    let Some((arguments, times)) = numbers.split_at_checked(arguments_of(call)) else {
        return Ok(Line::NotUnderstood);
    };
    ledger.in_thread(thread);
    if let [begin, _] = times {
        ledger.at_time_of_day(*begin);
    }
    match (call, arguments, times) {
        ("thread_done", ..) => Ok(Line::PassedOver),
        (_, _, [] | [_, _]) => enter(call, arguments, ledger),
        _ => Ok(Line::NotUnderstood),
    }
}

fn parse(line: &str) -> Option<(u64, &str, Vec<u64>)> {
    let (thread, rest) = line.split_once(':')?;
    let mut fields = rest.split_whitespace();
    let call = fields.next()?;
    Some((number(thread.trim())?, call, fields.map(number).collect::<Option<_>>()?))
}

/// Returns the number of arguments of a call. Further numbers are times.
fn arguments_of(call: &str) -> usize {
    match call {
        "malloc" => 2,
        "calloc" | "realloc" | "memalign" => 3,
        _ => 1,
    }
}

fn enter<W: Write>(call: &str, arguments: &[u64], ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
    match (call, arguments) {
        // A free of a null pointer.
        ("free", [0]) => Ok(Line::PassedOver),
        ("free", &[pointer]) => ledger.free(pointer),
        ("malloc", &[0, size]) => ledger.fail(size, DEFAULT_ALIGN),
        ("malloc", &[pointer, size]) => ledger.malloc(pointer, size),
        // The product may overflow, because the request failed.
        ("calloc", &[0, count, size]) => ledger.fail(count.saturating_mul(size), DEFAULT_ALIGN),
        ("calloc", &[pointer, count, size]) => match count.checked_mul(size) {
            Some(size) => ledger.allocate(pointer, Kind::Calloc, size, DEFAULT_ALIGN),
            None => Ok(Line::NotUnderstood),
        },
        // A realloc to size 0 frees the block.
        ("realloc", &[0, old, 0]) if old != 0 => ledger.free(old),
        ("realloc", &[0, _, size]) => ledger.fail(size, DEFAULT_ALIGN),
        ("realloc", &[pointer, 0, size]) => ledger.malloc(pointer, size),
        ("realloc", &[pointer, old, size]) => ledger.resize(old, pointer, size),
        ("memalign", &[0, align, size]) => ledger.fail(size, align),
        ("memalign", &[pointer, align, size]) => ledger.allocate(pointer, Kind::Aligned, size, align),
        _ => Ok(Line::NotUnderstood),
    }
}
