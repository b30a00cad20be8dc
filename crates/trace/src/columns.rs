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
const FAILED: u8 = 6;

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
            Event::Failed { size, align } => {
                self.opcodes.push(FAILED);
                number::put(&mut self.sizes, size);
                self.rest.push(align.trailing_zeros() as u8);
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

/// A column of a frame that is being read: what is left of it.
#[derive(Clone, Copy, Default)]
struct Column {
    at: usize,
    end: usize,
}

impl Column {
    fn is_empty(self) -> bool {
        self.at == self.end
    }

    #[inline]
    fn byte(&mut self, bytes: &[u8]) -> Result<u8, Fault> {
        if self.at >= self.end {
            return Err(Fault::Event);
        }
        let byte = *bytes.get(self.at).ok_or(Fault::Event)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn number(&mut self, bytes: &[u8]) -> Result<u64, Fault> {
        let mut rest = bytes.get(self.at..self.end).ok_or(Fault::Event)?;
        let number = number::take(&mut rest).ok_or(Fault::Event)?;
        self.at = self.end - rest.len();
        Ok(number)
    }
}

/// Events on their way out of a frame.
#[derive(Default)]
pub(crate) struct Cursor {
    bytes: Vec<u8>,
    opcodes: Column,
    sizes: Column,
    distances: Column,
    rest: Column,
}

impl Cursor {
    /// Goes on to the events that `fill` puts into the memory of the last ones, so many of them.
    pub(crate) fn refill(
        &mut self,
        events: u32,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.clear();
        fill(&mut self.bytes)?;
        let mut rest = &self.bytes[..];
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = number::take(&mut rest).and_then(|length| usize::try_from(length).ok()).ok_or(Fault::Event)?;
        }
        let mut at = self.bytes.len() - rest.len();
        let mut columns = [Column::default(); 4];
        for (column, length) in columns.iter_mut().zip(lengths) {
            let end = at.checked_add(length).filter(|&end| end <= self.bytes.len()).ok_or(Fault::Event)?;
            *column = Column { at, end };
            at = end;
        }
        if at != self.bytes.len() || lengths[0] != events as usize {
            return Err(Fault::Event);
        }
        [self.opcodes, self.sizes, self.distances, self.rest] = columns;
        Ok(())
    }

    /// Forgets what is left.
    pub(crate) fn clear(&mut self) {
        [self.opcodes, self.sizes, self.distances, self.rest] = [Column::default(); 4];
    }

    /// Whether all columns are used up, as they are behind the last event.
    fn is_empty(&self) -> bool {
        [self.opcodes, self.sizes, self.distances, self.rest].iter().all(|column| column.is_empty())
    }

    #[inline]
    fn size(&mut self) -> Result<u64, Fault> {
        self.sizes.number(&self.bytes)
    }

    #[inline]
    fn block(&mut self, next: u64) -> Result<u64, Fault> {
        match self.distances.number(&self.bytes)? {
            0 => Err(Fault::Event),
            distance => next.checked_sub(distance).ok_or(Fault::Event),
        }
    }

    fn align(&mut self) -> Result<u64, Fault> {
        let log = self.rest.byte(&self.bytes)?;
        1u64.checked_shl(u32::from(log)).ok_or(Fault::Event)
    }

    /// The next event; `next` is the number of the next block that appears.
    #[inline]
    pub(crate) fn next_event(&mut self, next: &mut u64) -> Result<Option<Event>, Fault> {
        if self.opcodes.is_empty() {
            // Nothing may be left over: it would belong to events that are not there.
            return if self.is_empty() { Ok(None) } else { Err(Fault::Event) };
        }
        let event = match self.opcodes.byte(&self.bytes)? {
            MALLOC => self.appear(Kind::Malloc, USUAL_ALIGN, next)?,
            CALLOC => self.appear(Kind::Calloc, USUAL_ALIGN, next)?,
            ALIGNED => {
                let align = self.align()?;
                self.appear(Kind::Aligned, align, next)?
            }
            RESIZE => {
                let block = self.block(*next)?;
                *next += 1;
                Event::Resize { block, becomes: *next - 1, size: self.size()? }
            }
            FREE => Event::Free { block: self.block(*next)? },
            THREAD => Event::Thread { thread: self.rest.number(&self.bytes)? },
            FAILED => Event::Failed { size: self.size()?, align: self.align()? },
            _ => return Err(Fault::Event),
        };
        Ok(Some(event))
    }

    #[inline]
    fn appear(&mut self, kind: Kind, align: u64, next: &mut u64) -> Result<Event, Fault> {
        let size = self.size()?;
        *next += 1;
        Ok(Event::Allocate { block: *next - 1, kind, size, align })
    }
}
