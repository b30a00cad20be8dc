//! The frames of a file, one after the other.

use std::io::{self, Read};

use crate::error::{Fault, ReadError};
use crate::frame::{self, HEADER, Header};

/// Reads frames. Memory: one frame, packed and unpacked, used again for the next.
pub(crate) struct Frames<R: Read> {
    file: R,
    packed: Vec<u8>,
    unpacker: frame::Unpacker,
    /// The frame under way: its number and where it begins.
    number: u64,
    offset: u64,
    /// Where the next frame begins.
    position: u64,
}

impl<R: Read> Frames<R> {
    /// Those that follow in `file`, which has been read up to `position`.
    pub(crate) fn new(file: R, position: u64) -> io::Result<Frames<R>> {
        let unpacker = frame::Unpacker::new()?;
        Ok(Frames { file, packed: Vec::new(), unpacker, number: 0, offset: position, position })
    }

    /// How many bytes of the file have been read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next frame and leaves it packed; `None` at the end of the file.
    pub(crate) fn next_header(&mut self) -> Result<Option<Header>, Stop> {
        let mut header = [0; HEADER];
        self.offset = self.position;
        match fill(&mut self.file, &mut header)? {
            0 => return Ok(None),
            HEADER => {}
            _ => return Err(Fault::CutOff.into()),
        }
        let header = Header::from_bytes(&header)?;
        self.packed.resize(header.packed as usize, 0);
        if fill(&mut self.file, &mut self.packed)? < self.packed.len() {
            return Err(Fault::CutOff.into());
        }
        self.position += (HEADER + self.packed.len()) as u64;
        self.number += 1;
        Ok(Some(header))
    }

    /// Unpacks the frame of this header, which was read last, into `contents`.
    pub(crate) fn unpack(&mut self, header: &Header, contents: &mut Vec<u8>) -> Result<(), Fault> {
        self.unpacker.unpack(&self.packed, header.length as usize, contents)
    }

    /// What is to be said when the frame under way ends the reading.
    pub(crate) fn error(&self, stop: Stop, events_before: u64) -> ReadError {
        match stop {
            Stop::Io(error) => ReadError::Io(error),
            Stop::Fault(fault) => ReadError::Damaged {
                // One that was not read to its end has not been counted.
                frame: if self.position == self.offset { self.number } else { self.number.saturating_sub(1) },
                offset: self.offset,
                events_before,
                what: fault.to_string(),
            },
        }
    }
}

/// Why reading ends.
pub(crate) enum Stop {
    Io(io::Error),
    Fault(Fault),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Reads until `bytes` is full or the file ends; returns how many bytes that were.
pub(crate) fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
