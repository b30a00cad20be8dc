//! The events of a trace, to be replayed often.

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use heapwright_trace::{Event, Kind, ReadError, Reader};

use crate::error::ReplayError;

/// The events of a trace, to be replayed often: held in memory, some 8 bytes each, or else read anew each time.
///
/// What no heap notices is left out (threads, requests that failed when the trace was recorded, by which kind of call a
/// block was asked for).
///
/// ```
/// use heapwright_placement::PolicyKind;
/// use heapwright_replay::{Model, Recording};
/// use heapwright_trace::{Event, Kind};
///
/// let request = |block, size| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
/// let recording = Recording::of([request(0, 500), Event::Free { block: 0 }, request(1, 1000)]);
/// let model = Model { capacity: 1008, ..Model::usual(PolicyKind::First) };
/// assert!(recording.fits(&model)?);
/// assert!(!recording.fits(&Model { capacity: 992, ..model })?);
/// # Ok::<(), heapwright_replay::ReplayError>(())
/// ```
pub struct Recording {
    source: Source,
}

enum Source {
    Held(Vec<u64>),
    File(PathBuf),
}

/// What a packed word is, in its two lowest bits.
const ALLOCATE: u64 = 0;
const FREE: u64 = 1;
const RESIZE: u64 = 2;
/// Where a request's alignment and size lie in its word, and a block's number in that of its end.
const ALIGN: u32 = 2;
const SIZE: u32 = 8;
const BLOCK: u32 = 2;

impl Recording {
    /// The events of the trace at `path`. They are held in memory if that takes at most `room` bytes.
    ///
    /// # Errors
    /// [`ReplayError::Trace`].
    pub fn open(path: &Path, room: usize) -> Result<Recording, ReplayError> {
        let mut words = Vec::new();
        let mut reader = begin(path)?;
        while let Some(event) = reader.next_event()? {
            if pack(&event, &mut words).is_none() || words.len() > room / size_of::<u64>() {
                return Ok(Recording { source: Source::File(path.to_owned()) });
            }
        }
        words.shrink_to_fit();
        Ok(Recording { source: Source::Held(words) })
    }

    /// These events, held in memory. Their blocks must be numbered as in a trace: from 0 as they appear. A request for
    /// 2^56 bytes or more is taken as one for 2^56 - 1, which no heap grants either.
    #[must_use]
    pub fn of(events: impl IntoIterator<Item = Event>) -> Recording {
        let mut words = Vec::new();
        for mut event in events {
            if let Event::Allocate { size, .. } = &mut event {
                *size = (*size).min((1 << (u64::BITS - SIZE)) - 1);
            }
            let packed = pack(&event, &mut words);
            debug_assert!(packed.is_some(), "no trace has 2^62 blocks");
        }
        Recording { source: Source::Held(words) }
    }

    /// Whether the events are in memory.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.source, Source::Held(_))
    }

    /// How many bytes of memory the events take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if let Source::Held(words) = &self.source { words.capacity() * size_of::<u64>() } else { 0 }
    }

    /// Calls `see` with every event, until it breaks off.
    ///
    /// # Errors
    /// [`ReplayError::Trace`].
    pub fn try_for_each(&self, mut see: impl FnMut(&Event) -> ControlFlow<()>) -> Result<ControlFlow<()>, ReplayError> {
        match &self.source {
            Source::Held(words) => Ok(Unpacked { words, next: 0 }.try_for_each(|event| see(&event))),
            Source::File(path) => Ok(begin(path)?.try_for_each_event(see)?),
        }
    }
}

fn begin(path: &Path) -> Result<Reader<BufReader<File>>, ReadError> {
    Reader::new(BufReader::new(File::open(path)?))
}

/// Adds an event to packed ones; `None` when a number in it is too large for that.
fn pack(event: &Event, words: &mut Vec<u64>) -> Option<()> {
    let above = |number: u64, bit: u32| (number >> (u64::BITS - bit) == 0).then(|| number << bit);
    match *event {
        Event::Allocate { size, align, .. } => {
            words.push(above(size, SIZE)? | u64::from(align.trailing_zeros()) << ALIGN | ALLOCATE);
        }
        Event::Free { block } => words.push(above(block, BLOCK)? | FREE),
        Event::Resize { block, size, .. } => words.extend([above(block, BLOCK)? | RESIZE, size]),
        _ => {}
    }
    Some(())
}

/// Packed events on their way out.
struct Unpacked<'w> {
    words: &'w [u64],
    /// The number of the next block that appears.
    next: u64,
}

impl Unpacked<'_> {
    #[inline(always)]
    fn word(&mut self) -> Option<u64> {
        let (&word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    #[inline(always)]
    fn appears(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

impl Iterator for Unpacked<'_> {
    type Item = Event;

    #[inline(always)]
    fn next(&mut self) -> Option<Event> {
        let word = self.word()?;
        Some(match word & 3 {
            ALLOCATE => Event::Allocate {
                block: self.appears(),
                kind: Kind::Malloc,
                size: word >> SIZE,
                align: 1 << (word >> ALIGN & 63),
            },
            FREE => Event::Free { block: word >> BLOCK },
            _ => Event::Resize { block: word >> BLOCK, size: self.word()?, becomes: self.appears() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(recording: &Recording) -> Vec<Event> {
        let mut events = Vec::new();
        let end = recording.try_for_each(|event| {
            events.push(*event);
            ControlFlow::Continue(())
        });
        assert!(end.unwrap().is_continue());
        events
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let events = [
            Event::Allocate { block: 0, kind: Kind::Malloc, size: (1 << 56) - 1, align: 1 << 63 },
            Event::Resize { block: 0, becomes: 1, size: u64::MAX },
            Event::Allocate { block: 2, kind: Kind::Malloc, size: 0, align: 1 },
            Event::Free { block: 1 },
            Event::Free { block: (1 << 62) - 1 },
        ];
        assert_eq!(all(&Recording::of(events)), events);
    }

    #[test]
    fn a_reader_that_has_enough_is_left_alone() {
        let recording = Recording::of([Event::Free { block: 0 }, Event::Free { block: 1 }]);
        let mut seen = 0;
        let end = recording.try_for_each(|_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert!(end.unwrap().is_break() && seen == 1);
    }
}
