//! Columnar encoding of the events of a frame: fields of one kind are stored together, because they compress better.
//!
//! ```text
//! lengths of the columns, as numbers | opcodes, a byte each | sizes | distances | the rest: alignments and threads
//! ```
//!
//! A block is named by its distance: the number of blocks created since, itself included. Programs mostly free young
//! blocks, so distances are small numbers.

use crate::batch::Batch;
use crate::encoded::Encoded;
use crate::error::Fault;
use crate::event::{DEFAULT_ALIGN, Event, Kind};
use crate::number;
use crate::opcodes::{ALIGNED, CALLOC, FAILED, FREE, MALLOC, RESIZE, THREAD};

/// The length in bytes of encoded events at which a frame is written.
pub(crate) const FRAME: usize = 1 << 20;

/// The encoder of the events of a frame.
#[derive(Default)]
pub(crate) struct Columns {
    opcodes: Encoded,
    sizes: Encoded,
    distances: Encoded,
    rest: Encoded,
}

impl Columns {
    /// Makes room for this number of events.
    pub(crate) fn reserve(&mut self, events: usize) {
        self.all_mut().into_iter().for_each(|column| column.reserve(events * number::LONGEST));
    }

    /// Adds an event, for which there is room. `next` is the number of the next block to be created, before and
    /// after this event.
    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event, next: &mut u64) {
        match event {
            Event::Allocate { kind, size, align, .. } => {
                self.opcodes.push(match kind {
                    Kind::Malloc => MALLOC,
                    Kind::Calloc => CALLOC,
                    Kind::Aligned => ALIGNED,
                });
                self.sizes.push_number(size);
                if kind == Kind::Aligned {
                    self.rest.push(align.trailing_zeros() as u8);
                }
                *next += 1;
            }
            Event::Resize { block, size, .. } => {
                self.opcodes.push(RESIZE);
                self.distances.push_number(*next - block);
                self.sizes.push_number(size);
                *next += 1;
            }
            Event::Free { block } => {
                self.opcodes.push(FREE);
                self.distances.push_number(*next - block);
            }
            Event::Failed { size, align } => {
                self.opcodes.push(FAILED);
                self.sizes.push_number(size);
                self.rest.push(align.trailing_zeros() as u8);
            }
            Event::Thread { thread } => {
                self.opcodes.push(THREAD);
                self.rest.push_number(thread);
            }
        }
    }

    /// Adds the events of a batch, for which there is room.
    #[inline(always)]
    pub(crate) fn push_batch(&mut self, batch: &Batch<'_>) {
        self.opcodes.push_bytes(batch.opcodes());
        self.sizes.push_bytes(batch.sizes());
        self.distances.push_bytes(batch.distances());
    }

    #[inline]
    pub(crate) fn events(&self) -> usize {
        self.opcodes.length()
    }

    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.all().iter().map(|column| column.length()).sum()
    }

    fn all(&self) -> [&Encoded; 4] {
        [&self.opcodes, &self.sizes, &self.distances, &self.rest]
    }

    fn all_mut(&mut self) -> [&mut Encoded; 4] {
        [&mut self.opcodes, &mut self.sizes, &mut self.distances, &mut self.rest]
    }

    /// Stores the contents of a frame in `bytes` and clears the columns.
    pub(crate) fn take_bytes(&mut self, bytes: &mut Vec<u8>) {
        bytes.clear();
        self.all().iter().for_each(|column| number::put(bytes, column.length() as u64));
        self.all().iter().for_each(|column| bytes.extend_from_slice(column.bytes()));
        self.all_mut().into_iter().for_each(|column| column.clear());
    }
}

/// A column of the frame that is being decoded.
#[derive(Default)]
struct Column {
    bytes: Vec<u8>,
    at: usize,
}

impl Column {
    /// Takes a column of this length off the front of `rest`.
    fn refill(&mut self, rest: &mut &[u8], length: u64) -> Result<(), Fault> {
        let length = usize::try_from(length).map_err(|_| Fault::Event)?;
        let (bytes, behind) = rest.split_at_checked(length).ok_or(Fault::Event)?;
        self.clear();
        self.bytes.extend_from_slice(bytes);
        *rest = behind;
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }

    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline(always)]
    fn number(&mut self) -> Result<u64, Fault> {
        number::take_at(&self.bytes, &mut self.at).ok_or(Fault::Event)
    }
}

/// The decoder of the events of a frame.
#[derive(Default)]
pub(crate) struct Cursor {
    opcodes: Column,
    sizes: Column,
    distances: Column,
    rest: Column,
    /// Changes of threads that were decoded, of all frames.
    changes: u64,
}

impl Cursor {
    /// Takes back that an event was read.
    #[cold]
    pub(crate) fn take_back(&mut self, event: &Event) {
        self.changes -= u64::from(matches!(event, Event::Thread { .. }));
    }

    /// Returns how many of the events of all frames were changes of threads.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Replaces the events by those of a frame: its contents and its event count.
    pub(crate) fn refill(&mut self, events: u32, contents: &[u8]) -> Result<(), Fault> {
        self.clear();
        let mut rest = contents;
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = number::take(&mut rest).ok_or(Fault::Event)?;
        }
        if lengths[0] != u64::from(events) {
            return Err(Fault::Event);
        }
        for (column, length) in self.all().into_iter().zip(lengths) {
            column.refill(&mut rest, length)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(Fault::Event) }
    }

    fn all(&mut self) -> [&mut Column; 4] {
        [&mut self.opcodes, &mut self.sizes, &mut self.distances, &mut self.rest]
    }

    /// Drops the events that are left.
    pub(crate) fn clear(&mut self) {
        self.all().into_iter().for_each(Column::clear);
    }

    /// Returns `None` at the end of the events; fails if a column has data left, which belongs to no event.
    #[cold]
    fn end(&self) -> Result<Option<Event>, Fault> {
        let used_up = self.sizes.is_empty() && self.distances.is_empty() && self.rest.is_empty();
        if used_up { Ok(None) } else { Err(Fault::Event) }
    }

    #[inline(always)]
    fn size(&mut self) -> Result<u64, Fault> {
        self.sizes.number()
    }

    #[inline(always)]
    fn block(&mut self, next: u64) -> Result<u64, Fault> {
        match self.distances.number()? {
            0 => Err(Fault::Event),
            distance => next.checked_sub(distance).ok_or(Fault::Event),
        }
    }

    fn align(&mut self) -> Result<u64, Fault> {
        let log = self.rest.byte().ok_or(Fault::Event)?;
        1u64.checked_shl(u32::from(log)).ok_or(Fault::Event)
    }

    /// Returns the next event and advances `next`, the number of the next block to be created.
    #[inline(always)]
    pub(crate) fn next_event(&mut self, next: &mut u64) -> Result<Option<Event>, Fault> {
        let Some(opcode) = self.opcodes.byte() else { return self.end() };
        let event = match opcode {
            MALLOC => self.allocation(Kind::Malloc, DEFAULT_ALIGN, next)?,
            CALLOC => self.allocation(Kind::Calloc, DEFAULT_ALIGN, next)?,
            ALIGNED => {
                let align = self.align()?;
                self.allocation(Kind::Aligned, align, next)?
            }
            RESIZE => {
                let block = self.block(*next)?;
                *next += 1;
                Event::Resize { block, becomes: *next - 1, size: self.size()? }
            }
            FREE => Event::Free { block: self.block(*next)? },
            THREAD => {
                let thread = self.rest.number()?;
                self.changes += 1;
                Event::Thread { thread }
            }
            FAILED => Event::Failed { size: self.size()?, align: self.align()? },
            _ => return Err(Fault::Event),
        };
        Ok(Some(event))
    }

    #[inline(always)]
    fn allocation(&mut self, kind: Kind, align: u64, next: &mut u64) -> Result<Event, Fault> {
        let size = self.size()?;
        *next += 1;
        Ok(Event::Allocate { block: *next - 1, kind, size, align })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of events, of which only operation codes are given.
    fn of_codes(codes: &[u8]) -> Cursor {
        let mut cursor = Cursor::default();
        let contents = [&[codes.len() as u8, 0, 0, 0][..], codes].concat();
        cursor.refill(codes.len() as u32, &contents).unwrap();
        cursor
    }

    #[test]
    fn a_change_of_threads_that_cannot_be_read_does_not_count() {
        let mut cursor = of_codes(&[THREAD]);
        assert!(cursor.next_event(&mut 0).is_err());
        assert_eq!(cursor.changes(), 0);
    }
}
