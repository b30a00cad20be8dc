//! Mozilla's logalloc: `process thread call(arguments)=block`, where a block is an address as written by the program,
//! or `#number` after Mozilla's script replaced the addresses. Both are reused after a free.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, address, number};
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
    let (call, result) = rest.rsplit_once('=').map_or((rest, ""), |(call, result)| (call, result.trim()));
    let arguments = call.trim_end().strip_suffix(')')?.split(',').map(str::trim);
    let arguments = arguments.filter(|argument| !argument.is_empty()).collect();
    Some(Call {
        process,
        thread: number(thread)?,
        name,
        arguments,
        result: Some(result).filter(|result| !result.is_empty()),
    })
}

/// Returns the number of `#1`, or the address, that names a block; 0 for a null pointer, also written as `(nil)`.
fn block(text: &str) -> Option<u64> {
    text.strip_prefix('#').map_or_else(|| address(text), number)
}

fn enter<W: Write>(call: &Call<'_>, ledger: &mut Ledger<'_, W>) -> Option<Result<Line, ImportError>> {
    match (call.name, &call.arguments[..]) {
        ("jemalloc_stats" | "moz_dispose_arena", _) | ("free", []) => return Some(Ok(Line::PassedOver)),
        ("free", [freed]) => {
            return Some(match block(freed)? {
                0 => Ok(Line::PassedOver),
                freed => ledger.free(freed),
            });
        }
        _ => (),
    }
    let Request { kind, size, align, old } = request(call)?;
    Some(match (old, call.result.map_or(Some(0), block)?) {
        // A realloc to size 0 frees the block.
        (Some(old), 0) if size == 0 => ledger.free(old),
        // A request without a resulting block has failed.
        (_, 0) => ledger.fail(size, align),
        (Some(old), result) => ledger.resize(old, result, size),
        (None, result) => ledger.allocate(result, kind, size, align),
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
        ("realloc", 2) => {
            let old = Some(block(call.arguments[0])?).filter(|&old| old != 0);
            Request { old, ..plain(Kind::Malloc, number_at(1)?) }
        }
        _ => return None,
    })
}
