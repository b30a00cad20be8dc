//! Reading a trace from its front.

use std::io::Read;
use std::ops::ControlFlow;

use crate::VERSION;
use crate::about::About;
use crate::columns::Cursor;
use crate::error::{Fault, ReadError};
use crate::event::Event;
use crate::frame::{Contents, Header};
use crate::frames::{Frames, Stop, fill};
use crate::side::Side;
use crate::sites::SiteId;
use crate::texts;

/// The first bytes of every trace.
pub(crate) const MAGIC: &[u8; 8] = b"hwtrace\0";
/// The last bytes of a trace that has an index, behind the index's offset.
pub(crate) const INDEXED: &[u8; 8] = b"hwindex\0";

/// Reads a trace, event by event. Memory: one frame, at most 4 MiB, whatever the file says; with [times](Reader::with_times) or
/// [sites](Reader::with_sites) as much again for each, and up to 128 MiB for sites and the names of their stack frames.
///
/// Frames that are not wanted, or of kinds that are not known, are passed over without unpacking.
pub struct Reader<R: Read> {
    frames: Frames<R>,
    about: About,
    events: Cursor,
    /// Present when times or sites are wanted.
    side: Option<Box<Side>>,
    /// Of the frame that was unpacked last.
    contents: Vec<u8>,
    /// The number of the next event, and of the next block that appears.
    next_event: u64,
    next_block: u64,
    ended: bool,
    finished: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn new(mut file: R) -> Result<Reader<R>, ReadError> {
        let mut start = [0; 12];
        if fill(&mut file, &mut start)? < start.len() || start[..8] != *MAGIC {
            return Err(ReadError::NotATrace);
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
        };
        match reader.read_texts() {
            Ok(()) => Ok(reader),
            Err(stop) => Err(reader.end(stop)),
        }
    }

    /// Reads times too, where there are some: for [`Reader::time`].
    #[must_use]
    pub fn with_times(mut self) -> Reader<R> {
        self.side.get_or_insert_default().wants_times = true;
        self
    }

    /// Reads call sites too, where there are some: for [`Reader::site`].
    #[must_use]
    pub fn with_sites(mut self) -> Reader<R> {
        self.side.get_or_insert_default().wants_sites = true;
        self
    }

    /// What the trace tells besides events. Some of it may stand at the end, and is here when all events have been read.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether the end that was reached is the one that the writer set: a recording that was cut off has none.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// How many events have been read.
    pub fn events_read(&self) -> u64 {
        self.next_event
    }

    /// How many bytes of the file have been read.
    pub fn bytes_read(&self) -> u64 {
        self.frames.position()
    }

    /// When the event that was read last happened, in nanoseconds since the beginning; `None` when the trace does not tell,
    /// or [times](Reader::with_times) are not read.
    pub fn time(&self) -> Option<u64> {
        self.side.as_ref()?.time
    }

    /// From where the block of the event that was read last was asked for; `None` when the trace does not tell, or
    /// [sites](Reader::with_sites) are not read.
    pub fn site(&self) -> Option<SiteId> {
        self.side.as_ref()?.site
    }

    /// How many sites are defined in what has been read.
    pub fn sites(&self) -> usize {
        self.side.as_ref().map_or(0, |side| side.table.len())
    }

    /// The stack frames of a site, the innermost first, each a text such as `libfoo.so+0x1234`.
    pub fn site_frames(&self, site: SiteId) -> impl Iterator<Item = &str> {
        self.side.iter().flat_map(move |side| side.table.frames(site))
    }

    /// What is known of a stack frame: a function, a file, a line. Names stand at the end of a trace.
    pub fn frame_name(&self, frame: &str) -> Option<&str> {
        self.side.as_ref()?.table.name(frame)
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] names the frame; nothing can be read behind it. [`ReadError::Io`].
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            match self.events.next_event(&mut self.next_block) {
                Ok(Some(event)) => {
                    if let Some(side) = &mut self.side
                        && let Err(fault) = side.advance(&event)
                    {
                        return Err(self.end(fault.into()));
                    }
                    self.next_event += 1;
                    return Ok(Some(event));
                }
                Ok(None) if self.ended => return Ok(None),
                Ok(None) => self.open_frame()?,
                Err(fault) => return Err(self.end(fault.into())),
            }
        }
    }

    /// Calls `see` with every event that is left, until it breaks off; what is behind that event can still be read.
    ///
    /// As [`Reader::next_event`] event by event, but faster: compiled into one loop with what is done about the events.
    ///
    /// # Errors
    /// As [`Reader::next_event`].
    #[inline]
    pub fn try_for_each_event(
        &mut self,
        mut see: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadError> {
        loop {
            match self.try_for_each_in_frame(&mut see) {
                Ok(ControlFlow::Continue(())) if self.ended => return Ok(ControlFlow::Continue(())),
                Ok(ControlFlow::Continue(())) => self.open_frame()?,
                Ok(enough) => return Ok(enough),
                Err(fault) => return Err(self.end(fault.into())),
            }
        }
    }

    /// As [`Reader::try_for_each_event`] for the frame that is open. What changes with every event stays in registers.
    #[inline(always)]
    fn try_for_each_in_frame(
        &mut self,
        mut see: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Fault> {
        let mut events = std::mem::take(&mut self.events);
        let (mut next_event, mut next_block) = (self.next_event, self.next_block);
        let result = loop {
            match events.next_event(&mut next_block) {
                Ok(Some(event)) => {
                    if let Some(side) = &mut self.side
                        && let Err(fault) = side.advance(&event)
                    {
                        break Err(fault);
                    }
                    next_event += 1;
                    if see(&event).is_break() {
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

    /// Goes on to the next frame, if there is one.
    #[cold]
    fn open_frame(&mut self) -> Result<(), ReadError> {
        self.read_frame().map_err(|stop| self.end(stop))
    }

    fn read_frame(&mut self) -> Result<(), Stop> {
        if let Some(side) = &mut self.side {
            side.close()?;
        }
        let Some(header) = self.frames.next_header()? else {
            self.ended = true;
            return Ok(());
        };
        match Contents::of_kind(header.kind) {
            Some(Contents::Events) => self.open_events(&header)?,
            Some(Contents::Texts) => self.add_texts(&header)?,
            Some(Contents::Index) => (self.ended, self.finished) = (true, true),
            Some(contents) => self.read_side(&header, contents)?,
            None => {}
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

    /// Every trace begins with texts.
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

    /// Reads a frame of a side stream, if it is wanted.
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

    /// An error in the frame under way, after which nothing more is read.
    #[cold]
    fn end(&mut self, stop: Stop) -> ReadError {
        self.ended = true;
        self.events.clear();
        self.frames.error(stop, self.next_event)
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}
