//! The places of the blocks of a simulated heap, in a file, so that they are simulated once.
//!
//! One word of 32 bits per request: [`NONE`], [`KEPT`], [`APART`], behind which start and end follow with 64 bits each,
//! or else the granule at which a block of the length that is to be expected starts, plus [`FIRST`].

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use heapwright_placement::PolicyKind;

use crate::model::Model;

/// The bytes that are written or read at once.
const BUFFER: usize = 1 << 16;

/// The request has no block.
const NONE: u32 = 0;
/// The block is where it was.
const KEPT: u32 = 1;
/// Start and end follow.
const APART: u32 = 2;
const FIRST: u32 = 3;

/// The place of the block of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The request has no block.
    None,
    /// The block is where it was: the request to resize it was refused.
    Kept,
    /// The block starts and ends at these bytes, including header and rounding.
    At {
        /// The start.
        start: u64,
        /// The end.
        end: u64,
    },
}

/// How long a block usually is.
#[derive(Clone, Copy)]
struct Lengths {
    granule: u32,
    header: u64,
    policy: PolicyKind,
}

impl Lengths {
    fn of(model: &Model) -> Lengths {
        let rules = &model.rules;
        Lengths { granule: rules.granule.trailing_zeros(), header: u64::from(rules.header), policy: model.policy }
    }

    /// Returns the length that is to be expected of a block, in bytes.
    #[inline(always)]
    fn usual(self, size: u64) -> u64 {
        let granules = (size.max(1).saturating_add(self.header).saturating_sub(1) >> self.granule) + 1;
        let granules = if self.policy == PolicyKind::Buddy { granules.next_power_of_two() } else { granules };
        granules << self.granule
    }
}

/// Writes places.
pub(super) struct Journal {
    lengths: Lengths,
    file: BufWriter<File>,
}

impl Journal {
    pub(super) fn new(model: &Model, file: File) -> Journal {
        Journal { lengths: Lengths::of(model), file: BufWriter::with_capacity(BUFFER, file) }
    }

    /// Adds the place of the block of a request for `size` bytes.
    #[inline(always)]
    pub(super) fn push(&mut self, size: u64, place: Place) -> io::Result<()> {
        let word = match place {
            Place::None => NONE,
            Place::Kept => KEPT,
            Place::At { start, end } => {
                let granule = start >> self.lengths.granule;
                if end - start != self.lengths.usual(size) || granule > u64::from(u32::MAX - FIRST) {
                    return self.push_apart(start, end);
                }
                granule as u32 + FIRST
            }
        };
        self.file.write_all(&word.to_ne_bytes())
    }

    #[cold]
    fn push_apart(&mut self, start: u64, end: u64) -> io::Result<()> {
        self.file.write_all(&APART.to_ne_bytes())?;
        [start, end].iter().try_for_each(|number| self.file.write_all(&number.to_ne_bytes()))
    }

    /// Returns what reads the places from the first on.
    pub(super) fn finish(self) -> io::Result<Places> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Places { lengths: self.lengths, file: BufReader::with_capacity(BUFFER, file) })
    }
}

/// Reads places.
pub(super) struct Places {
    lengths: Lengths,
    file: BufReader<File>,
}

impl Places {
    /// Returns the place of the block of the next request, which is for `size` bytes.
    #[inline(always)]
    pub(super) fn next(&mut self, size: u64) -> io::Result<Place> {
        let mut word = [0; 4];
        self.file.read_exact(&mut word)?;
        Ok(match u32::from_ne_bytes(word) {
            NONE => Place::None,
            KEPT => Place::Kept,
            APART => Place::At { start: self.number()?, end: self.number()? },
            granule => {
                let start = u64::from(granule - FIRST) << self.lengths.granule;
                Place::At { start, end: start + self.lengths.usual(size) }
            }
        })
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut number = [0; 8];
        self.file.read_exact(&mut number)?;
        Ok(u64::from_ne_bytes(number))
    }
}
