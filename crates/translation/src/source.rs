//! The stream of a process, on the collector's side.

use std::fs::{self, File, OpenOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use heapwright_stream::{BUFFER, BUFFERS, Buffer, Entry, Header, Paths, SLOTS, State};
use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};

use super::mappings::Mappings;
use super::merge::{Buffers, DAMAGED, Merge, Sink};
use super::producer::Producer;

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

/// A stream mapped into memory, at the greatest length that the file can have.
pub struct Stream {
    pub(crate) file: File,
    map: Arc<MmapMut>,
    buffers_at: usize,
    /// Where the table of paths begins, if there is one.
    paths_at: Option<usize>,
}

impl Stream {
    /// Gives the memory of the buffers back. The file is as long as before, and its header says that it is closed: a
    /// child that was made by the bare system call may still write to it.
    fn give_buffers_back(&self) {
        let Ok(length) = self.file.metadata().map(|about| about.len() as usize) else { return };
        let length = length.min(self.map.len()).saturating_sub(self.buffers_at);
        // SAFETY: the buffers have been read, and nothing refers to them: the source ends here. What is written to them
        // later is not read. If the file system does not know this call, the memory is given back with the directory.
        let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::Remove, self.buffers_at, length) };
    }

    pub(crate) fn open(path: &Path) -> Result<Stream> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        ensure!(file.metadata()?.len() >= size_of::<Header>() as u64, "it is too short");
        Stream::over(file)
    }

    fn over(file: File) -> Result<Stream> {
        /// Upper bound of the size of a header and a table of paths, for any page size.
        const HEADER: usize = 16 << 20;
        // SAFETY: the process that made the file does not shorten it, and the directory is private, so that no other
        // user can; bytes beyond the end of the file are not accessed.
        let map = unsafe { MmapOptions::new().len(HEADER + BUFFERS as usize * BUFFER).map_mut(&file)? };
        let mut mapped = Stream { file, map: Arc::new(map), buffers_at: 0, paths_at: None };
        ensure!(mapped.header().is_known(), "it was written by another version of the recorder");
        mapped.buffers_at = mapped.header().buffers_at as usize;
        ensure!(mapped.buffers_at <= HEADER, DAMAGED);
        let paths_at = mapped.header().paths_at as usize;
        let has_table = paths_at >= size_of::<Header>()
            && paths_at.is_multiple_of(align_of::<Paths>())
            && paths_at + size_of::<Paths>() <= mapped.buffers_at
            && mapped.file.metadata()?.len() >= mapped.buffers_at as u64;
        ensure!(paths_at == 0 || has_table, DAMAGED);
        mapped.paths_at = Some(paths_at).filter(|&at| at != 0);
        Ok(mapped)
    }

    /// Returns the number of buffers that the file is long enough for.
    pub fn buffers(&self) -> Result<u32> {
        let length = self.file.metadata()?.len().saturating_sub(self.buffers_at as u64);
        Ok(u32::try_from(length / BUFFER as u64)?.min(BUFFERS))
    }

    /// Calls `visit` for each entry of the buffers that have not been read to their ends, with its buffer and its place
    /// there, until it breaks off.
    pub fn each_entry(&self, mut visit: impl FnMut(&Buffer, u32, Entry) -> ControlFlow<()>) -> ControlFlow<()> {
        for number in 0..self.buffers().unwrap_or(0) {
            let buffer = self.buffer(number);
            if buffer.state() == State::Free {
                continue;
            }
            let (mut at, count) = (0, buffer.count().min(SLOTS));
            while at < count {
                // What is damaged here is reported when it is read in its order.
                let Some(entry) = buffer.entry(at) else { break };
                visit(buffer, at, entry)?;
                at = at.saturating_add(entry.slots());
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the table of paths, if there is one.
    pub fn paths(&self) -> Option<&Paths> {
        // SAFETY: `over` has checked that the file contains the table, aligned; it consists of atomic integers.
        self.paths_at.map(|at| unsafe { &*self.map.as_ptr().add(at).cast() })
    }

    /// Returns the address at which this process has mapped it.
    pub(crate) fn address(&self) -> usize {
        self.map.as_ptr().addr()
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned and `open` checked that the file contains a whole header, for which any
        // bytes are valid; the process writes only the header's atomic fields.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

impl Buffers for Stream {
    fn buffer(&self, number: u32) -> &Buffer {
        debug_assert!(number < BUFFERS);
        let at = self.buffers_at + number as usize * BUFFER;
        // SAFETY: callers have compared the number with `Stream::buffers`: the file contains this buffer, and the
        // mapping has the greatest length of a file. Any bytes are a valid buffer; the process writes only its atomic
        // fields and slots that are not yet read.
        unsafe { &*self.map.as_ptr().add(at).cast() }
    }

    fn release(&self, number: u32) {
        self.buffer(number).free();
        self.header().add_freed();
    }
}
