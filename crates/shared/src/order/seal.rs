//! The seal of a segment at rest: a checksum over everything but the data.
//!
//! It is computed from what the file holds, not from the mapping, so that a sparse copy on a full file system is no
//! danger. What a file does not hold takes no time: a heap that may grow, or a damaged word, claims much more than
//! there is.

use std::ops::Range;

use crc32fast::Hasher;
use heapwright_os::{FileError, SegmentFile, Taken};

use crate::format::header::{Header, Seal};
use crate::mapped::contents::{STEP, held, read};
use crate::mapped::copy::Copy;
use crate::mapped::engine;
use crate::mapped::mapping::Mapping;
use crate::mapped::sections::Sections;
use crate::terms::error::Error;

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

/// Returns the checksum of all that is sealed in the segment's file.
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
    /// Combining hashes takes longer than hashing this number of zeros.
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
