//! What the file of a segment holds, read without a mapping.

use std::ops::Range;

use heapwright_os::SegmentFile;

use crate::terms::error::Error;
use crate::terms::place::Place;

/// How much is read at a time, in bytes.
pub(crate) const STEP: usize = 1 << 16;

/// Returns what the file holds of some ranges, in order; all else in them is zero.
pub(crate) fn held(place: &Place, file: &SegmentFile, ranges: &[(usize, usize)]) -> Result<Vec<Range<usize>>, Error> {
    let refused = |reason| Error::refused(place, 0, reason);
    // Another file at the descriptor's number would be read otherwise.
    file.status().map_err(refused)?;
    // Ranges are looked for by setting a position, which other threads and the children of a fork have in common.
    let opened = file.open_beside(place.c_path());
    let file = opened.as_ref().unwrap_or(file);
    let mut held = Vec::new();
    for &(from, to) in ranges {
        let mut next = from;
        while next < to {
            let found = file.next_data(next as u64).map_err(refused)?;
            let Some((start, end)) = found.filter(|&(start, _)| start < to as u64) else { break };
            next = usize::try_from(end).unwrap_or(to).min(to);
            held.push(start as usize..next);
        }
    }
    Ok(held)
}

/// Verifies that the file is `length` bytes long, as it was made.
pub(crate) fn verify_length(place: &Place, file: &SegmentFile, length: usize) -> Result<(), Error> {
    let status = file.status().map_err(|reason| Error::refused(place, 0, reason))?;
    let (expected, found) = (length as u64, status.length);
    if found == expected { Ok(()) } else { Err(Error::WrongLength { place: place.clone(), expected, found }) }
}

/// Reads from the file; what lies behind the end of one that was cut is as good as nothing.
pub(crate) fn read(place: &Place, file: &SegmentFile, at: usize, buffer: &mut [u8]) -> Result<(), Error> {
    let read = file.read_at(at as u64, buffer);
    let read = read.map_err(|reason| Error::refused(place, buffer.len(), reason))?;
    buffer[read..].fill(0);
    Ok(())
}
