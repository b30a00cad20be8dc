//! Writes a trace incrementally.

use std::io::Write;

use crate::about::{self, About};
use crate::batch::{Batch, BatchRoom};
use crate::columns::{Columns, FRAME};
use crate::error::WriteError;
use crate::event::{Event, Kind};
use crate::frame::{self, Contents, Header, Packer};
use crate::number;
use crate::samples::{Sample, Samples};
use crate::side::SideColumns;
use crate::sites::{Definitions, SiteId};
use crate::texts;
use crate::touched;
use crate::{VERSION, reader};

/// The most bytes by which an event lengthens the columns, or a stream of times or sites: an opcode and three numbers.
const LARGEST_EVENT: usize = 1 + 3 * number::LONGEST;

/// Number of events for which room is made at first.
const LEAST_GRANT: usize = 256;

/// The shortest frame before compression that is begun below a limit of the file, in bytes.
const LEAST_ROOM: usize = 1 << 10;

/// Upper bound of what an entry of the index takes, in bytes.
const INDEX_ENTRY: u64 = 20;

/// Upper bound of what ends a trace besides names, texts and entries of the index: headers of frames, bytes that zstd
/// adds to contents that it cannot compress, and the mark of the end.
const END: u64 = 2 << 10;

/// Writes a trace. Memory: one frame, independent of the length of the trace, 16 bytes per frame for the index, and up
/// to 128 MiB for call sites if there are any.
///
/// A trace that is not [finished](Writer::finish) lacks its last frame and the index; the frames before are readable.
/// [`Writer::flush_frame`] ends a frame early, so that less is lost with a process that is killed.
pub struct Writer<W: Write> {
    file: W,
    packer: Packer,
    columns: Columns,
    /// The contents of the last frame of events: memory that is used again.
    contents: Vec<u8>,
    side: SideColumns,
    definitions: Definitions,
    /// Pages touched of blocks, not written yet.
    touched: Vec<u8>,
    /// Samples of the process, not written yet.
    samples: Samples,
    /// Names of stack frames that have not been written yet.
    names: Vec<u8>,
    /// The memory that all texts of the trace take, in bytes.
    text_bytes: usize,
    /// The texts that are written at the end.
    texts: About,
    /// The number of bytes written, in whole frames.
    written: u64,
    /// The limit of the file's length; `u64::MAX` for none.
    limit: u64,
    /// The length in bytes at which the open frame is written: less than [`FRAME`] near the limit.
    room: usize,
    /// Number of events for which there is room in the open frame, whatever they are.
    granted: usize,
    /// The number of the next block to be created.
    next: u64,
    /// The numbers of the first event and the first block of the current frame.
    first: (u64, u64),
    thread: u64,
    /// Each frame of events: its offset in the file, the number of its first event.
    frames: Vec<(u64, u64)>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`] if the texts exceed the limit of a trace, [`WriteError::Io`].
    pub fn new(file: W, about: &About) -> Result<Writer<W>, WriteError> {
        let mut writer = Writer {
            file,
            packer: Packer::new()?,
            columns: Columns::default(),
            contents: Vec::new(),
            side: SideColumns::default(),
            definitions: Definitions::default(),
            touched: Vec::new(),
            samples: Samples::default(),
            names: Vec::new(),
            text_bytes: 0,
            texts: About::default(),
            written: 0,
            limit: u64::MAX,
            room: FRAME,
            granted: 0,
            next: 0,
            first: (0, 0),
            thread: 0,
            frames: Vec::new(),
        };
        // In one write: a recorder that is killed here leaves the beginning of a trace, or nothing.
        writer.put(&[&reader::MAGIC[..], &VERSION.to_le_bytes()].concat())?;
        writer.count_text(about.cost())?;
        writer.put_frame(Contents::Texts, 0, &about.to_bytes())?;
        Ok(writer)
    }

    /// Limits the length of the file. An eighth of it is kept free for the names of stack frames, texts and the index;
    /// names beyond it are left out.
    ///
    /// Once the limit is reached, methods that add events return [`WriteError::LimitReached`], and the event is not in
    /// the trace. The trace can still be finished. A limit below 64 KiB, or one that the texts with which the trace
    /// begins exceed, leaves no room for events.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Writer<W> {
        self.limit = bytes;
        self.update_room();
        self
    }

    /// Compresses less where events come fast, so that compression takes some sixteenth of the time that passes. For
    /// the trace of a program that is running.
    #[must_use]
    pub fn keeping_up(mut self) -> Writer<W> {
        self.packer.keep_up();
        self
    }

    /// Returns the length of the file, which ends with a whole frame. After an error of writing, the file may be longer
    /// by a part of a frame.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of events in the valid part of the file.
    pub fn events_written(&self) -> u64 {
        self.first.0
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.first.0 + self.columns.events() as u64
    }

    /// Writes the events and samples added so far, so that a reader of the unfinished file finds them. Does nothing if
    /// there are none since the last frame.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn flush_frame(&mut self) -> Result<(), WriteError> {
        self.put_events()?;
        self.put_samples()
    }

    /// Returns the number of blocks so far, which is the number of the next one.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.next
    }

    /// Adds an allocation of `size` bytes; returns the number of the block.
    ///
    /// # Errors
    /// [`WriteError::BadAlignment`], [`WriteError::LimitReached`], [`WriteError::Io`].
    #[inline(always)]
    pub fn allocate(&mut self, kind: Kind, size: u64, align: u64) -> Result<u64, WriteError> {
        if !align.is_power_of_two() {
            return Err(WriteError::BadAlignment { align });
        }
        let block = self.next;
        self.push(Event::Allocate { block, kind, size, align })?;
        Ok(block)
    }

    /// Adds a resize of `block` to `size` bytes; returns the new number of the block.
    ///
    /// # Errors
    /// [`WriteError::NoSuchBlock`], [`WriteError::LimitReached`], [`WriteError::Io`].
    #[inline]
    pub fn resize(&mut self, block: u64, size: u64) -> Result<u64, WriteError> {
        self.require(block)?;
        let becomes = self.next;
        self.push(Event::Resize { block, becomes, size })?;
        Ok(becomes)
    }

    /// Adds a free of `block`.
    ///
    /// # Errors
    /// [`WriteError::NoSuchBlock`], [`WriteError::LimitReached`], [`WriteError::Io`].
    #[inline(always)]
    pub fn free(&mut self, block: u64) -> Result<(), WriteError> {
        self.require(block)?;
        self.push(Event::Free { block })
    }

    /// Sets the thread of the events that follow. A trace begins in thread 0.
    ///
    /// # Errors
    /// [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn in_thread(&mut self, thread: u64) -> Result<(), WriteError> {
        if thread == self.thread {
            return Ok(());
        }
        self.thread = thread;
        self.push(Event::Thread { thread })
    }

    /// Adds a request that failed.
    ///
    /// # Errors
    /// [`WriteError::BadAlignment`], [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn fail(&mut self, size: u64, align: u64) -> Result<(), WriteError> {
        if !align.is_power_of_two() {
            return Err(WriteError::BadAlignment { align });
        }
        self.push(Event::Failed { size, align })
    }

    /// Adds an event of another trace. The writer numbers new blocks itself and ignores their numbers in `event`.
    ///
    /// # Errors
    /// [`WriteError::NoSuchBlock`], [`WriteError::BadAlignment`], [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn add(&mut self, event: &Event) -> Result<(), WriteError> {
        match *event {
            Event::Allocate { kind, size, align, .. } => self.allocate(kind, size, align).map(drop),
            Event::Resize { block, size, .. } => self.resize(block, size).map(drop),
            Event::Free { block } => self.free(block),
            Event::Failed { size, align } => self.fail(size, align),
            Event::Thread { thread } => self.in_thread(thread),
        }
    }

    /// Begins a batch of events in the current thread. It is for no events when the next one has a time or a site that
    /// is set, or begins a frame.
    #[inline(always)]
    pub fn batch<'r>(&self, room: &'r mut BatchRoom) -> Batch<'r> {
        // The last event for which there is room is not the batch's: it may end the frame.
        let most = if self.side.is_idle() { self.granted.saturating_sub(1) } else { 0 };
        Batch::new(room, most, self.next)
    }

    /// Adds a batch of events. It is the writer's last batch, and nothing was added since.
    ///
    /// # Errors
    /// [`WriteError::NoSuchSite`].
    #[inline(always)]
    pub fn add_batch(&mut self, mut batch: Batch<'_>) -> Result<(), WriteError> {
        if batch.has_sites() {
            self.require_sites(batch.sites())?;
        }
        self.columns.push_batch(&batch);
        self.side.push_batch(&mut batch);
        self.granted -= batch.events();
        self.next = batch.next();
        Ok(())
    }

    fn require_sites(&self, sites: &[u32]) -> Result<(), WriteError> {
        match sites.iter().max().and_then(|site| site.checked_sub(1)) {
            Some(site) if site >= self.definitions.sites() => Err(WriteError::NoSuchSite { site }),
            _ => Ok(()),
        }
    }

    /// Sets the time of the events that follow, in nanoseconds since the beginning. An earlier time than the current
    /// one has no effect: time does not run backwards in a trace.
    pub fn at(&mut self, nanoseconds: u64) {
        self.side.at(nanoseconds);
    }

    /// Adds how many pages of a block the program touched. For blocks of several pages; of shorter ones it says nothing
    /// that a replay does not know.
    ///
    /// # Errors
    /// [`WriteError::NoSuchBlock`], [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn touched(&mut self, block: u64, pages: u64) -> Result<(), WriteError> {
        self.require(block)?;
        touched::put(&mut self.touched, block, pages);
        if self.touched.len() >= self.room { self.put_touched() } else { Ok(()) }
    }

    /// Adds a sample of the recorded process. Figures that never decrease count as those of the sample before if they
    /// are smaller.
    ///
    /// # Errors
    /// [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.samples.push(sample);
        if self.samples.length() >= self.room { self.put_samples() } else { Ok(()) }
    }

    /// Defines a call site by its stack frames, the innermost first, each a text such as `libfoo.so+0x1234`. Does not
    /// deduplicate: the same frames defined again are another site.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`], [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn define_site(&mut self, frames: &[&str]) -> Result<SiteId, WriteError> {
        let length: usize = frames.iter().map(|frame| frame.len() + 8).sum();
        if self.room < FRAME && length > self.room {
            return Err(WriteError::LimitReached { limit: self.limit });
        }
        let site = self.definitions.define(frames)?;
        if self.definitions.length() >= self.room {
            self.put_definitions()?;
        }
        Ok(site)
    }

    /// Returns how much of a trace's room for call sites is taken, in eighths, rounded down: what is defined while it
    /// is scarce should be short.
    #[must_use]
    pub fn eighths_of_sites(&self) -> usize {
        self.definitions.eighths()
    }

    /// Sets the call site of the next request (an allocation, a resize or a failure).
    ///
    /// # Errors
    /// [`WriteError::NoSuchSite`].
    pub fn from_site(&mut self, site: SiteId) -> Result<(), WriteError> {
        if !self.definitions.has(site) {
            return Err(WriteError::NoSuchSite { site: site.index() });
        }
        self.side.at_site(site);
        Ok(())
    }

    /// Adds the name of a stack frame: function, file, line.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`], [`WriteError::LimitReached`], [`WriteError::Io`].
    pub fn name_frame(&mut self, frame: &str, name: &str) -> Result<(), WriteError> {
        if !self.has_room_for_name(frame, name) {
            self.put_names()?;
            if !self.has_room_for_name(frame, name) {
                return Err(WriteError::LimitReached { limit: self.limit });
            }
        }
        self.definitions.count_name(frame, name)?;
        texts::put(&mut self.names, frame, name);
        if self.names.len() >= FRAME { self.put_names() } else { Ok(()) }
    }

    /// Adds a text to the metadata. It is written at the end of the file and replaces an earlier text of this name.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`].
    pub fn add_text(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        self.count_text(about::cost(name, text))?;
        self.texts.set(name, text);
        Ok(())
    }

    /// Writes the last frame and the index, and returns the file.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.write_end()?;
        Ok(self.file)
    }

    /// Writes the last frame and the index; nothing can be added afterwards. If it fails, [`Writer::written`] returns
    /// how much of the file is valid, unlike after [`Writer::finish`].
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn write_end(&mut self) -> Result<(), WriteError> {
        self.put_events()?;
        self.put_touched()?;
        self.put_samples()?;
        self.put_names()?;
        let texts = self.texts.to_bytes();
        self.put_unless_empty(Contents::Texts, 0, &texts)?;
        let mut index = Vec::new();
        for &(offset, event) in &self.frames {
            number::put(&mut index, offset);
            number::put(&mut index, event);
        }
        let at = self.written;
        // An index above the limit of a frame is left out: sequential reading does not need it.
        if index.len() <= frame::LONGEST {
            self.put_frame(Contents::Index, 0, &index)?;
            self.put(&at.to_le_bytes())?;
            self.put(reader::INDEXED)?;
        }
        Ok(self.file.flush()?)
    }

    /// Returns how many bytes may still be written before the limit, without `kept` bytes, the index and the end.
    fn rest(&self, kept: u64) -> u64 {
        if self.limit == u64::MAX {
            return u64::MAX;
        }
        let index = INDEX_ENTRY * (self.frames.len() as u64 + 2);
        self.limit.saturating_sub(kept + index + END + self.written)
    }

    fn has_room_for_name(&self, frame: &str, name: &str) -> bool {
        let length = self.names.len() + frame.len() + name.len() + 2;
        length as u64 <= self.rest(self.limit / 32 + self.texts.cost() as u64)
    }

    /// Determines the length of the next frame. Events, times, sites, definitions, pages and samples may each take
    /// as much.
    fn update_room(&mut self) {
        const STREAMS: u64 = 6;
        let rest = self.rest(self.limit / 8);
        self.room = ((rest - rest / 64) / STREAMS).min(FRAME as u64) as usize;
        if self.room < FRAME {
            self.granted = self.granted.min(1);
        }
    }

    /// Counts `length` bytes of texts; fails if they exceed the limit of a trace.
    fn count_text(&mut self, length: usize) -> Result<(), WriteError> {
        self.text_bytes = self.text_bytes.saturating_add(length);
        let limit = About::LIMIT;
        if self.text_bytes <= limit { Ok(()) } else { Err(WriteError::TooMuch { what: "texts", limit }) }
    }

    #[inline]
    fn require(&self, block: u64) -> Result<(), WriteError> {
        if block < self.next { Ok(()) } else { Err(WriteError::NoSuchBlock { block }) }
    }

    #[inline(always)]
    fn push(&mut self, event: Event) -> Result<(), WriteError> {
        if self.granted == 0 {
            match event {
                Event::Thread { .. } => self.begin_frame()?,
                _ => self.begin_frame_in_thread()?,
            }
        }
        self.put_into_columns(event);
        self.granted -= 1;
        // With `?`, the results of what is rare do not go through memory otherwise.
        if self.granted == 0 {
            self.go_on()?;
        }
        Ok(())
    }

    /// Writes the open frame if it is full, else determines for how many events there is room.
    #[inline(never)]
    fn go_on(&mut self) -> Result<(), WriteError> {
        if self.columns.length().max(self.side.length()) >= self.room {
            return self.put_events();
        }
        self.grant();
        Ok(())
    }

    /// Determines for how many events there is room in the open frame. Streams of times and sites that begin late grow
    /// by the events before at once, which the columns are longer than.
    fn grant(&mut self) {
        let length = self.columns.length().max(self.side.length());
        let most = (self.room.saturating_sub(length + 1) / LARGEST_EVENT).max(1);
        // Short traces take little memory.
        self.granted = most.min(LEAST_GRANT.max(self.columns.events()));
        // And one more: the thread of a frame is not counted.
        self.columns.reserve(self.granted + 1);
    }

    /// Begins a frame.
    #[inline(never)]
    fn begin_frame(&mut self) -> Result<(), WriteError> {
        if self.room < LEAST_ROOM {
            return Err(WriteError::LimitReached { limit: self.limit });
        }
        self.grant();
        Ok(())
    }

    /// Begins a frame whose first event is in the current thread. A frame must be readable on its own, and that
    /// includes its thread.
    #[inline(never)]
    fn begin_frame_in_thread(&mut self) -> Result<(), WriteError> {
        self.begin_frame()?;
        if self.thread != 0 {
            self.put_into_columns(Event::Thread { thread: self.thread });
            self.grant();
        }
        Ok(())
    }

    #[inline(always)]
    fn put_into_columns(&mut self, event: Event) {
        self.side.push(&event, self.columns.events());
        self.columns.push(event, &mut self.next);
    }

    #[inline(never)]
    fn put_events(&mut self) -> Result<(), WriteError> {
        if self.columns.events() == 0 {
            return Ok(());
        }
        let events = self.columns.events() as u32;
        // The index points before the side streams, because reading from this frame needs them.
        self.frames.push((self.written, self.first.0));
        self.put_definitions()?;
        self.put_touched()?;
        self.put_samples()?;
        let (times, sites) = (self.side.take_times(), self.side.take_sites());
        self.put_unless_empty(Contents::Times, events, &times)?;
        self.put_unless_empty(Contents::Sites, events, &sites)?;
        let after = (self.events(), self.next);
        let mut contents = std::mem::take(&mut self.contents);
        self.columns.take_bytes(&mut contents);
        self.granted = 0;
        let outcome = self.put_frame(Contents::Events, events, &contents);
        self.contents = contents;
        outcome?;
        self.first = after;
        Ok(())
    }

    fn put_definitions(&mut self) -> Result<(), WriteError> {
        if self.definitions.length() == 0 {
            return Ok(());
        }
        let contents = self.definitions.take_bytes();
        self.put_frame(Contents::Definitions, 0, &contents)
    }

    fn put_touched(&mut self) -> Result<(), WriteError> {
        let contents = std::mem::take(&mut self.touched);
        self.put_unless_empty(Contents::Touched, 0, &contents)
    }

    fn put_samples(&mut self) -> Result<(), WriteError> {
        let contents = self.samples.take_bytes();
        self.put_unless_empty(Contents::Samples, 0, &contents)
    }

    fn put_names(&mut self) -> Result<(), WriteError> {
        let contents = std::mem::take(&mut self.names);
        self.put_unless_empty(Contents::Names, 0, &contents)
    }

    fn put_unless_empty(&mut self, kind: Contents, events: u32, contents: &[u8]) -> Result<(), WriteError> {
        if contents.is_empty() { Ok(()) } else { self.put_frame(kind, events, contents) }
    }

    fn put_frame(&mut self, kind: Contents, events: u32, contents: &[u8]) -> Result<(), WriteError> {
        let header = Header {
            kind: kind as u32,
            first_event: self.first.0,
            first_block: self.first.1,
            events,
            length: contents.len() as u32,
            packed: 0,
        };
        let frame = self.packer.pack(header, contents)?;
        // One write: a process that is killed between two leaves half a frame.
        self.file.write_all(frame)?;
        self.written += frame.len() as u64;
        self.update_room();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    /// Returns the lengths of the frames of events of a trace, before compression.
    fn lengths_of_events(mut file: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        file = &file[reader::MAGIC.len() + VERSION.to_le_bytes().len()..];
        while let Some(Ok(header)) = file.first_chunk().map(Header::from_bytes) {
            if header.kind == Contents::Events as u32 {
                lengths.push(header.length as usize);
            }
            file = &file[frame::HEADER + header.packed as usize..];
        }
        lengths
    }

    #[test]
    fn a_frame_ends_with_the_event_that_fills_it() {
        for limit in [u64::MAX, 400 << 10] {
            let mut writer = Writer::new(Vec::new(), &About::default()).unwrap().with_limit(limit);
            let mut add = |number: u64| -> Result<(), WriteError> {
                let block = writer.allocate(Kind::Malloc, number * 977 % (1 << 40), 16)?;
                if number.is_multiple_of(3) { writer.free(block / 2) } else { Ok(()) }
            };
            let _limit_reached = (0..400_000).try_for_each(&mut add);
            let lengths = lengths_of_events(&writer.finish().unwrap());
            let (_, full) = lengths.split_last().unwrap();
            assert!(full.len() >= 2, "{lengths:?}");
            // The four lengths of the columns are in front of them.
            let longest = FRAME + LARGEST_EVENT + 4 * 4;
            assert!(full.iter().all(|&length| length < longest), "{lengths:?}");
            assert!(limit != u64::MAX || full.iter().all(|&length| length >= FRAME), "{lengths:?}");
        }
    }

    #[test]
    fn samples_that_go_back_in_a_later_frame_are_not_read() {
        let sample = |event| Sample { event, nanoseconds: event, ..Sample::default() };
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        for event in [5, 7, 6, 8] {
            let mut frame = Samples::default();
            frame.push(&sample(event));
            writer.put_frame(Contents::Samples, 0, &frame.take_bytes()).unwrap();
        }
        let (file, mut read) = (writer.finish().unwrap(), Vec::new());
        Reader::new(&file[..]).unwrap().each_sample(|sample| read.push(sample)).unwrap();
        assert_eq!(read, [sample(5), sample(7)]);
    }
}
