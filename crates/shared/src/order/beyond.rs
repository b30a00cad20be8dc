//! What lies behind the heap's end, where nothing is ever written: heaps do not become shorter.
//!
//! Owners and slabs there say that the end was damaged: the blocks behind it would be forgotten, and the slabs, which
//! growth would put into the heap again, would lie over blocks of the engine.

use std::ops::Range;

use crate::format::layout::Layout;
use crate::format::slab::SLAB;
use crate::mapped::contents::{self, STEP};
use crate::mapped::copy::Copy;
use crate::mapped::mapping::Mapping;
use crate::terms::error::Error;

/// Verifies that nothing was written behind the end of a heap of `size` bytes. It is read from the file: what a sparse
/// file does not hold is not touched.
pub(crate) fn verify(mapping: &Mapping, size: usize) -> Result<(), Error> {
    let ranges = behind(&mapping.layout, size);
    if ranges.iter().all(Range::is_empty) {
        return Ok(());
    }
    let (place, file) = (&mapping.place, mapping.segment.file());
    let held = contents::held(place, file, &ranges.map(|range| (range.start, range.end)))?;
    verify_zero(held, |at, buffer| contents::read(place, file, at, buffer))
}

/// As [`verify`], for a private copy.
pub(crate) fn verify_copy(copy: &Copy, size: usize) -> Result<(), Error> {
    let held = behind(&copy.sections.layout, size).into_iter().flat_map(|range| {
        let clipped = move |part: &Range<usize>| part.start.max(range.start)..part.end.min(range.end);
        copy.held.iter().map(clipped).filter(|part| !part.is_empty())
    });
    verify_zero(held, |at, buffer| {
        copy.read(at, buffer);
        Ok(())
    })
}

/// Returns the owners of granules behind the end of a heap of `size` bytes, and the slabs that would lie there.
fn behind(layout: &Layout, size: usize) -> [Range<usize>; 2] {
    let most = layout.plan.max_size;
    let owner = |size: usize| layout.owners + (size >> layout.shift);
    let slab = |size: usize| layout.slabs + layout.shape.map_or(0, |shape| size / SLAB * shape.stride());
    [owner(size)..owner(most), slab(size)..slab(most)]
}

fn verify_zero(
    parts: impl IntoIterator<Item = Range<usize>>,
    read: impl Fn(usize, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut buffer = vec![0; STEP];
    for part in parts {
        for at in part.clone().step_by(STEP) {
            let chunk = &mut buffer[..STEP.min(part.end - at)];
            read(at, chunk)?;
            if let Some(found) = chunk.iter().position(|&byte| byte != 0) {
                let what = "the heap ends before something that was in it";
                return Err(Error::Corrupted { what, offset: (at + found) as u64 });
            }
        }
    }
    Ok(())
}
