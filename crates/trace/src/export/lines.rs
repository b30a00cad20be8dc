//! The lines of each format.

use std::io::{self, Write};

use super::{Exported, Extent, Said};
use crate::event::{Kind, USUAL_ALIGN};
use crate::import::Format;

/// Addresses, where a format wants some: apart, and none of them 0.
const STRIDE: u64 = 16;

fn address(id: u64) -> u64 {
    (id + 1).wrapping_mul(STRIDE)
}

/// Whether lines say in which thread it happens.
pub(super) fn has_threads(format: Format) -> bool {
    matches!(format, Format::Csv | Format::MemoryReplay)
}

/// What stands in front.
pub(super) fn begin(format: Format, extent: &Extent, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Csv => writeln!(out, "op,id,size,align,thread"),
        Format::Rep => {
            let Extent { blocks, operations, peak } = extent;
            // The weight of the trace among others comes last.
            writeln!(out, "{peak}\n{blocks}\n{operations}\n1")
        }
        Format::Mtrace => writeln!(out, "= Start"),
        _ => Ok(()),
    }
}

/// What stands at the end.
pub(super) fn end(format: Format, out: &mut impl Write) -> io::Result<()> {
    if format == Format::Mtrace { writeln!(out, "= End") } else { Ok(()) }
}

/// Writes one line, and counts what it cannot say; `false` when there is no such line.
pub(super) fn write(
    format: Format,
    thread: u64,
    said: &Said,
    exported: &mut Exported,
    out: &mut impl Write,
) -> io::Result<bool> {
    match format {
        Format::Csv => csv(thread, said, out)?,
        Format::MemoryReplay if !matches!(said, Said::Failed { .. }) => memory_replay(thread, said, out)?,
        Format::Mtrace => {
            count_kind(said, exported);
            mtrace(said, out)?;
        }
        Format::Rep if !matches!(said, Said::Failed { .. }) => {
            count_kind(said, exported);
            rep(said, out)?;
        }
        _ => {
            exported.failures += 1;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where there is one kind of allocation only.
fn count_kind(said: &Said, exported: &mut Exported) {
    match *said {
        Said::Allocate { kind, align, .. } => {
            exported.zeroed += u64::from(kind == Kind::Calloc);
            exported.alignments += u64::from(align != USUAL_ALIGN);
        }
        Said::Failed { align, .. } => exported.alignments += u64::from(align != USUAL_ALIGN),
        Said::Resize { .. } | Said::Free { .. } => {}
    }
}

fn csv(thread: u64, said: &Said, out: &mut impl Write) -> io::Result<()> {
    match *said {
        Said::Allocate { kind: Kind::Malloc, id, size, .. } => writeln!(out, "malloc,{id},{size},,{thread}"),
        Said::Allocate { kind: Kind::Calloc, id, size, .. } => writeln!(out, "calloc,{id},{size},,{thread}"),
        Said::Allocate { kind: Kind::Aligned, id, size, align } => {
            writeln!(out, "aligned,{id},{size},{align},{thread}")
        }
        Said::Resize { id, size } => writeln!(out, "realloc,{id},{size},,{thread}"),
        Said::Free { id } => writeln!(out, "free,{id},,,{thread}"),
        Said::Failed { size, align } => writeln!(out, "failed,,{size},{align},{thread}"),
    }
}

fn rep(said: &Said, out: &mut impl Write) -> io::Result<()> {
    match *said {
        Said::Allocate { id, size, .. } => writeln!(out, "a {id} {size}"),
        Said::Resize { id, size } => writeln!(out, "r {id} {size}"),
        Said::Free { id } => writeln!(out, "f {id}"),
        Said::Failed { .. } => Ok(()),
    }
}

fn memory_replay(thread: u64, said: &Said, out: &mut impl Write) -> io::Result<()> {
    // No thread of Linux is called 0.
    write!(out, "{}: ", thread.wrapping_add(1))?;
    match *said {
        Said::Allocate { kind: Kind::Malloc, id, size, .. } => writeln!(out, "malloc {:#x} {size}", address(id)),
        Said::Allocate { kind: Kind::Calloc, id, size, .. } => writeln!(out, "calloc {:#x} 1 {size}", address(id)),
        Said::Allocate { kind: Kind::Aligned, id, size, align } => {
            writeln!(out, "memalign {:#x} {align} {size}", address(id))
        }
        Said::Resize { id, size } => writeln!(out, "realloc {0:#x} {0:#x} {size}", address(id)),
        Said::Free { id } => writeln!(out, "free {:#x}", address(id)),
        Said::Failed { .. } => Ok(()),
    }
}

fn mtrace(said: &Said, out: &mut impl Write) -> io::Result<()> {
    match *said {
        Said::Allocate { id, size, .. } => writeln!(out, "@ trace + {:#x} {size:#x}", address(id)),
        Said::Resize { id, size } => writeln!(out, "@ trace < {0:#x}\n@ trace > {0:#x} {size:#x}", address(id)),
        Said::Free { id } => writeln!(out, "@ trace - {:#x}", address(id)),
        Said::Failed { size, .. } => writeln!(out, "@ trace + (nil) {size:#x}"),
    }
}
