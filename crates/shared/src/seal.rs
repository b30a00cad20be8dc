//! The seal of a segment at rest: a checksum over everything but the data.
//!
//! It is computed from what the file holds, not from the mapping, so that a sparse copy on a full file system is no danger.

use std::ptr::NonNull;

use crc32fast::Hasher;

use crate::engine;
use crate::error::Error;
use crate::header::Header;
use crate::mapping::Mapping;
use crate::sections::Sections;

/// How much is read at a time, in bytes.
const STEP: usize = 1 << 16;

/// Sets the seal, under the lock, when nobody else is attached.
pub(crate) fn set(mapping: &Mapping) -> Result<(), Error> {
    let checksum = checksum(mapping, |at, buffer| read(mapping, at, buffer))?;
    mapping.header().live.set_seal(checksum);
    Ok(())
}

/// Says whether the segment is as it was when the seal was set.
pub(crate) fn verify(mapping: &Mapping, expected: u32) -> Result<(), Error> {
    compare(checksum(mapping, |at, buffer| read(mapping, at, buffer))?, expected)
}

/// Says whether a copy is of a segment as it was when the seal was set.
pub(crate) fn verify_copy(copy: &Sections, expected: u32) -> Result<(), Error> {
    let read = |at, buffer: &mut [u8]| {
        // SAFETY: a copy is nobody else's and can be read as far as the data, where what is sealed ends.
        unsafe { copy.base().add(at).copy_to_nonoverlapping(NonNull::from(&mut *buffer).cast(), buffer.len()) };
        Ok(())
    };
    compare(checksum(copy, read)?, expected)
}

fn compare(found: u32, expected: u32) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Corrupted { what: "it was changed since it was closed: its checksum differs", offset: 0 })
}

fn checksum(sections: &Sections, read: impl Fn(usize, &mut [u8]) -> Result<(), Error>) -> Result<u32, Error> {
    let mut hasher = Hasher::new();
    for (from, to) in sections.layout.sealed(engine::capacity(sections)?)? {
        let mut buffer = vec![0; STEP.min(to - from)];
        for at in (from..to).step_by(STEP) {
            let length = STEP.min(to - at);
            read(at, &mut buffer[..length])?;
            if at == 0 {
                blank_what_is_not_sealed(&mut buffer);
            }
            hasher.update(&buffer[..length]);
        }
    }
    Ok(hasher.finalize())
}

/// Reads from the file; what lies behind the end of one that was cut is as good as nothing.
pub(crate) fn read(mapping: &Mapping, at: usize, buffer: &mut [u8]) -> Result<(), Error> {
    let read = mapping.segment.file().read_at(at as u64, buffer);
    let read = read.map_err(|reason| Error::refused(&mapping.place, buffer.len(), reason))?;
    buffer[read..].fill(0);
    Ok(())
}

/// The lock is held by whoever computes this, and the seal is what comes of it.
fn blank_what_is_not_sealed(start: &mut [u8]) {
    for word in [std::mem::offset_of!(Header, lock), Header::SEAL] {
        start[word..word + 8].fill(0);
    }
}
