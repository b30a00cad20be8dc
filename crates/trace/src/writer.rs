//! Writing a trace as it comes.

use std::io::Write;

use crate::about::{self, About};
use crate::columns::Columns;
use crate::error::WriteError;
use crate::event::{Event, Kind};
use crate::frame::{self, Contents, Header, Packer};
use crate::number;
use crate::side::SideColumns;
use crate::sites::{Definitions, SiteId};
use crate::texts;
use crate::{VERSION, reader};

/// A frame is written when its events take this many bytes.
const FRAME: usize = 1 << 20;

/// Writes a trace. Memory: one frame, whatever the trace's length, 16 bytes per frame for the index, and up to 128 MiB for
/// call sites where there are some.
///
/// What is not [finished](Writer::finish) lacks its last frame and the index, and can be read up to there.
pub struct Writer<W: Write> {
    file: W,
    packer: Packer,
    columns: Columns,
    side: SideColumns,
    definitions: Definitions,
    /// Names of stack frames, for the end.
    names: Vec<u8>,
    /// All texts, and those that are written at the end.
    told: usize,
    texts: About,
    /// Bytes written.
    written: u64,
    events: u64,
    /// The number of the next block that appears.
    next: u64,
    /// What the frame under way began with.
    first: (u64, u64),
    thread: u64,
    /// Where each frame of events begins: offset in the file, number of its first event.
    frames: Vec<(u64, u64)>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`] when the texts are more than a trace may hold, [`WriteError::Io`].
    pub fn new(file: W, about: &About) -> Result<Writer<W>, WriteError> {
        let mut writer = Writer {
            file,
            packer: Packer::new()?,
            columns: Columns::default(),
            side: SideColumns::default(),
            definitions: Definitions::default(),
            names: Vec::new(),
            told: 0,
            texts: About::default(),
            written: 0,
            events: 0,
            next: 0,
            first: (0, 0),
            thread: 0,
            frames: Vec::new(),
        };
        writer.put(reader::MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.tell(about.cost())?;
        writer.put_frame(Contents::Texts, 0, &about.to_bytes())?;
        Ok(writer)
    }

    /// A block appears; returns its number.
    ///
    /// # Errors
    /// [`WriteError::BadAlignment`] for [`Kind::Aligned`], [`WriteError::Io`].
    pub fn allocate(&mut self, kind: Kind, size: u64, align: u64) -> Result<u64, WriteError> {
        if !align.is_power_of_two() {
            return Err(WriteError::BadAlignment { align });
        }
        let block = self.next;
        self.push(Event::Allocate { block, kind, size, align })?;
        Ok(block)
    }

    /// A block becomes another; returns that one's number.
    ///
    /// # Errors
    /// [`WriteError::NoSuchBlock`], [`WriteError::Io`].
    pub fn resize(&mut self, block: u64, size: u64) -> Result<u64, WriteError> {
        self.require(block)?;
        let becomes = self.next;
        self.push(Event::Resize { block, becomes, size })?;
        Ok(becomes)
    }

    /// A block goes.
    ///
    /// # Errors
    /// [`WriteError::NoSuchBlock`], [`WriteError::Io`].
    pub fn free(&mut self, block: u64) -> Result<(), WriteError> {
        self.require(block)?;
        self.push(Event::Free { block })
    }

    /// What follows happens in this thread; a trace begins in thread 0.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn in_thread(&mut self, thread: u64) -> Result<(), WriteError> {
        if thread == self.thread {
            return Ok(());
        }
        self.thread = thread;
        self.push(Event::Thread { thread })
    }

    /// A block is asked for and refused.
    ///
    /// # Errors
    /// [`WriteError::BadAlignment`], [`WriteError::Io`].
    pub fn fail(&mut self, size: u64, align: u64) -> Result<(), WriteError> {
        if !align.is_power_of_two() {
            return Err(WriteError::BadAlignment { align });
        }
        self.push(Event::Failed { size, align })
    }

    /// What follows happens this many nanoseconds after the beginning. Time does not run backwards in a trace: what is earlier
    /// than what was told before is taken for the same.
    pub fn at(&mut self, nanoseconds: u64) {
        self.side.at(nanoseconds);
    }

    /// Defines a call site by its stack frames, the innermost first, each a text such as `libfoo.so+0x1234`. The same frames
    /// again are another site: whoever writes knows which are the same.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`], [`WriteError::Io`].
    pub fn define_site(&mut self, frames: &[&str]) -> Result<SiteId, WriteError> {
        let site = self.definitions.define(frames)?;
        if self.definitions.length() >= FRAME {
            self.put_definitions()?;
        }
        Ok(site)
    }

    /// The next request (an allocation, a resize or a failure) comes from there.
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

    /// What is known of a stack frame of call sites: a function, a file, a line.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`], [`WriteError::Io`].
    pub fn name_frame(&mut self, frame: &str, name: &str) -> Result<(), WriteError> {
        self.definitions.name(frame, name)?;
        texts::put(&mut self.names, frame, name);
        if self.names.len() >= FRAME { self.put_names() } else { Ok(()) }
    }

    /// Tells something that was not known at the beginning; it is written at the end, in place of what was told under this
    /// name.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`].
    pub fn add_text(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        self.tell(about::cost(name, text))?;
        self.texts.set(name, text);
        Ok(())
    }

    /// Writes what is left and the index, and returns the file.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.put_events()?;
        self.put_names()?;
        let texts = self.texts.to_bytes();
        self.put_unless_empty(Contents::Texts, 0, &texts)?;
        let mut index = Vec::new();
        for &(offset, event) in &self.frames {
            number::put(&mut index, offset);
            number::put(&mut index, event);
        }
        let at = self.written;
        // An index longer than a frame may be is left out: reading from the front needs none.
        if index.len() <= frame::LONGEST {
            self.put_frame(Contents::Index, 0, &index)?;
            self.put(&at.to_le_bytes())?;
            self.put(reader::INDEXED)?;
        }
        self.file.flush()?;
        Ok(self.file)
    }

    /// So many bytes of texts are told.
    fn tell(&mut self, length: usize) -> Result<(), WriteError> {
        self.told = self.told.saturating_add(length);
        let limit = About::LIMIT;
        if self.told <= limit { Ok(()) } else { Err(WriteError::TooMuch { what: "texts", limit }) }
    }

    fn require(&self, block: u64) -> Result<(), WriteError> {
        if block < self.next { Ok(()) } else { Err(WriteError::NoSuchBlock { block }) }
    }

    fn push(&mut self, event: Event) -> Result<(), WriteError> {
        // Whoever begins to read at this frame must know the thread.
        if self.columns.events() == 0 && self.thread != 0 && !matches!(event, Event::Thread { .. }) {
            self.put_into_columns(Event::Thread { thread: self.thread });
        }
        self.put_into_columns(event);
        if self.columns.length().max(self.side.length()) >= FRAME { self.put_events() } else { Ok(()) }
    }

    fn put_into_columns(&mut self, event: Event) {
        self.side.push(&event, self.columns.events());
        self.columns.push(event, &mut self.next);
        self.events += 1;
    }

    fn put_events(&mut self) -> Result<(), WriteError> {
        if self.columns.events() == 0 {
            return Ok(());
        }
        let events = self.columns.events() as u32;
        // Whoever begins to read at this frame finds its side streams there.
        self.frames.push((self.written, self.first.0));
        self.put_definitions()?;
        let (times, sites) = (self.side.take_times(), self.side.take_sites());
        self.put_unless_empty(Contents::Times, events, &times)?;
        self.put_unless_empty(Contents::Sites, events, &sites)?;
        let contents = self.columns.take_bytes();
        self.put_frame(Contents::Events, events, &contents)?;
        self.first = (self.events, self.next);
        Ok(())
    }

    fn put_definitions(&mut self) -> Result<(), WriteError> {
        if self.definitions.length() == 0 {
            return Ok(());
        }
        let contents = self.definitions.take_bytes();
        self.put_frame(Contents::Definitions, 0, &contents)
    }

    fn put_names(&mut self) -> Result<(), WriteError> {
        let contents = std::mem::take(&mut self.names);
        self.put_unless_empty(Contents::Names, 0, &contents)
    }

    fn put_unless_empty(&mut self, kind: Contents, events: u32, contents: &[u8]) -> Result<(), WriteError> {
        if contents.is_empty() { Ok(()) } else { self.put_frame(kind, events, contents) }
    }

    fn put_frame(&mut self, kind: Contents, events: u32, contents: &[u8]) -> Result<(), WriteError> {
        let packed = self.packer.pack(contents)?;
        let header = Header {
            kind: kind as u32,
            first_event: self.first.0,
            first_block: self.first.1,
            events,
            length: contents.len() as u32,
            packed: packed.len() as u32,
        };
        self.put(&header.to_bytes())?;
        self.put(&packed)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}
