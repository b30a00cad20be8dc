//! A stream mapped into memory.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use heapwright_stream::{BUFFER, BUFFERS, Buffer, Entry, Header, Paths, SLOTS, State};
use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};

use super::merge::{Buffers, DAMAGED};

/// A stream mapped into memory, at the greatest length that the file can have.
pub struct Stream {
    pub(crate) file: File,
    pub(crate) map: Arc<MmapMut>,
    buffers_at: usize,
    /// Where the table of paths begins, if there is one.
    paths_at: Option<usize>,
}

impl Stream {
    /// Gives the memory of the buffers back. The file is as long as before, and its header says that it is closed: a
    /// child that was made by the bare system call may still write to it.
    pub(crate) fn give_buffers_back(&self) {
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
