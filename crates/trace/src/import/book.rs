//! Who lives where: from the names that a format gives to blocks, mostly addresses, to the numbers of a trace.

use std::collections::HashMap;
use std::io::Write;

use super::{ImportError, Line, Summary};
use crate::error::WriteError;
use crate::event::{Kind, USUAL_ALIGN};
use crate::sites::SiteId;
use crate::writer::Writer;

/// A trace being written, and the blocks that live in it by the format's names for them.
pub(super) struct Book<'w, W: Write> {
    writer: &'w mut Writer<W>,
    live: HashMap<u64, u64>,
    threads: HashMap<u64, u64>,
    /// The block that a realloc has taken from its place and not put anywhere yet.
    under_way: Option<u64>,
    /// The first time that was told.
    start: Option<u64>,
    line: (u64, String),
    pub(super) summary: Summary,
}

impl<'w, W: Write> Book<'w, W> {
    pub(super) fn new(writer: &'w mut Writer<W>) -> Self {
        Book {
            writer,
            live: HashMap::new(),
            threads: HashMap::new(),
            under_way: None,
            start: None,
            line: (0, String::new()),
            summary: Summary::default(),
        }
    }

    /// What follows is said by this line.
    pub(super) fn at_line(&mut self, number: u64, line: &str) {
        self.line.0 = number;
        self.line.1.clear();
        self.line.1.push_str(line);
    }

    /// What follows happens in the thread that the format calls `name`.
    pub(super) fn in_thread(&mut self, name: u64) -> Result<(), ImportError> {
        let next = self.threads.len() as u64;
        let thread = *self.threads.entry(name).or_insert(next);
        Ok(self.writer.in_thread(thread)?)
    }

    /// What follows happens this many nanoseconds after the beginning.
    pub(super) fn at(&mut self, nanoseconds: u64) {
        self.writer.at(nanoseconds);
    }

    /// What follows happens at this time, in nanoseconds since whenever; the first that is told is the beginning.
    pub(super) fn at_time_of_day(&mut self, nanoseconds: u64) {
        let start = *self.start.get_or_insert(nanoseconds);
        self.at(nanoseconds.saturating_sub(start));
    }

    /// A text about the trace, as far as there is room for it.
    pub(super) fn tell(&mut self, name: &str, text: &str) -> Result<(), ImportError> {
        match self.writer.add_text(name, text) {
            Err(WriteError::TooMuch { .. }) => Ok(()),
            told => Ok(told?),
        }
    }

    /// Defines a call site; `None` when there are as many as a trace may hold.
    pub(super) fn define_site(&mut self, frames: &[&str]) -> Result<Option<SiteId>, ImportError> {
        match self.writer.define_site(frames) {
            Err(WriteError::TooMuch { .. }) => {
                self.summary.sites_left_out += 1;
                Ok(None)
            }
            site => Ok(Some(site?)),
        }
    }

    /// The next request comes from there.
    pub(super) fn at_site(&mut self, site: Option<SiteId>) -> Result<(), ImportError> {
        site.map_or(Ok(()), |site| Ok(self.writer.from_site(site)?))
    }

    /// What is known of a stack frame, as far as there is room for it.
    pub(super) fn name_frame(&mut self, frame: &str, name: &str) -> Result<(), ImportError> {
        match self.writer.name_frame(frame, name) {
            Err(WriteError::TooMuch { .. }) => Ok(()),
            named => Ok(named?),
        }
    }

    /// A request is refused.
    pub(super) fn fail(&mut self, size: u64, align: u64) -> Result<Line, ImportError> {
        if !align.is_power_of_two() {
            return Ok(Line::NotUnderstood);
        }
        self.writer.fail(size, align)?;
        self.summary.events += 1;
        Ok(Line::Done)
    }

    /// A block appears under `name`.
    pub(super) fn allocate(&mut self, name: u64, kind: Kind, size: u64, align: u64) -> Result<Line, ImportError> {
        if !align.is_power_of_two() {
            return Ok(Line::NotUnderstood);
        }
        let block = self.writer.allocate(kind, size, align)?;
        self.appear(name, block)?;
        Ok(Line::Done)
    }

    /// As [`Book::allocate`], the usual kind.
    pub(super) fn malloc(&mut self, name: u64, size: u64) -> Result<Line, ImportError> {
        self.allocate(name, Kind::Malloc, size, USUAL_ALIGN)
    }

    /// The block called `old` becomes one called `new`. One that does not live is taken for a new one, as it is from here on.
    pub(super) fn resize(&mut self, old: u64, new: u64, size: u64) -> Result<Line, ImportError> {
        match self.live.remove(&old) {
            Some(block) => {
                let becomes = self.writer.resize(block, size)?;
                self.appear(new, becomes)?;
                Ok(Line::Done)
            }
            None => {
                self.summary.unknown_blocks.add(self.line.0, &self.line.1);
                self.malloc(new, size)
            }
        }
    }

    /// The block called `name` goes.
    pub(super) fn free(&mut self, name: u64) -> Result<Line, ImportError> {
        match self.live.remove(&name) {
            Some(block) => {
                self.writer.free(block)?;
                self.summary.events += 1;
            }
            None => self.summary.unknown_blocks.add(self.line.0, &self.line.1),
        }
        Ok(Line::Done)
    }

    /// A realloc takes the block called `name` from its place.
    pub(super) fn leave(&mut self, name: u64) -> Line {
        self.under_way = self.live.remove(&name);
        if self.under_way.is_none() {
            self.summary.unknown_blocks.add(self.line.0, &self.line.1);
        }
        Line::Done
    }

    /// The block that left its place is called `name` now.
    pub(super) fn come_back(&mut self, name: u64, size: u64) -> Result<Line, ImportError> {
        let Some(block) = self.under_way.take() else { return self.malloc(name, size) };
        let becomes = self.writer.resize(block, size)?;
        self.appear(name, becomes)?;
        Ok(Line::Done)
    }

    fn appear(&mut self, name: u64, block: u64) -> Result<(), ImportError> {
        self.summary.events += 1;
        if let Some(before) = self.live.insert(name, block) {
            self.summary.reused_places.add(self.line.0, &self.line.1);
            self.writer.free(before)?;
            self.summary.events += 1;
        }
        Ok(())
    }
}
