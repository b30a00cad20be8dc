//! The stream of a process, on the collector's side.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use heapwright_stream::{Buffer, Entry, Header, Paths};

use super::mappings::Mappings;
use super::merge::{DAMAGED, Merge, Sink};
use super::producer::Producer;
use super::stream::Stream;

/// A stream while it is read.
pub struct Source {
    stream: Arc<Stream>,
    producer: Producer,
    merge: Merge,
    /// Number of buffers that the process has begun, as last read.
    begun: u64,
    /// Number of buffers that the file is long enough for.
    buffers: u32,
    /// A question of the process that is not answered, and the look that found all that was recorded before.
    asked: Option<(u64, u64)>,
    /// The last question that is answered.
    answered: u64,
}

impl Source {
    /// Opens the stream at `path`.
    pub fn open(path: &Path) -> Result<Source> {
        let stream = Arc::new(Stream::open(path)?);
        let producer = Producer::of(path, stream.clone());
        Ok(Source { stream, producer, merge: Merge::default(), begun: 0, buffers: 0, asked: None, answered: 0 })
    }

    /// Returns the header of the stream.
    pub fn header(&self) -> &Header {
        self.stream.header()
    }

    /// Returns the program that writes the stream.
    pub fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Returns the mappings of the program, whatever has been read.
    pub fn mappings(&self) -> Mappings {
        Mappings::of(self.producer.clone())
    }

    /// Returns the stream's table of paths, if it has one.
    pub fn paths(&self) -> Option<Table> {
        self.stream.paths().map(|_| Table { stream: self.stream.clone() })
    }

    /// Returns what keeps the memory of the stream mapped: giving it back takes milliseconds.
    pub fn memory(&self) -> impl Send + 'static {
        self.stream.map.clone()
    }

    /// Returns the number of calls made after the recording had ended.
    pub fn lost(&self) -> u64 {
        self.header().lost() + self.merge.late()
    }

    /// Returns the number of buffers that have been read to their ends.
    pub fn buffers_read(&self) -> u64 {
        self.header().freed()
    }

    /// Returns whether the stream is complete: the process is dead or runs another program.
    pub fn is_over(&self) -> bool {
        self.producer.is_over()
    }

    /// Returns whether the process still runs the program. In contrast to [`Source::is_over`], this also detects an
    /// `exec` whose program has not begun a stream. Costs a few microseconds.
    pub fn is_running(&self) -> bool {
        self.producer.is_running()
    }

    /// Returns whether the process was found to run another program that has no stream. Costs a few microseconds.
    pub fn runs_another(&self) -> bool {
        self.producer.runs_another()
    }

    /// Returns whether a call is in a buffer that has not been read to its end.
    pub fn has_calls(&self) -> bool {
        let is_call = |_: &Buffer, _, entry| match entry {
            Entry::Call(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        self.stream.each_entry(is_call).is_break()
    }

    /// Closes the stream, which stops the recording in the process.
    pub fn close(&self) {
        self.header().close();
    }

    /// Reads a batch of what is there now and passes it to `sink`. Returns whether there was anything.
    pub(crate) fn read(&mut self, sink: &mut impl Sink) -> Result<bool> {
        let end = self.header().end();
        let asked = self.header().asked();
        self.look(sink)?;
        if asked > self.answered {
            self.asked.get_or_insert((asked, self.merge.looks()));
        }
        // Again, as what precedes a call may have been recorded behind the first look's back.
        self.look(sink)?;
        let any = self.merge.read(&*self.stream, end, sink)?;
        self.answer();
        Ok(any)
    }

    fn look(&mut self, sink: &mut impl Sink) -> Result<()> {
        self.see_new_buffers()?;
        self.merge.look(&*self.stream, sink)
    }

    /// Answers the process's question if all calls were read that preceded it.
    fn answer(&mut self) {
        if let Some((question, _)) = self.asked.take_if(|&mut (_, look)| self.merge.has_passed(look)) {
            self.answered = question;
            self.header().answer(question);
        }
    }

    fn see_new_buffers(&mut self) -> Result<()> {
        let begun = self.header().begun();
        while self.begun < begun {
            let buffer = self.header().buffer_begun(self.begun);
            self.require(buffer)?;
            self.merge.add(buffer)?;
            self.begun += 1;
        }
        Ok(())
    }

    /// Checks that the file contains a buffer: touching memory beyond the end of the file would end this process with
    /// SIGBUS.
    fn require(&mut self, buffer: u32) -> Result<()> {
        if buffer >= self.buffers {
            self.buffers = self.stream.buffers()?;
        }
        if buffer >= self.buffers {
            bail!(DAMAGED);
        }
        Ok(())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.close();
        // The name of a replaced program stays until its stream has been read: taken names distinguish the programs of
        // a process. If this fails, the file is removed with the directory.
        let producer = &self.producer;
        if producer.is_replaced() {
            self.stream.give_buffers_back();
        } else {
            (0..=producer.image()).for_each(|image| drop(fs::remove_file(producer.path_of(image))));
        }
    }
}

/// The table of paths of a stream.
pub struct Table {
    stream: Arc<Stream>,
}

impl Table {
    pub(crate) fn get(&self) -> Option<&Paths> {
        self.stream.paths()
    }
}
