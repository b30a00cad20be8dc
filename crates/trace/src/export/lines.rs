//! Writes the lines of each format.

use std::io::{self, Write};

use super::extent::Extent;
use super::operation::{Exported, Operation};
use crate::event::{DEFAULT_ALIGN, Kind};
use crate::import::Format;

/// The distance between the made-up addresses of blocks, for formats that need addresses.
const STRIDE: u64 = 16;

/// Returns the made-up address of a block, never 0.
fn address(id: u64) -> u64 {
    (id + 1).wrapping_mul(STRIDE)
}

/// Returns whether the lines of a format name the thread.
pub(super) fn has_threads(format: Format) -> bool {
    matches!(format, Format::Csv | Format::MemoryReplay)
}

/// Writes the header of a file.
pub(super) fn begin(format: Format, extent: &Extent, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Csv => writeln!(out, "op,id,size,align,thread"),
        Format::Rep => {
            let Extent { blocks, operations, peak } = extent;
            // The last number is the weight of the trace.
            writeln!(out, "{peak}\n{blocks}\n{operations}\n1")
        }
        Format::Mtrace => writeln!(out, "= Start"),
        _ => Ok(()),
    }
}

/// Writes the end of a file.
pub(super) fn end(format: Format, out: &mut impl Write) -> io::Result<()> {
    if format == Format::Mtrace { writeln!(out, "= End") } else { Ok(()) }
}

/// Writes one operation and counts what the format cannot express; returns `false` if it wrote nothing.
pub(super) fn write(
    format: Format,
    thread: u64,
    operation: &Operation,
    exported: &mut Exported,
    out: &mut impl Write,
) -> io::Result<bool> {
    match format {
        Format::Csv => csv(thread, operation, out)?,
        Format::MemoryReplay if !matches!(operation, Operation::Failed { .. }) => {
            memory_replay(thread, operation, out)?
        }
        Format::Mtrace => {
            count_kind(operation, exported);
            mtrace(operation, out)?;
        }
        Format::Rep if !matches!(operation, Operation::Failed { .. }) => {
            count_kind(operation, exported);
            rep(operation, out)?;
        }
        _ => {
            exported.failures += 1;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Counts what a format with a single kind of allocation cannot express.
fn count_kind(operation: &Operation, exported: &mut Exported) {
    match *operation {
        Operation::Allocate { kind, align, .. } => {
            exported.zeroed += u64::from(kind == Kind::Calloc);
            exported.alignments += u64::from(align != DEFAULT_ALIGN);
        }
        Operation::Failed { align, .. } => exported.alignments += u64::from(align != DEFAULT_ALIGN),
        Operation::Resize { .. } | Operation::Free { .. } => {}
    }
}

fn csv(thread: u64, operation: &Operation, out: &mut impl Write) -> io::Result<()> {
    match *operation {
        Operation::Allocate { kind: Kind::Malloc, id, size, .. } => writeln!(out, "malloc,{id},{size},,{thread}"),
        Operation::Allocate { kind: Kind::Calloc, id, size, .. } => writeln!(out, "calloc,{id},{size},,{thread}"),
        Operation::Allocate { kind: Kind::Aligned, id, size, align } => {
            writeln!(out, "aligned,{id},{size},{align},{thread}")
        }
        Operation::Resize { id, size } => writeln!(out, "realloc,{id},{size},,{thread}"),
        Operation::Free { id } => writeln!(out, "free,{id},,,{thread}"),
        Operation::Failed { size, align } => writeln!(out, "failed,,{size},{align},{thread}"),
    }
}

fn rep(operation: &Operation, out: &mut impl Write) -> io::Result<()> {
    match *operation {
        Operation::Allocate { id, size, .. } => writeln!(out, "a {id} {size}"),
        Operation::Resize { id, size } => writeln!(out, "r {id} {size}"),
        Operation::Free { id } => writeln!(out, "f {id}"),
        Operation::Failed { .. } => Ok(()),
    }
}

fn memory_replay(thread: u64, operation: &Operation, out: &mut impl Write) -> io::Result<()> {
    // On Linux no thread identifier is 0.
    write!(out, "{}: ", thread.wrapping_add(1))?;
    match *operation {
        Operation::Allocate { kind: Kind::Malloc, id, size, .. } => writeln!(out, "malloc {:#x} {size}", address(id)),
        Operation::Allocate { kind: Kind::Calloc, id, size, .. } => writeln!(out, "calloc {:#x} 1 {size}", address(id)),
        Operation::Allocate { kind: Kind::Aligned, id, size, align } => {
            writeln!(out, "memalign {:#x} {align} {size}", address(id))
        }
        Operation::Resize { id, size } => writeln!(out, "realloc {0:#x} {0:#x} {size}", address(id)),
        Operation::Free { id } => writeln!(out, "free {:#x}", address(id)),
        Operation::Failed { .. } => Ok(()),
    }
}

fn mtrace(operation: &Operation, out: &mut impl Write) -> io::Result<()> {
    match *operation {
        Operation::Allocate { id, size, .. } => writeln!(out, "@ trace + {:#x} {size:#x}", address(id)),
        Operation::Resize { id, size } => writeln!(out, "@ trace < {0:#x}\n@ trace > {0:#x} {size:#x}", address(id)),
        Operation::Free { id } => writeln!(out, "@ trace - {:#x}", address(id)),
        Operation::Failed { size, .. } => writeln!(out, "@ trace + (nil) {size:#x}"),
    }
}
