//! The events of a frame as bytes: what is alike stands together, because it packs better so.
//!
//! ```text
//! lengths of the columns, as numbers | opcodes, a byte each | sizes | distances | the rest: alignments and threads
//! ```
//!
//! A block is named by its distance: how many blocks have appeared since, itself included. Programs free young blocks most
//! of all, so distances are short numbers.

use crate::error::Fault;
use crate::event::{Event, Kind, USUAL_ALIGN};
use crate::number;

const MALLOC: u8 = 0;
const CALLOC: u8 = 1;
const ALIGNED: u8 = 2;
const RESIZE: u8 = 3;
const FREE: u8 = 4;
const THREAD: u8 = 5;

/// Events on their way into a frame.
#[derive(Default)]
pub(crate) struct Columns {
    opcodes: Vec<u8>,
    sizes: Vec<u8>,
    distances: Vec<u8>,
    rest: Vec<u8>,
}

impl Columns {
    /// Adds an event; `next` is the number of the next block that appears, and becomes that of the one after this event.
    pub(crate) fn push(&mut self, event: Event, next: &mut u64) {
        match event {
            Event::Allocate { kind, size, align, .. } => {
                self.opcodes.push(match kind {
                    Kind::Malloc => MALLOC,
                    Kind::Calloc => CALLOC,
                    Kind::Aligned => ALIGNED,
                });
                number::put(&mut self.sizes, size);
                if kind == Kind::Aligned {
                    self.rest.push(align.trailing_zeros() as u8);
                }
                *next += 1;
            }
            Event::Resize { block, size, .. } => {
                self.opcodes.push(RESIZE);
                number::put(&mut self.distances, *next - block);
                number::put(&mut self.sizes, size);
                *next += 1;
            }
            Event::Free { block } => {
                self.opcodes.push(FREE);
                number::put(&mut self.distances, *next - block);
            }
            Event::Thread { thread } => {
                self.opcodes.push(THREAD);
                number::put(&mut self.rest, thread);
            }
        }
    }

    pub(crate) fn events(&self) -> usize {
        self.opcodes.len()
    }

    pub(crate) fn length(&self) -> usize {
        self.all().iter().map(|column| column.len()).sum()
    }

    fn all(&self) -> [&Vec<u8>; 4] {
        [&self.opcodes, &self.sizes, &self.distances, &self.rest]
    }

    /// The bytes of a frame's contents; the columns are empty afterwards.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length() + 16);
        self.all().iter().for_each(|column| number::put(&mut bytes, column.len() as u64));
        self.all().iter().for_each(|column| bytes.extend_from_slice(column));
        for column in [&mut self.opcodes, &mut self.sizes, &mut self.distances, &mut self.rest] {
            column.clear();
        }
        bytes
    }
}

/// Events on their way out of a frame.
#[derive(Default)]
pub(crate) struct Cursor {
    bytes: Vec<u8>,
    /// What is left of each column.
    columns: [std::ops::Range<usize>; 4],
}

impl Cursor {
    pub(crate) fn new(bytes: Vec<u8>, events: u32) -> Result<Cursor, Fault> {
        let mut rest = &bytes[..];
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = number::take(&mut rest).and_then(|length| usize::try_from(length).ok()).ok_or(Fault::Event)?;
        }
        let mut at = bytes.len() - rest.len();
        let mut columns = [const { 0..0 }; 4];
        for (column, length) in columns.iter_mut().zip(lengths) {
            let end = at.checked_add(length).filter(|&end| end <= bytes.len()).ok_or(Fault::Event)?;
            *column = at..end;
            at = end;
        }
        if at != bytes.len() || lengths[0] != events as usize {
            return Err(Fault::Event);
        }
        Ok(Cursor { bytes, columns })
    }

    /// A byte of the column, if one is left.
    fn byte(&mut self, column: usize) -> Option<u8> {
        let range = &mut self.columns[column];
        let byte = self.bytes[range.clone()].first().copied()?;
        range.start += 1;
        Some(byte)
    }

    #[inline]
    fn number(&mut self, column: usize) -> Option<u64> {
        let range = &mut self.columns[column];
        let mut rest = &self.bytes[range.clone()];
        let value = number::take(&mut rest)?;
        range.start = range.end - rest.len();
        Some(value)
    }

    fn size(&mut self) -> Result<u64, Fault> {
        self.number(1).ok_or(Fault::Event)
    }

    fn block(&mut self, next: u64) -> Result<u64, Fault> {
        let distance = self.number(2).filter(|&distance| distance != 0).ok_or(Fault::Event)?;
        next.checked_sub(distance).ok_or(Fault::Event)
    }

    /// The next event; `next` is the number of the next block that appears.
    pub(crate) fn next_event(&mut self, next: &mut u64) -> Result<Option<Event>, Fault> {
        let Some(opcode) = self.byte(0) else {
            // Nothing may be left over: it would belong to events that are not there.
            return if self.columns.iter().all(|column| column.is_empty()) { Ok(None) } else { Err(Fault::Event) };
        };
        let event = match opcode {
            MALLOC | CALLOC | ALIGNED => {
                let size = self.size()?;
                let (kind, align) = match opcode {
                    MALLOC => (Kind::Malloc, USUAL_ALIGN),
                    CALLOC => (Kind::Calloc, USUAL_ALIGN),
                    _ => (Kind::Aligned, 1 << self.byte(3).filter(|&log| log < 64).ok_or(Fault::Event)?),
                };
                *next += 1;
                Event::Allocate { block: *next - 1, kind, size, align }
            }
            RESIZE => {
                let block = self.block(*next)?;
                *next += 1;
                Event::Resize { block, becomes: *next - 1, size: self.size()? }
            }
            FREE => Event::Free { block: self.block(*next)? },
            THREAD => Event::Thread { thread: self.number(3).ok_or(Fault::Event)? },
            _ => return Err(Fault::Event),
        };
        Ok(Some(event))
    }
}
