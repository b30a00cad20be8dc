//! Mozilla's logalloc: `process thread call(arguments)=#block`. Block numbers are reused after a free.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, number};
use crate::event::{DEFAULT_ALIGN, Kind};

/// The maximum number of processes whose numbers are remembered.
const PROCESSES: usize = 4096;

/// The importer of one process's calls.
pub(super) struct Logalloc {
    /// The process to import; `None` before the first call if any will do.
    process: Option<u64>,
}

/// A parsed call.
struct Call<'l> {
    process: u64,
    thread: u64,
    name: &'l str,
    arguments: Vec<&'l str>,
    result: Option<&'l str>,
}

impl Logalloc {
    /// Returns an importer of this process, or of the first in the source.
    pub(super) fn of(process: Option<u64>) -> Logalloc {
        Logalloc { process }
    }

    pub(super) fn read<W: Write>(&mut self, line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        if line.is_empty() {
            return Ok(Line::PassedOver);
        }
        let Some(call) = parse(line) else { return Ok(Line::NotUnderstood) };
        let processes = &mut ledger.summary.processes;
        if processes.len() < PROCESSES && !processes.contains(&call.process) {
            processes.push(call.process);
        }
        if call.process != *self.process.get_or_insert(call.process) {
            return Ok(Line::OfAnotherProcess);
        }
        ledger.in_thread(call.thread);
        enter(&call, ledger).unwrap_or(Ok(Line::NotUnderstood))
    }
}

fn parse(line: &str) -> Option<Call<'_>> {
    let (process, rest) = line.split_once(' ')?;
    let (thread, rest) = rest.split_once(' ')?;
    let process = number(process)?;
    let (name, rest) = rest.trim().split_once('(')?;
    let (arguments, result) = rest.rsplit_once(')')?;
    let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()).collect();
    let result = result.trim().strip_prefix('=').map(str::trim);
    Some(Call { process, thread: number(thread)?, name, arguments, result })
}

/// Returns the block number of `#1`; `None` for a null pointer, written as `#0`, `0` or nothing.
fn block(text: &str) -> Option<u64> {
    text.strip_prefix('#').and_then(number).filter(|&number| number != 0)
}

fn enter<W: Write>(call: &Call<'_>, ledger: &mut Ledger<'_, W>) -> Option<Result<Line, ImportError>> {
    if matches!(call.name, "free" | "jemalloc_stats" | "moz_dispose_arena") {
        return match (call.name, call.arguments.first().copied().and_then(block)) {
            ("free", Some(name)) => Some(ledger.free(name)),
            _ => Some(Ok(Line::PassedOver)),
        };
    }
    let request = request(call)?;
    let Some(result) = call.result.and_then(block) else {
        return Some(match request {
            // A realloc to size 0 frees the block.
            Request { old: Some(old), size: 0, .. } => ledger.free(old),
            // A request without a resulting block has failed.
            Request { size, align, .. } => ledger.fail(size, align),
        });
    };
    let Request { kind, size, align, old } = request;
    Some(match old {
        Some(old) => ledger.resize(old, result, size),
        None => ledger.allocate(result, kind, size, align),
    })
}

/// The request that a call makes.
struct Request {
    kind: Kind,
    size: u64,
    align: u64,
    /// The block to resize; `None` for an allocation.
    old: Option<u64>,
}

fn request(call: &Call<'_>) -> Option<Request> {
    let number_at = |at: usize| call.arguments.get(at).copied().and_then(number);
    let plain = |kind, size| Request { kind, size, align: DEFAULT_ALIGN, old: None };
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
