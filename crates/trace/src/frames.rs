//! Reads the frames of a file in order.

use std::io::{self, Read};

use crate::error::{Fault, ReadError};
use crate::frame::{self, HEADER, Header};

/// Reads frames. Memory: one frame, compressed and decompressed, reused for the next.
pub(crate) struct Frames<'r> {
    file: Box<dyn Read + Send + 'r>,
    packed: Vec<u8>,
    unpacker: frame::Unpacker,
    /// The number of the current frame and its offset in the file.
    number: u64,
    offset: u64,
    /// The offset of the next frame in the file.
    position: u64,
}

impl<'r> Frames<'r> {
    /// Returns a reader of the frames that follow in `file`, whose first `position` bytes have been read.
    pub(crate) fn new(file: Box<dyn Read + Send + 'r>, position: u64) -> io::Result<Frames<'r>> {
        let unpacker = frame::Unpacker::new()?;
        Ok(Frames { file, packed: Vec::new(), unpacker, number: 0, offset: position, position })
    }

    /// Returns the number of bytes of the file that have been read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next frame and leaves it compressed; `None` at the end of the file.
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

    /// Reads the file to its end; returns the number of bytes that were left.
    pub(crate) fn count_rest(&mut self) -> io::Result<u64> {
        io::copy(&mut self.file, &mut io::sink())
    }

    /// Decompresses into `contents` the frame that was read last, whose header this is.
    pub(crate) fn unpack(&mut self, header: &Header, contents: &mut Vec<u8>) -> Result<(), Fault> {
        self.unpacker.unpack(&self.packed, header.length as usize, contents)
    }

    /// Returns the error to report when reading ends at the current frame.
    pub(crate) fn error(&self, stop: Stop, events_before: u64) -> ReadError {
        match stop {
            Stop::Io(error) => ReadError::Io(error),
            Stop::Fault(fault) => ReadError::Damaged {
                // A frame that was not read to its end has not been counted.
                frame: if self.position == self.offset { self.number } else { self.number.saturating_sub(1) },
                offset: self.offset,
                events_before,
                what: fault.to_string(),
            },
        }
    }
}

/// The reason why reading ends.
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

/// Reads until `bytes` is full or the file ends; returns the number of bytes read.
pub(crate) fn fill(file: &mut dyn Read, bytes: &mut [u8]) -> io::Result<usize> {
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
