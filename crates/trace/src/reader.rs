//! Reads a trace sequentially.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::ops::ControlFlow;

use crate::VERSION;
use crate::about::About;
use crate::columns::Cursor;
use crate::error::{Fault, ReadError};
use crate::event::Event;
use crate::frame::{Contents, Header};
use crate::frames::{Frames, Stop, fill};
use crate::samples::{self, Sample};
use crate::side::Side;
use crate::sites::SiteId;
use crate::texts;
use crate::touched;

/// The first bytes of every trace.
pub(crate) const MAGIC: &[u8; 8] = b"hwtrace\0";
/// The last bytes of a trace that has an index. The offset of the index precedes them.
pub(crate) const INDEXED: &[u8; 8] = b"hwindex\0";
/// The bytes of a trace behind the frame of its index.
const AFTER_INDEX: u64 = (size_of::<u64>() + INDEXED.len()) as u64;

/// Reads a trace, event by event. Memory: one frame, at most 4 MiB even for a damaged file. [Times](Reader::with_times)
/// and [sites](Reader::with_sites) take as much again each, and up to 128 MiB for sites and the names of stack frames.
///
/// Frames that the caller did not ask for, and frames of unknown kinds, are skipped without decompressing them.
pub struct Reader<'r> {
    frames: Frames<'r>,
    about: About,
    events: Cursor,
    /// Present if the caller asked for times or sites.
    side: Option<Box<Side>>,
    /// The contents of the frame that was decompressed last.
    contents: Vec<u8>,
    /// The number of the next event, and of the next block to be created.
    next_event: u64,
    next_block: u64,
    ended: bool,
    finished: bool,
    on_damage: OnDamage,
    /// Why the events ended early.
    damage: Option<ReadError>,
}

/// Counts of the events of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of events without changes of threads.
    pub calls: u64,
    /// The number of blocks that are created, by allocation or by resizing.
    pub blocks: u64,
    /// The number of threads that make calls.
    pub threads: u64,
}

/// What a reader does when the trace is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDamage {
    /// Returns an error.
    Fail,
    /// Behaves as if the trace ended there.
    End,
}

impl<'r> Reader<'r> {
    /// Begins to read a trace.
    ///
    /// # Errors
    /// Any [`ReadError`]: the file cannot be read, is not a trace, is too new, or is damaged at its beginning.
    pub fn new(file: impl Read + Send + 'r) -> Result<Reader<'r>, ReadError> {
        Reader::of(Box::new(file))
    }

    fn of(mut file: Box<dyn Read + Send + 'r>) -> Result<Reader<'r>, ReadError> {
        let mut start = [0; 12];
        let filled = fill(&mut file, &mut start)?;
        if !start[..filled].starts_with(MAGIC) {
            return Err(ReadError::NotATrace);
        }
        if filled < start.len() {
            return Err(ReadError::Unfinished { events: 0 });
        }
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if version == 0 || version > VERSION {
            return Err(ReadError::Version { found: version });
        }
        let mut reader = Reader {
            frames: Frames::new(file, start.len() as u64)?,
            about: About::default(),
            events: Cursor::default(),
            side: None,
            contents: Vec::new(),
            next_event: 0,
            next_block: 0,
            ended: false,
            finished: false,
            on_damage: OnDamage::Fail,
            damage: None,
        };
        match reader.read_texts() {
            Ok(()) => Ok(reader),
            Err(stop) => Err(reader.end(stop)),
        }
    }

    /// Makes the reader read times, for [`Reader::time`].
    #[must_use]
    pub fn with_times(mut self) -> Reader<'r> {
        self.side.get_or_insert_default().wants_times = true;
        self
    }

    /// Makes the reader read call sites, for [`Reader::site`].
    #[must_use]
    pub fn with_sites(mut self) -> Reader<'r> {
        self.side.get_or_insert_default().wants_sites = true;
        self
    }

    /// Makes the reader treat damage as the end of the trace, for [`Reader::damage`].
    #[must_use]
    pub fn up_to_damage(mut self) -> Reader<'r> {
        self.on_damage = OnDamage::End;
        self
    }

    /// Returns why the events ended before the end of the trace, once they have ended; `None` if all were read, or if
    /// the caller did not ask for reading [up to the damage](Reader::up_to_damage).
    pub fn damage(&self) -> Option<&ReadError> {
        self.damage.as_ref()
    }

    /// Removes and returns what [`Reader::damage`] returns.
    pub fn take_damage(&mut self) -> Option<ReadError> {
        self.damage.take()
    }

    /// Returns the metadata of the trace. Texts at the end of the file are included once all events have been read.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns whether the reader has reached the end mark of the writer. A recording that was cut off has none.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the number of events that have been read.
    pub fn events_read(&self) -> u64 {
        self.next_event
    }

    /// Returns the number of calls of the program that have been read: events without changes of threads.
    pub fn calls_read(&self) -> u64 {
        self.next_event - self.events.changes()
    }

    /// Returns the next event that is a call of the program; `None` at the end.
    ///
    /// # Errors
    /// The errors of [`Reader::next_event`].
    pub fn next_call(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            match self.next_event()? {
                Some(event) if !event.is_call() => {}
                event => return Ok(event),
            }
        }
    }

    /// Returns the number of bytes of the file that have been read.
    pub fn bytes_read(&self) -> u64 {
        self.frames.position()
    }

    /// Returns the time of the event that was read last, in nanoseconds since the beginning; `None` if the trace has no
    /// times or the caller did not ask for [times](Reader::with_times).
    pub fn time(&self) -> Option<u64> {
        self.side.as_ref()?.time
    }

    /// Returns the call site of the request that was read last; `None` if the trace has none for it or the caller did
    /// not ask for [sites](Reader::with_sites).
    pub fn site(&self) -> Option<SiteId> {
        self.side.as_ref()?.site
    }

    /// Returns the number of sites defined so far.
    pub fn sites(&self) -> usize {
        self.side.as_ref().map_or(0, |side| side.table.len())
    }

    /// Returns all sites defined so far, in the order of their definition.
    pub fn all_sites(&self) -> impl Iterator<Item = SiteId> {
        let table = self.side.as_ref().map(|side| &side.table);
        table.into_iter().flat_map(|table| (0..table.len() as u64).filter_map(|number| table.site(number)))
    }

    /// Returns the stack frames of a site, the innermost first, each a text such as `libfoo.so+0x1234`.
    pub fn site_frames(&self, site: SiteId) -> impl Iterator<Item = &str> {
        self.side.iter().flat_map(move |side| side.table.frames(site))
    }

    /// Returns the numbers of the stack frames of a site, the innermost first; none if the site is not defined. Frames
    /// are numbered from 0 over the whole trace, and those of the same text have the same number.
    pub fn site_frame_numbers(&self, site: SiteId) -> &[u32] {
        self.side.as_ref().map_or(&[], |side| side.table.frame_numbers(site))
    }

    /// Returns the text of the stack frame of this number; empty if there is none.
    pub fn frame_text(&self, number: u32) -> &str {
        self.side.as_ref().map_or("", |side| side.table.text(number))
    }

    /// Returns the name of a stack frame: function, file, line. Names are stored at the end of a trace.
    pub fn frame_name(&self, frame: &str) -> Option<&str> {
        self.side.as_ref()?.table.name(frame)
    }

    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] names the damaged frame, [`ReadError::Io`]. After an error the reader is at its end.
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            match self.events.next_event(&mut self.next_block) {
                Ok(Some(event)) => {
                    if let Some(side) = &mut self.side
                        && let Err(fault) = side.advance(&event)
                    {
                        self.events.take_back(&event);
                        self.stop(fault.into())?;
                        return Ok(None);
                    }
                    self.next_event += 1;
                    return Ok(Some(event));
                }
                Ok(None) if self.ended => return Ok(None),
                Ok(None) => self.open_frame()?,
                Err(fault) => self.stop(fault.into())?,
            }
        }
    }

    /// Calls `visit` with each remaining event until it returns `Break`; the events after that one can still be read.
    ///
    /// Equivalent to repeated calls of [`Reader::next_event`], but faster: decoder and `visit` are compiled into one
    /// loop.
    ///
    /// # Errors
    /// The errors of [`Reader::next_event`].
    #[inline]
    pub fn try_for_each_event(
        &mut self,
        mut visit: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadError> {
        loop {
            match self.try_for_each_in_frame(&mut visit) {
                Ok(ControlFlow::Continue(())) if self.ended => return Ok(ControlFlow::Continue(())),
                Ok(ControlFlow::Continue(())) => self.open_frame()?,
                Ok(enough) => return Ok(enough),
                Err(fault) => self.stop(fault.into())?,
            }
        }
    }

    /// Does the same as [`Reader::try_for_each_event`] for the open frame. Keeps the per-event state in registers.
    #[inline(always)]
    fn try_for_each_in_frame(
        &mut self,
        mut visit: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Fault> {
        let mut events = std::mem::take(&mut self.events);
        let (mut next_event, mut next_block) = (self.next_event, self.next_block);
        let result = loop {
            match events.next_event(&mut next_block) {
                Ok(Some(event)) => {
                    if let Some(side) = &mut self.side
                        && let Err(fault) = side.advance(&event)
                    {
                        events.take_back(&event);
                        break Err(fault);
                    }
                    next_event += 1;
                    if visit(&event).is_break() {
                        break Ok(ControlFlow::Break(()));
                    }
                }
                Ok(None) => break Ok(ControlFlow::Continue(())),
                Err(fault) => break Err(fault),
            }
        };
        (self.events, self.next_event, self.next_block) = (events, next_event, next_block);
        result
    }

    /// Reads the remaining events and counts them, and the threads that make calls; the trace must not have been read
    /// before.
    ///
    /// # Errors
    /// The errors of [`Reader::next_event`].
    pub fn count_events(&mut self) -> Result<Counts, ReadError> {
        let mut counts = Counts::default();
        // A trace begins in thread 0. Its calls so far are those of the threads before.
        let (mut threads, mut thread, mut before) = (BTreeSet::new(), 0, 0);
        let _ = self.try_for_each_event(|event| {
            if let Event::Thread { thread: next } = *event {
                threads.extend((counts.calls > before).then_some(thread));
                (thread, before) = (next, counts.calls);
                return ControlFlow::Continue(());
            }
            counts.calls += 1;
            counts.blocks += u64::from(matches!(event, Event::Allocate { .. } | Event::Resize { .. }));
            ControlFlow::Continue(())
        })?;
        threads.extend((counts.calls > before).then_some(thread));
        counts.threads = threads.len() as u64;
        Ok(counts)
    }

    /// Reads the rest of the trace for the pages that were touched of long blocks, by the numbers of the blocks; skips
    /// everything else. A block that is missing is not known. Of a damaged trace, what precedes the damage counts: the
    /// reading of its events reports the damage.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn touched_pages(self) -> Result<HashMap<u64, u64>, ReadError> {
        let mut pages = HashMap::new();
        self.each_frame_of(Contents::Touched, |contents| {
            touched::each(contents, |block, touched| {
                pages.insert(block, touched);
            })
        })?;
        Ok(pages)
    }

    /// Reads the rest of the trace for samples of the recorded process and passes each to `take`, in their order; skips
    /// everything else. Events and times never decrease. Of a damaged trace, what precedes the damage counts.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn each_sample(self, mut take: impl FnMut(Sample)) -> Result<(), ReadError> {
        let mut latest = Sample::default();
        self.each_frame_of(Contents::Samples, |contents| {
            samples::each(contents, |sample| {
                if !sample.may_follow(&latest) {
                    return Err(Fault::Side);
                }
                latest = sample;
                take(sample);
                Ok(())
            })
        })
    }

    /// Passes the contents of every frame of this kind to `take`, up to the end or to damage.
    fn each_frame_of(
        mut self,
        kind: Contents,
        mut take: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), ReadError> {
        loop {
            match self.read_frame_of(kind, &mut take) {
                Ok(true) => {}
                Err(Stop::Io(error)) => return Err(ReadError::Io(error)),
                Ok(false) | Err(Stop::Fault(_)) => return Ok(()),
            }
        }
    }

    /// Reads the next frame if it is of this kind, or skips it; returns `false` at the end.
    fn read_frame_of(
        &mut self,
        kind: Contents,
        take: &mut impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<bool, Stop> {
        let Some(header) = self.frames.next_header()? else { return Ok(false) };
        match Contents::of_kind(header.kind) {
            Some(contents) if contents == kind => {
                self.frames.unpack(&header, &mut self.contents)?;
                take(&self.contents)?;
                Ok(true)
            }
            Some(Contents::Index) => Ok(false),
            _ => Ok(true),
        }
    }

    /// Reads the next frame, if there is one.
    #[cold]
    fn open_frame(&mut self) -> Result<(), ReadError> {
        self.read_frame().or_else(|stop| self.stop(stop))
    }

    fn read_frame(&mut self) -> Result<(), Stop> {
        if let Some(side) = &mut self.side {
            side.close()?;
        }
        let Some(header) = self.frames.next_header()? else {
            self.ended = true;
            if self.on_damage == OnDamage::End {
                self.damage = Some(ReadError::Unfinished { events: self.calls_read() });
            }
            return Ok(());
        };
        match Contents::of_kind(header.kind) {
            Some(Contents::Events) => self.open_events(&header)?,
            Some(Contents::Texts) => self.add_texts(&header)?,
            Some(Contents::Index) => self.finish()?,
            Some(contents) => self.read_side(&header, contents)?,
            None => {}
        }
        Ok(())
    }

    /// Ends the reading at the index, behind which only its offset and [`INDEXED`] should follow.
    fn finish(&mut self) -> io::Result<()> {
        (self.ended, self.finished) = (true, true);
        if self.on_damage == OnDamage::End {
            let behind = self.frames.count_rest()?.saturating_sub(AFTER_INDEX);
            self.damage = (behind > 0).then_some(ReadError::Followed { bytes: behind, events: self.calls_read() });
        }
        Ok(())
    }

    fn open_events(&mut self, header: &Header) -> Result<(), Fault> {
        if (header.first_event, header.first_block) != (self.next_event, self.next_block) {
            return Err(Fault::Order);
        }
        if let Some(side) = &mut self.side {
            side.open(header.first_event)?;
        }
        self.frames.unpack(header, &mut self.contents)?;
        self.events.refill(header.events, &self.contents)
    }

    /// Reads the texts with which every trace begins.
    fn read_texts(&mut self) -> Result<(), Stop> {
        let header = self.frames.next_header()?.ok_or(Fault::CutOff)?;
        if header.kind != Contents::Texts as u32 {
            return Err(Fault::Contents.into());
        }
        Ok(self.add_texts(&header)?)
    }

    fn add_texts(&mut self, header: &Header) -> Result<(), Fault> {
        self.frames.unpack(header, &mut self.contents)?;
        if self.about.add_bytes(&self.contents) { Ok(()) } else { Err(Fault::Texts) }
    }

    /// Reads a frame of a side stream if the caller asked for it.
    fn read_side(&mut self, header: &Header, contents: Contents) -> Result<(), Fault> {
        let Some(side) = &mut self.side else { return Ok(()) };
        let mut unpack = |bytes: &mut Vec<u8>| self.frames.unpack(header, bytes);
        match contents {
            Contents::Times if side.wants_times => side.refill_times(header.first_event, unpack),
            Contents::Sites if side.wants_sites => side.refill_sites(header.first_event, unpack),
            Contents::Definitions if side.wants_sites => {
                unpack(&mut self.contents)?;
                side.table.define(&self.contents)
            }
            Contents::Names if side.wants_sites => {
                unpack(&mut self.contents)?;
                side.table.name_frames(texts::pairs(&self.contents).ok_or(Fault::Texts)?)
            }
            _ => Ok(()),
        }
    }

    /// Ends the reading; returns the error of the current frame unless damage is only to be recorded.
    #[cold]
    fn stop(&mut self, stop: Stop) -> Result<(), ReadError> {
        match self.end(stop) {
            error @ ReadError::Damaged { .. } if self.on_damage == OnDamage::End => self.damage = Some(error),
            error => return Err(error),
        }
        Ok(())
    }

    /// Ends the reading and returns the error of the current frame.
    #[cold]
    fn end(&mut self, stop: Stop) -> ReadError {
        self.ended = true;
        self.events.clear();
        self.frames.error(stop, self.calls_read())
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}
