//! The stream of a process, as the collector sees it.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use heapwright_os::{Identity, Life, life};
use heapwright_stream::{BUFFER, BUFFERS, Buffer, Header, Mapping};
use memmap2::{MmapMut, MmapOptions};

use super::merge::{Buffers, DAMAGED, Merge, Told};

/// A stream that is being read.
pub struct Source {
    path: PathBuf,
    file: File,
    stream: Mapped,
    merge: Merge,
    /// How many buffers have been seen to be begun.
    begun: u64,
    /// How many buffers the file is long enough for.
    buffers: u32,
    /// How many calls were made after the recording had ended but are in the stream.
    late: u64,
}

impl Source {
    /// Begins to read the stream at `path`.
    pub fn open(path: &Path) -> Result<Source> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        ensure!(file.metadata()?.len() >= size_of::<Header>() as u64, "it is too short");
        let stream = Mapped::over(&file)?;
        let merge = Merge::from(stream.header().first_ticket);
        Ok(Source { path: path.to_owned(), file, stream, merge, begun: 0, buffers: 0, late: 0 })
    }

    /// What the process tells of itself.
    pub fn header(&self) -> &Header {
        self.stream.header()
    }

    /// The process that tells.
    pub fn teller(&self) -> Teller {
        Teller { path: self.path.clone(), process: Identity::from_word(self.header().process) }
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.teller().pid()
    }

    /// Which program of the process this is, from 0.
    pub fn image(&self) -> u32 {
        self.teller().image()
    }

    /// How many calls came after the recording had ended.
    pub fn lost(&self) -> u64 {
        self.header().lost() + self.late
    }

    /// Whether nothing more can come: the process is dead or runs another program.
    pub fn is_over(&self) -> bool {
        self.teller().is_over()
    }

    /// Tells the process that nobody reads any further.
    pub fn close(&self) {
        self.header().close();
    }

    /// Reads some of what there is up to now; whatever is read is given to `take`. Returns whether there was anything. When
    /// the process is `over`, what it began to write and did not finish is passed over.
    pub fn read(&mut self, over: bool, mut take: impl FnMut(Told) -> Result<()>) -> Result<bool> {
        self.see_new_buffers()?;
        let end = self.header().end();
        let late = &mut self.late;
        let any = self.merge.read(&self.stream, |told| match told {
            Told::Call(_, ticket) if ticket >= end => {
                *late += 1;
                Ok(())
            }
            _ => take(told),
        })?;
        Ok(any || self.merge.pass_over(over))
    }

    fn see_new_buffers(&mut self) -> Result<()> {
        let begun = self.header().begun();
        while self.begun < begun {
            let buffer = self.header().buffer_begun(self.begun);
            self.require(buffer)?;
            self.merge.add(buffer);
            self.begun += 1;
        }
        Ok(())
    }

    /// Makes sure that the file has a buffer: touching what it has not would end this process.
    fn require(&mut self, buffer: u32) -> Result<()> {
        if buffer >= self.buffers {
            let length = self.file.metadata()?.len().saturating_sub(self.stream.buffers_at as u64);
            self.buffers = u32::try_from(length / BUFFER as u64)?.min(BUFFERS);
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
        // The name of a program that another has replaced stays until that one is done with: the process's programs are
        // told apart by what names are taken. Should any of this fail, the directory goes with all that is in it.
        let teller = self.teller();
        if teller.is_replaced() {
            let _ = self.file.set_len(0);
        } else {
            (0..=teller.image()).for_each(|image| drop(fs::remove_file(teller.path_of(image))));
        }
    }
}

/// A program of a process, as its stream's name and header have it.
#[derive(Clone)]
pub struct Teller {
    path: PathBuf,
    process: Identity,
}

impl Teller {
    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Which program of the process this is, from 0.
    pub fn image(&self) -> u32 {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.rsplit_once('-').and_then(|(_, image)| image.parse().ok()).unwrap_or(0)
    }

    /// Whether the process is dead or runs another program.
    pub fn is_over(&self) -> bool {
        self.is_replaced() || life(self.process) == Life::Dead
    }

    /// Calls `see` for everything that is mapped into the process now, if it still runs this program.
    pub fn each_mapping(&self, see: &mut dyn FnMut(&Mapping<'_>)) {
        let Ok(lines) = fs::read(format!("/proc/{}/maps", self.pid())) else { return };
        // Asked after it: what was read is this program's.
        if !self.is_over() {
            lines.split(|&byte| byte == b'\n').filter_map(Mapping::from_line).for_each(|mapping| see(&mapping));
        }
    }

    /// Whether the process has begun to run another program.
    fn is_replaced(&self) -> bool {
        self.path_of(self.image() + 1).exists()
    }

    /// Where the stream of a program of this process is.
    fn path_of(&self, image: u32) -> PathBuf {
        self.path.with_file_name(format!("{}-{image}", self.pid()))
    }
}

/// A stream in memory: as much of it as the file ever has.
struct Mapped {
    map: MmapMut,
    buffers_at: usize,
}

impl Mapped {
    fn over(file: &File) -> Result<Mapped> {
        /// More than any header takes, whatever the size of pages.
        const HEADER: usize = 1 << 20;
        // SAFETY: the process that made the file does not shorten it, nor does anybody else in this private directory; what
        // lies behind its end is not touched.
        let map = unsafe { MmapOptions::new().len(HEADER + BUFFERS as usize * BUFFER).map_mut(file)? };
        let mut mapped = Mapped { map, buffers_at: 0 };
        ensure!(mapped.header().is_known(), "it comes from another version of the recorder");
        mapped.buffers_at = mapped.header().buffers_at as usize;
        ensure!(mapped.buffers_at <= HEADER, DAMAGED);
        Ok(mapped)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins at a page and the file is as long as a header, for which any bytes are valid; the
        // process changes what is atomic only.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

impl Buffers for Mapped {
    fn buffer(&self, number: u32) -> &Buffer {
        debug_assert!(number < BUFFERS);
        let at = self.buffers_at + number as usize * BUFFER;
        // SAFETY: `Source::require` has seen that the file is long enough, and the mapping is as long as any. Any bytes are a
        // buffer; the process changes what is atomic, and slots that are not read.
        unsafe { &*self.map.as_ptr().add(at).cast() }
    }

    fn release(&self, number: u32) {
        self.buffer(number).free();
        self.header().add_freed();
    }
}
