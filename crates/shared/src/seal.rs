//! The seal of a segment at rest: a checksum over everything but the data.
//!
//! It is computed from what the file holds, not from the mapping, so that a sparse copy on a full file system is no
//! danger. What a file does not hold takes no time: a heap that may grow, or a damaged word, claims much more than
//! there is.

use std::ops::Range;

use crc32fast::Hasher;
use heapwright_os::{FileError, SegmentFile, Taken};

use crate::copy::Copy;
use crate::engine;
use crate::error::Error;
use crate::header::{Header, Seal};
use crate::mapping::Mapping;
use crate::place::Place;
use crate::sections::Sections;

/// How much is read at a time, in bytes.
pub(crate) const STEP: usize = 1 << 16;

/// Sets the seal, under the lock, when no other process is attached. The program may have closed the file's descriptor.
pub(crate) fn set(mapping: &Mapping) -> Result<(), Error> {
    let file = mapping.segment.file();
    let checksum = match file.status() {
        Err(FileError::Replaced) => {
            let again = mapping.open_again().map_err(|_| Error::refused(&mapping.place, 0, FileError::Replaced))?;
            checksum_of(mapping, &again)?
        }
        _ => checksum_of(mapping, file)?,
    };
    mapping.header().set_seal(checksum);
    Ok(())
}

/// Returns the checksum in the seal, if that is set. A seal that a dead holder of the lock, which `taken` names, left
/// half set or half broken counts as not set.
pub(crate) fn judge(sections: &Sections, taken: Taken) -> Result<Option<u32>, Error> {
    match (sections.header().seal(), taken) {
        (Seal::Set(checksum), _) => Ok(Some(checksum)),
        (Seal::Open, _) | (Seal::Torn, Taken::FromTheDead(_)) => Ok(None),
        (Seal::Torn, Taken::Clean) => {
            Err(Error::Corrupted { what: "its seal is damaged", offset: Header::UNSEALED[2] as u64 })
        }
    }
}

/// Says whether the segment is as it was when the seal was set.
pub(crate) fn verify(mapping: &Mapping, expected: u32) -> Result<(), Error> {
    compare(checksum_of(mapping, mapping.segment.file())?, expected)
}

/// The checksum of all that is sealed in the segment's file.
fn checksum_of(mapping: &Mapping, file: &SegmentFile) -> Result<u32, Error> {
    let place = &mapping.place;
    let held = held(place, file, &mapping.layout.sealed(engine::capacity(mapping)?)?)?;
    checksum(mapping, &held, |at, buffer| read(place, file, at, buffer))
}

/// As [`verify`], for a private copy.
pub(crate) fn verify_copy(copy: &Copy, expected: u32) -> Result<(), Error> {
    let found = checksum(&copy.sections, &copy.held, |at, buffer| {
        copy.read(at, buffer);
        Ok(())
    });
    compare(found?, expected)
}

fn compare(found: u32, expected: u32) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Corrupted { what: "it was changed since it was closed: its checksum differs", offset: 0 })
}

/// The checksum of all that is sealed, of which `held` is what the file holds; all else is zero.
fn checksum(
    sections: &Sections,
    held: &[Range<usize>],
    read: impl Fn(usize, &mut [u8]) -> Result<(), Error>,
) -> Result<u32, Error> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; STEP];
    for (from, to) in sections.layout.sealed(engine::capacity(sections)?)? {
        let mut done = from;
        for part in held.iter().filter(|part| part.start < to && part.end > from) {
            pass_over(&mut hasher, part.start.max(from) - done);
            done = part.end.min(to);
            for at in (part.start.max(from)..done).step_by(STEP) {
                let chunk = &mut buffer[..STEP.min(done - at)];
                read(at, chunk)?;
                if at == 0 {
                    blank_what_is_not_sealed(chunk);
                }
                hasher.update(chunk);
            }
        }
        pass_over(&mut hasher, to - done);
    }
    Ok(hasher.finalize())
}

/// Hashes `zeros` zeros. Time: proportional to the logarithm of their number, if they are many.
fn pass_over(hasher: &mut Hasher, zeros: usize) {
    /// Combining hashes takes longer than hashing so many zeros.
    const MANY: usize = 1 << 20;
    static ZEROS: [u8; STEP] = [0; STEP];
    if zeros < MANY {
        for done in (0..zeros).step_by(STEP) {
            hasher.update(&ZEROS[..STEP.min(zeros - done)]);
        }
        return;
    }
    let mut power = Hasher::new();
    power.update(&[0]);
    for bit in 0..=zeros.ilog2() {
        if zeros >> bit & 1 == 1 {
            hasher.combine(&power);
        }
        power.combine(&power.clone());
    }
}

/// What the file holds of some ranges, in order; all else in them is zero.
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

/// Reads from the file; what lies behind the end of one that was cut is as good as nothing.
pub(crate) fn read(place: &Place, file: &SegmentFile, at: usize, buffer: &mut [u8]) -> Result<(), Error> {
    let read = file.read_at(at as u64, buffer);
    let read = read.map_err(|reason| Error::refused(place, buffer.len(), reason))?;
    buffer[read..].fill(0);
    Ok(())
}

fn blank_what_is_not_sealed(start: &mut [u8]) {
    for word in Header::UNSEALED {
        start[word..word + 8].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_that_are_passed_over_count() {
        for zeros in [0, 1, 100, STEP, STEP + 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 12345, 3 << 21] {
            let (mut passed, mut read) = (Hasher::new(), Hasher::new());
            [&mut passed, &mut read].into_iter().for_each(|hasher| hasher.update(b"before"));
            pass_over(&mut passed, zeros);
            read.update(&vec![0; zeros]);
            [&mut passed, &mut read].into_iter().for_each(|hasher| hasher.update(b"behind"));
            assert_eq!(passed.finalize(), read.finalize(), "{zeros}");
        }
    }
}
