//! The stream of a process, as the collector sees it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use heapwright_os::{Identity, Life, life};
use heapwright_stream::{CLOSED, Header, RECORD, Record, WINDOW};
use memmap2::{MmapMut, MmapOptions};

/// How many records are read at once.
const BATCH: u64 = 1 << 16;

/// A stream that is being read.
pub struct Source {
    path: PathBuf,
    file: File,
    header: MmapMut,
    /// How many records have been read.
    read: u64,
    bytes: Vec<u8>,
}

impl Source {
    /// Begins to read the stream at `path`.
    pub fn open(path: &Path) -> Result<Source> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = size_of::<Header>();
        ensure!(file.metadata()?.len() >= length as u64, "it is too short");
        // SAFETY: the process that made the file does not shorten it, nor does anybody else in this private directory.
        let header = unsafe { MmapOptions::new().len(length).map_mut(&file)? };
        let source = Source { path: path.to_owned(), file, header, read: 0, bytes: Vec::new() };
        ensure!(source.header().is_known(), "it comes from another version of the recorder");
        Ok(source)
    }

    /// What the process tells of itself.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping begins at a page and is as long as a header, for which any bytes are valid; the process
        // changes what is atomic only.
        unsafe { &*self.header.as_ptr().cast() }
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        Identity::from_word(self.header().process).pid
    }

    /// Which program of the process this is, from 0.
    pub fn image(&self) -> u32 {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.rsplit_once('-').and_then(|(_, image)| image.parse().ok()).unwrap_or(0)
    }

    /// Whether nothing more can come: the process is dead or runs another program.
    pub fn is_over(&self) -> bool {
        self.is_replaced() || life(Identity::from_word(self.header().process)) == Life::Dead
    }

    /// Whether the process has begun to run another program.
    fn is_replaced(&self) -> bool {
        self.path_of(self.image() + 1).exists()
    }

    /// Where the stream of a program of this process is.
    fn path_of(&self, image: u32) -> PathBuf {
        self.path.with_file_name(format!("{}-{image}", self.pid()))
    }

    /// Tells the process that nobody reads any further.
    pub fn close(&self) {
        self.header().consume(CLOSED);
    }

    /// Reads some of what there is up to now; whatever is read is given to `take`. Returns whether there was anything.
    pub fn read(&mut self, mut take: impl FnMut(Record) -> Result<()>) -> Result<bool> {
        let start = self.read * RECORD as u64;
        let in_window = (WINDOW - start % WINDOW) / RECORD as u64;
        let count = self.header().committed().saturating_sub(self.read).min(BATCH).min(in_window);
        let at = self.header().place_of(start);
        self.bytes.resize(count as usize * RECORD, 0);
        self.file.read_exact_at(&mut self.bytes, at).context("the stream cannot be read")?;
        for bytes in self.bytes.chunks_exact(RECORD) {
            take(Record::from_words(words(bytes)).context("the stream is damaged: the program has overwritten it")?)?;
        }
        self.read += count;
        if count > 0 && self.header().consumed() != CLOSED {
            self.header().consume(self.read);
        }
        Ok(count > 0)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.close();
        // The name of a program that another has replaced stays until that one is done with: the process's programs are
        // told apart by what names are taken. Should any of this fail, the directory goes with all that is in it.
        if self.is_replaced() {
            let _ = self.file.set_len(0);
        } else {
            (0..=self.image()).for_each(|image| drop(fs::remove_file(self.path_of(image))));
        }
    }
}

fn words(bytes: &[u8]) -> [u64; 2] {
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    [word(0), word(8)]
}
