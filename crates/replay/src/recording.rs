//! The events of a trace, for many replays.

use std::fs::{File, Metadata};
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use heapwright_trace::{Event, Kind, ReadError, Reader};

use crate::error::ReplayError;

/// The events of a trace, for many replays: kept in memory at some 8 bytes each, or read from the file each time.
///
/// Leaves out what does not affect placement: kinds of calls, the numbers of threads, and the sizes of requests that
/// failed in the program.
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
    source: EventSource,
    damage: Option<ReadError>,
    incomplete: Option<String>,
}

enum EventSource {
    /// The encoded events.
    Memory(Vec<u64>),
    /// A file, and the length that is read: it may be written still.
    File(PathBuf, u64),
}

/// The kinds of an encoded word, in its two lowest bits.
const ALLOCATE: u64 = 0;
const FREE: u64 = 1;
const RESIZE: u64 = 2;
/// An event that changes no block.
const OTHER: u64 = 3;

/// Marks an [`OTHER`] that is a change of threads.
const CHANGE: u64 = 4;
/// The bit positions of the alignment and size of a request, and of the block number of a free or resize.
const ALIGN: u32 = 2;
const SIZE: u32 = 8;
const BLOCK: u32 = 2;

impl Recording {
    /// Opens the trace at `path`, which is read up to damage if there is any. Its events are kept in memory if they
    /// take at most `room` bytes.
    ///
    /// # Errors
    /// [`ReplayError::Trace`].
    pub fn open(path: &Path, room: usize) -> Result<Recording, ReplayError> {
        let mut words = Vec::new();
        let file = File::open(path).map_err(ReadError::from)?;
        let length = file.metadata().ok().filter(Metadata::is_file).map_or(u64::MAX, |found| found.len());
        let mut reader = begin(file, length)?;
        let mut is_too_long = false;
        while let Some(event) = reader.next_event()? {
            if !is_too_long {
                is_too_long = encode(&event, &mut words).is_none() || words.len() > room / size_of::<u64>();
            }
        }
        words.shrink_to_fit();
        let source = if is_too_long { EventSource::File(path.to_owned(), length) } else { EventSource::Memory(words) };
        let incomplete = reader.about().incomplete().map(str::to_owned);
        Ok(Recording { source, damage: reader.take_damage(), incomplete })
    }

    /// Returns why these are not all events of the trace.
    #[must_use]
    pub fn damage(&self) -> Option<&ReadError> {
        self.damage.as_ref()
    }

    /// Returns why the recording ended before the program did, if it did so.
    #[must_use]
    pub fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// Returns a recording of these events, in memory. Their blocks must be numbered as in a trace, from 0 in the order
    /// of creation. A request for 2^56 bytes or more is stored as 2^56 - 1 bytes, which exceeds every heap too.
    #[must_use]
    pub fn of(events: impl IntoIterator<Item = Event>) -> Recording {
        let mut words = Vec::new();
        for mut event in events {
            if let Event::Allocate { size, .. } = &mut event {
                *size = (*size).min((1 << (u64::BITS - SIZE)) - 1);
            }
            let encoded = encode(&event, &mut words);
            debug_assert!(encoded.is_some(), "no trace has 2^62 blocks");
        }
        Recording { source: EventSource::Memory(words), damage: None, incomplete: None }
    }

    /// Returns whether the events are in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.source, EventSource::Memory(_))
    }

    /// Returns the memory that the events take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if let EventSource::Memory(words) = &self.source { words.capacity() * size_of::<u64>() } else { 0 }
    }

    /// Calls `visit` with each event until it returns `Break`.
    ///
    /// # Errors
    /// [`ReplayError::Trace`].
    pub fn try_for_each(
        &self,
        mut visit: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReplayError> {
        match &self.source {
            EventSource::Memory(words) => Ok(Decoder { words, next: 0 }.try_for_each(|event| visit(&event))),
            EventSource::File(path, length) => Ok(begin(File::open(path)?, *length)?.try_for_each_event(visit)?),
        }
    }
}

fn begin(file: File, length: u64) -> Result<Reader<'static>, ReadError> {
    Ok(Reader::new(BufReader::new(file.take(length)))?.up_to_damage())
}

/// Appends the encoding of an event; returns `None` if a number in it is too large.
fn encode(event: &Event, words: &mut Vec<u64>) -> Option<()> {
    let above = |number: u64, bit: u32| (number >> (u64::BITS - bit) == 0).then(|| number << bit);
    match *event {
        Event::Allocate { kind, size, align, .. } => {
            let named = kind.named_align(align);
            words.push(above(size, SIZE)? | u64::from(named.trailing_zeros()) << ALIGN | ALLOCATE);
        }
        Event::Free { block } => words.push(above(block, BLOCK)? | FREE),
        Event::Resize { block, size, .. } => words.extend([above(block, BLOCK)? | RESIZE, size]),
        Event::Failed { .. } => words.push(OTHER),
        Event::Thread { .. } => words.push(OTHER | CHANGE),
    }
    Some(())
}

/// An iterator over encoded events.
struct Decoder<'w> {
    words: &'w [u64],
    /// The number of the next block to be created.
    next: u64,
}

impl Decoder<'_> {
    #[inline(always)]
    fn word(&mut self) -> Option<u64> {
        let (&word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    #[inline(always)]
    fn new_block(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

impl Iterator for Decoder<'_> {
    type Item = Event;

    #[inline(always)]
    fn next(&mut self) -> Option<Event> {
        let word = self.word()?;
        Some(match word & 3 {
            ALLOCATE => Event::Allocate {
                block: self.new_block(),
                kind: Kind::Aligned,
                size: word >> SIZE,
                align: 1 << (word >> ALIGN & 63),
            },
            FREE => Event::Free { block: word >> BLOCK },
            OTHER if word & CHANGE != 0 => Event::Thread { thread: 0 },
            OTHER => Event::Failed { size: 0, align: 1 },
            _ => Event::Resize { block: word >> BLOCK, size: self.word()?, becomes: self.new_block() },
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
    fn encoded_events_round_trip() {
        let events = [
            Event::Allocate { block: 0, kind: Kind::Aligned, size: (1 << 56) - 1, align: 1 << 63 },
            Event::Resize { block: 0, becomes: 1, size: u64::MAX },
            Event::Allocate { block: 2, kind: Kind::Aligned, size: 0, align: 1 },
            Event::Free { block: 1 },
            Event::Failed { size: 0, align: 1 },
            Event::Free { block: (1 << 62) - 1 },
        ];
        assert_eq!(all(&Recording::of(events)), events);
    }

    #[test]
    fn of_the_kind_of_a_request_it_is_kept_whether_it_names_an_alignment() {
        let kinds = [Kind::Malloc, Kind::Calloc, Kind::Aligned];
        let request = |kind| Event::Allocate { block: 0, kind, size: 8, align: 16 };
        let named = |event: &Event| match *event {
            Event::Allocate { kind, align, .. } => kind.named_align(align),
            _ => 0,
        };
        let kept: Vec<u64> = all(&Recording::of(kinds.map(request))).iter().map(named).collect();
        assert_eq!(kept, [1, 1, 16]);
    }

    #[test]
    fn iteration_stops_at_break() {
        let recording = Recording::of([Event::Free { block: 0 }, Event::Free { block: 1 }]);
        let mut visited = 0;
        let end = recording.try_for_each(|_| {
            visited += 1;
            ControlFlow::Break(())
        });
        assert!(end.unwrap().is_break() && visited == 1);
    }
}
