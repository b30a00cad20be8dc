//! Maps the names that a format gives to live blocks, usually addresses, to the block numbers of a trace.

use std::collections::HashMap;
use std::io::Write;

use super::lines::Line;
use super::{ImportError, Summary};
use crate::error::WriteError;
use crate::event::{DEFAULT_ALIGN, Kind};
use crate::sites::SiteId;
use crate::writer::Writer;

/// A trace that is being written, and its live blocks by the names that the source format gives them.
pub(super) struct Ledger<'w, W: Write> {
    writer: &'w mut Writer<W>,
    live: HashMap<u64, u64>,
    threads: HashMap<u64, u64>,
    /// The thread of the next event, by its identifier in the source. Only a line that is understood has one.
    thread: Option<u64>,
    /// The block of a realloc whose new place has not been read yet.
    moving: Option<u64>,
    /// The first absolute time in the source.
    start: Option<u64>,
    /// The current line and its number, for the summary.
    line: (u64, String),
    pub(super) summary: Summary,
}

impl<'w, W: Write> Ledger<'w, W> {
    pub(super) fn new(writer: &'w mut Writer<W>) -> Self {
        Ledger {
            writer,
            live: HashMap::new(),
            threads: HashMap::new(),
            thread: None,
            moving: None,
            start: None,
            line: (0, String::new()),
            summary: Summary::default(),
        }
    }

    /// Sets the current line.
    pub(super) fn at_line(&mut self, number: u64, line: &str) {
        self.line.0 = number;
        self.line.1.clear();
        self.line.1.push_str(line);
    }

    /// Sets the thread of the events that follow; `name` is its identifier in the source.
    pub(super) fn in_thread(&mut self, name: u64) {
        self.thread = Some(name);
    }

    /// Writes an event, in its thread.
    fn write<R>(&mut self, event: impl FnOnce(&mut Writer<W>) -> Result<R, WriteError>) -> Result<R, ImportError> {
        if let Some(name) = self.thread.take() {
            let next = self.threads.len() as u64;
            let thread = *self.threads.entry(name).or_insert(next);
            self.writer.in_thread(thread)?;
        }
        let written = event(self.writer)?;
        self.summary.events += 1;
        Ok(written)
    }

    /// Sets the time of the events that follow, in nanoseconds since the beginning.
    pub(super) fn at(&mut self, nanoseconds: u64) {
        self.writer.at(nanoseconds);
    }

    /// Sets the time of the events that follow, in nanoseconds of any clock. The first call defines the beginning.
    pub(super) fn at_time_of_day(&mut self, nanoseconds: u64) {
        let start = *self.start.get_or_insert(nanoseconds);
        self.at(nanoseconds.saturating_sub(start));
    }

    /// Adds a text to the metadata of the trace, unless the trace has reached its limit of texts.
    pub(super) fn add_text(&mut self, name: &str, text: &str) -> Result<(), ImportError> {
        match self.writer.add_text(name, text) {
            Err(WriteError::TooMuch { .. }) => Ok(()),
            written => Ok(written?),
        }
    }

    /// Defines a call site; returns `None` if the trace has reached its limit of call sites.
    pub(super) fn define_site(&mut self, frames: &[&str]) -> Result<Option<SiteId>, ImportError> {
        match self.writer.define_site(frames) {
            Err(WriteError::TooMuch { .. }) => {
                self.summary.sites_left_out += 1;
                Ok(None)
            }
            site => Ok(Some(site?)),
        }
    }

    /// Sets the call site of the next request.
    pub(super) fn at_site(&mut self, site: Option<SiteId>) -> Result<(), ImportError> {
        site.map_or(Ok(()), |site| Ok(self.writer.from_site(site)?))
    }

    /// Adds the name of a stack frame, unless the trace has reached its limit of names.
    pub(super) fn name_frame(&mut self, frame: &str, name: &str) -> Result<(), ImportError> {
        match self.writer.name_frame(frame, name) {
            Err(WriteError::TooMuch { .. }) => Ok(()),
            named => Ok(named?),
        }
    }

    /// Adds a request that failed.
    pub(super) fn fail(&mut self, size: u64, align: u64) -> Result<Line, ImportError> {
        if !align.is_power_of_two() {
            return Ok(Line::NotUnderstood);
        }
        self.write(|writer| writer.fail(size, align))?;
        Ok(Line::Done)
    }

    /// Adds the allocation of a block that the source calls `name`.
    pub(super) fn allocate(&mut self, name: u64, kind: Kind, size: u64, align: u64) -> Result<Line, ImportError> {
        if !align.is_power_of_two() {
            return Ok(Line::NotUnderstood);
        }
        self.make_way(name)?;
        let block = self.write(|writer| writer.allocate(kind, size, align))?;
        self.live.insert(name, block);
        Ok(Line::Done)
    }

    /// Adds the allocation of a block that the source never mentions again.
    pub(super) fn allocate_for_good(&mut self, kind: Kind, size: u64) -> Result<(), ImportError> {
        self.write(|writer| writer.allocate(kind, size, DEFAULT_ALIGN)).map(drop)
    }

    /// Adds an allocation by `malloc`, with the default alignment.
    pub(super) fn malloc(&mut self, name: u64, size: u64) -> Result<Line, ImportError> {
        self.allocate(name, Kind::Malloc, size, DEFAULT_ALIGN)
    }

    /// Adds a resize of block `old`, called `new` from then on. If `old` is not live, `new` counts as an allocation.
    pub(super) fn resize(&mut self, old: u64, new: u64, size: u64) -> Result<Line, ImportError> {
        match self.live.remove(&old) {
            Some(block) => {
                self.make_way(new)?;
                let becomes = self.write(|writer| writer.resize(block, size))?;
                self.live.insert(new, becomes);
                Ok(Line::Done)
            }
            None => {
                self.summary.unknown_blocks.add(self.line.0, &self.line.1);
                self.malloc(new, size)
            }
        }
    }

    /// Adds the free of a block.
    pub(super) fn free(&mut self, name: u64) -> Result<Line, ImportError> {
        match self.live.remove(&name) {
            Some(block) => self.write(|writer| writer.free(block))?,
            None => self.summary.unknown_blocks.add(self.line.0, &self.line.1),
        }
        Ok(Line::Done)
    }

    /// Begins the resize of block `name`, in a format that logs old and new place separately.
    pub(super) fn begin_move(&mut self, name: u64) -> Line {
        self.moving = self.live.remove(&name);
        if self.moving.is_none() {
            self.summary.unknown_blocks.add(self.line.0, &self.line.1);
        }
        Line::Done
    }

    /// Completes the resize that [`Ledger::begin_move`] began; the block is called `name` from then on.
    pub(super) fn end_move(&mut self, name: u64, size: u64) -> Result<Line, ImportError> {
        let Some(block) = self.moving.take() else { return self.malloc(name, size) };
        self.make_way(name)?;
        let becomes = self.write(|writer| writer.resize(block, size))?;
        self.live.insert(name, becomes);
        Ok(Line::Done)
    }

    /// Frees the block whose name is given again: the source lacks its free.
    fn make_way(&mut self, name: u64) -> Result<(), ImportError> {
        if let Some(before) = self.live.remove(&name) {
            self.summary.reused_places.add(self.line.0, &self.line.1);
            self.write(|writer| writer.free(before))?;
        }
        Ok(())
    }
}
