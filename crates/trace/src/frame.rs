//! Frames: compressed runs of events, each readable without the frames before it.
//!
//! ```text
//! 0   u32  "hwFR"
//! 4   u32  kind
//! 8   u64  number of the first event in the frame
//! 16  u64  number of the first block that the frame creates
//! 24  u32  number of events
//! 28  u32  length before compression, in bytes
//! 32  u32  length after this header, in bytes
//! 36  u32  CRC-32 of the header up to here
//! 40  a zstd frame with a checksum of its contents
//! ```

use std::io;
use std::time::Instant;

use crate::error::Fault;
use crate::pace::{Pace, THOROUGH};

pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"hwFR");
pub(crate) const HEADER: usize = 40;

/// The longest contents of a frame before compression, in bytes. Bounds the memory of a reader.
pub(crate) const LONGEST: usize = 4 << 20;

/// The kind of contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Texts = 0,
    Events = 1,
    Index = 2,
    Times = 3,
    Definitions = 4,
    Sites = 5,
    Names = 6,
    Touched = 7,
    Samples = 8,
}

impl Contents {
    /// Returns the contents that the header field `kind` names; `None` for a kind of a newer format.
    pub(crate) fn of_kind(kind: u32) -> Option<Contents> {
        use Contents::{Definitions, Events, Index, Names, Samples, Sites, Texts, Times, Touched};
        [Texts, Events, Index, Times, Definitions, Sites, Names, Touched, Samples]
            .into_iter()
            .find(|&contents| contents as u32 == kind)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) first_event: u64,
    pub(crate) first_block: u64,
    pub(crate) events: u32,
    pub(crate) length: u32,
    pub(crate) packed: u32,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first_event.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_block.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.events.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.length.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.packed.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; HEADER]) -> Result<Header, Fault> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(0) != MAGIC || word(36) != crc32fast::hash(&bytes[..36]) {
            return Err(Fault::Header);
        }
        let header = Header {
            kind: word(4),
            first_event: long(8),
            first_block: long(16),
            events: word(24),
            length: word(28),
            packed: word(32),
        };
        let bound = zstd::zstd_safe::compress_bound(header.length as usize);
        if header.length as usize > LONGEST || header.packed as usize > bound {
            return Err(Fault::TooLong);
        }
        Ok(header)
    }
}

/// Compresses frames one after the other and reuses its memory.
pub(crate) struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    /// The last frame: memory that is used again.
    frame: Vec<u8>,
    /// The level that is set.
    level: i32,
    /// Present if the level depends on the time.
    pace: Option<Pace>,
}

impl Packer {
    pub(crate) fn new() -> io::Result<Packer> {
        let mut zstd = zstd::bulk::Compressor::new(THOROUGH)?;
        zstd.include_checksum(true)?;
        Ok(Packer { zstd, frame: Vec::new(), level: THOROUGH, pace: None })
    }

    /// Compresses less where contents come fast, from now on.
    pub(crate) fn keep_up(&mut self) {
        self.pace = Some(Pace::from(Instant::now()));
    }

    /// Returns a frame: the header, whose length after compression this determines, and `contents`, compressed with a
    /// checksum.
    pub(crate) fn pack(&mut self, header: Header, contents: &[u8]) -> io::Result<&[u8]> {
        let level = self.pace.as_mut().map_or(THOROUGH, |pace| pace.level(contents.len(), Instant::now()));
        if level != self.level {
            self.zstd.set_compression_level(level)?;
            self.level = level;
        }
        let bound = HEADER + zstd::zstd_safe::compress_bound(contents.len());
        if self.frame.len() < bound {
            self.frame.resize(bound, 0);
        }
        let packed = self.zstd.compress_to_buffer(contents, &mut self.frame[HEADER..])?;
        self.frame[..HEADER].copy_from_slice(&Header { packed: packed as u32, ..header }.to_bytes());
        Ok(&self.frame[..HEADER + packed])
    }
}

/// Decompresses frames one after the other and reuses its memory.
pub(crate) struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Unpacker {
    pub(crate) fn new() -> io::Result<Unpacker> {
        Ok(Unpacker { zstd: zstd::bulk::Decompressor::new()? })
    }

    /// Decompresses `packed` into `contents`. Fails unless the result has `length` bytes, at most [`LONGEST`].
    pub(crate) fn unpack(&mut self, packed: &[u8], length: usize, contents: &mut Vec<u8>) -> Result<(), Fault> {
        contents.clear();
        contents.reserve(length);
        self.zstd.decompress_to_buffer(packed, contents).map_err(|_| Fault::Contents)?;
        if contents.len() == length { Ok(()) } else { Err(Fault::Contents) }
    }
}
