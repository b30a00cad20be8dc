//! A private copy of a segment, made from its file.

use std::ops::Range;
use std::ptr::NonNull;

use heapwright_os::{Reservation, SegmentFile, round_to_pages};

use crate::format::layout::Layout;
use crate::mapped::contents;
use crate::mapped::engine;
use crate::mapped::sections::Sections;
use crate::terms::error::Error;
use crate::terms::place::Place;

/// A private copy of all that lies below the data.
pub(crate) struct Copy {
    pub(crate) sections: Sections,
    /// What was copied: what the file holds. All else is zero.
    pub(crate) held: Vec<Range<usize>>,
    /// How many bytes the system holds for the file.
    pub(crate) allocated: u64,
    /// Why only the header and the tables could be copied.
    pub(crate) unreadable: Option<Error>,
    /// What the sections lie in.
    _memory: Reservation,
}

impl Copy {
    /// Copies from the file, not from a mapping, which a file that is cut meanwhile does not back.
    pub(crate) fn of(place: &Place, file: &SegmentFile, layout: Layout) -> Result<Copy, Error> {
        let no_space = Error::NoSpace { bytes: layout.data as u64 };
        let length = round_to_pages(layout.data).ok_or(no_space.clone())?;
        let memory = Reservation::sparse(length).map_err(|_| no_space)?;
        copy_ranges(place, file, memory.base(), &[(0, layout.owners)])?;
        // SAFETY: all below the data is there, zero where nothing was copied to, and this function alone uses it.
        let sections = unsafe { Sections::at_base(memory.base(), layout, file) };
        let ranges = engine::capacity(&sections).and_then(|capacity| layout.sealed(capacity));
        let (held, unreadable) = match ranges {
            Ok(ranges) => (copy_ranges(place, file, memory.base(), &ranges)?, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let status = file.status().map_err(|reason| Error::refused(place, 0, reason))?;
        Ok(Copy { sections, held, allocated: status.allocated, unreadable, _memory: memory })
    }
}

impl Copy {
    /// Reads what lies at `at`, below the data.
    pub(crate) fn read(&self, at: usize, buffer: &mut [u8]) {
        assert!(at + buffer.len() <= self.sections.layout.data, "only what lies below the data is copied");
        // SAFETY: all below the data is there and no other thread's, and the buffer is no part of it.
        unsafe {
            self.sections.base().add(at).copy_to_nonoverlapping(NonNull::from(&mut *buffer).cast(), buffer.len())
        };
    }
}

/// Copies what the file holds of some ranges, and returns which parts those are.
fn copy_ranges(
    place: &Place,
    file: &SegmentFile,
    base: NonNull<u8>,
    ranges: &[(usize, usize)],
) -> Result<Vec<Range<usize>>, Error> {
    let held = contents::held(place, file, ranges)?;
    // From the end, so that owners are read behind slabs, whose owners take blocks meanwhile: the owner of a block is
    // stored before its bit, and one that was read before the bit may be that of an earlier block.
    for part in held.iter().rev() {
        // SAFETY: the range lies below the data, thus within the copy's memory, which is zero and used here only.
        let target = unsafe { std::slice::from_raw_parts_mut(base.add(part.start).as_ptr(), part.len()) };
        contents::read(place, file, part.start, target)?;
    }
    Ok(held)
}
