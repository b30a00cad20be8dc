//! What an unwinder needs of the files that code comes from.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::iter;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use anyhow::{Context, Result};
use framehop::ExplicitModuleSectionInfo;
use heapwright_stream::Mapping;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ReadCache};

use super::realigned::Realigned;

/// An ELF program or library.
pub struct Binary {
    /// The version of the file that was read.
    pub version: Version,
    /// Segments with code.
    code: Vec<Segment>,
    /// The lowest address in the file's program headers.
    lowest: u64,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
    /// Code that the unwinding information marks as trampolines of signals.
    trampolines: Vec<Range<u64>>,
}

/// A mapped segment of the file.
struct Segment {
    offset: u64,
    length: u64,
    address: u64,
}

struct Section {
    range: Range<u64>,
    bytes: Arc<[u8]>,
}

/// Returns where unwinding information describes trampolines of signals. What is damaged ends the search.
fn trampolines(eh_frame: &Section) -> Vec<Range<u64>> {
    let bases = BaseAddresses::default().set_eh_frame(eh_frame.range.start);
    let frames = EhFrame::new(&eh_frame.bytes, LittleEndian);
    let (mut entries, mut marked, mut found) = (frames.entries(&bases), HashSet::new(), Vec::new());
    while let Ok(Some(entry)) = entries.next() {
        match entry {
            CieOrFde::Cie(cie) if cie.is_signal_trampoline() => {
                marked.insert(cie.offset());
            }
            CieOrFde::Fde(fde) if marked.contains(&fde.cie_offset().0) => {
                if let Ok(fde) = fde.parse(EhFrame::cie_from_offset) {
                    found.push(fde.initial_address()..fde.end_address());
                }
            }
            CieOrFde::Cie(_) | CieOrFde::Fde(_) => {}
        }
    }
    found
}

/// Reads these bytes of a file. Allocates no more than the file has.
fn read_at(file: &File, offset: u64, length: u64) -> io::Result<Arc<[u8]>> {
    let behind = offset.checked_add(length).filter(|&behind| file.metadata().is_ok_and(|found| behind <= found.len()));
    behind.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut bytes: Arc<[u8]> = iter::repeat_n(0, length as usize).collect();
    if let Some(bytes) = Arc::get_mut(&mut bytes) {
        file.read_exact_at(bytes, offset)?;
    }
    Ok(bytes)
}

impl Binary {
    fn read(path: &Path, version: Version) -> Result<Binary> {
        let opened = File::open(path)?;
        let file = ReadCache::new(BufReader::new(&opened));
        let elf = ElfFile64::<object::Endianness, _>::parse(&file)?;
        let endian = elf.endian();
        let loads = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == object::elf::PT_LOAD);
        let lowest = loads.clone().map(|header| header.p_vaddr(endian)).min().context("it has no loadable segment")?;
        let code = loads
            .filter(|header| header.p_flags(endian) & object::elf::PF_X != 0)
            .map(|header| Segment {
                offset: header.p_offset(endian),
                length: header.p_filesz(endian),
                address: header.p_vaddr(endian),
            })
            .collect();
        let range = |name| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().saturating_add(section.size()))
        };
        // Read into its place: the section of a large program is megabytes long, and the program runs meanwhile.
        let section = |name| {
            let (offset, length) = elf.section_by_name(name)?.file_range()?;
            Some(Section { range: range(name)?, bytes: read_at(&opened, offset, length).ok()? })
        };
        let eh_frame = section(".eh_frame");
        Ok(Binary {
            version,
            code,
            lowest,
            text: range(".text"),
            got: range(".got"),
            trampolines: eh_frame.as_ref().map_or_else(Vec::new, trampolines),
            eh_frame,
            eh_frame_hdr: section(".eh_frame_hdr"),
        })
    }

    /// Returns the load bias: the difference between a process's addresses and the file's, when the process has mapped
    /// code of the file from `offset` on at `start`.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let page = heapwright_os::page_size() as u64;
        // A mapping begins with the page in which its segment begins.
        let holds = |segment: &&Segment| {
            let first = segment.offset - segment.offset % page;
            (first..segment.offset.saturating_add(segment.length)).contains(&offset)
        };
        let segment = self.code.iter().find(holds)?;
        Some(start.wrapping_sub(offset.wrapping_sub(segment.offset).wrapping_add(segment.address)))
    }

    /// Returns the file's lowest address in a process with this bias.
    pub fn base(&self, bias: u64) -> u64 {
        bias.wrapping_add(self.lowest)
    }

    /// Returns whether an address of the file is in a trampoline of signals: the code to which their handlers return.
    pub fn is_trampoline(&self, address: u64) -> bool {
        self.trampolines.iter().any(|code| code.contains(&address))
    }

    /// Returns where the function at an address of the file has stored what its caller needs, if it aligns the stack.
    pub fn realigned(&self, address: u64) -> Option<Realigned> {
        let (frames, index) = (self.eh_frame.as_ref()?, self.eh_frame_hdr.as_ref()?);
        Realigned::of((frames.range.start, &frames.bytes), (index.range.start, &index.bytes), address)
    }

    /// Returns the sections for framehop.
    pub fn unwinding(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let range = |section: &Option<Section>| section.as_ref().map(|section| section.range.clone());
        let bytes = |section: &Option<Section>| section.as_ref().map(|section| section.bytes.clone());
        ExplicitModuleSectionInfo {
            base_svma: self.lowest,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

/// Identifies one version of a file: other contents under the same name have another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    inode: u64,
    modified: (i64, i64),
}

impl Version {
    /// Returns the version of the file at `path` now.
    pub fn of(path: &Path) -> Option<Version> {
        found(path).map(|found| Version::from(&found))
    }
}

impl From<&fs::Metadata> for Version {
    fn from(found: &fs::Metadata) -> Version {
        Version { inode: found.ino(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

fn found(path: &Path) -> Option<fs::Metadata> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)
}

/// Binaries by path and version.
type Found = HashMap<(PathBuf, Version), Option<Arc<Binary>>>;

/// Cache of binaries: each is read once for all processes of a recording.
#[derive(Clone)]
pub struct Binaries {
    known: Arc<Mutex<Found>>,
    /// Before the processes started.
    begun: Duration,
}

impl Default for Binaries {
    fn default() -> Self {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Binaries { known: Arc::default(), begun }
    }
}

impl Binaries {
    /// Returns the binary at `path` that was mapped when `file` stood for it ([`Mapping::file_of`]); `None` if another
    /// file has that name now, if it is none, or cannot be read.
    ///
    /// File systems of layers may have two numbers for one file: where they differ, it counts as another only if its
    /// name or contents changed since the recording began.
    pub fn mapped(&self, path: &Path, file: u32) -> Option<Arc<Binary>> {
        let found = found(path)?;
        let changed = Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
        if Mapping::file_of(found.ino()) != file && changed > self.begun {
            return None;
        }
        self.read(path, Version::from(&found))
    }

    /// Returns the binary that is at `path` now; `None` if it is none, or cannot be read.
    pub fn at(&self, path: &Path) -> Option<Arc<Binary>> {
        self.read(path, Version::of(path)?)
    }

    fn read(&self, path: &Path, version: Version) -> Option<Arc<Binary>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let binary = known.entry((path.to_owned(), version));
        binary.or_insert_with(|| Binary::read(path, version).ok().map(Arc::new)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_put_in_place_of_the_mapped_one_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (mapped, other) = (folder.path().join("mapped"), folder.path().join("other"));
        let program = std::env::current_exe().unwrap();
        for path in [&mapped, &other] {
            fs::copy(&program, path).unwrap();
        }
        let file = Mapping::file_of(fs::metadata(&mapped).unwrap().ino());
        // The system's clock for files ticks less often than that of programs.
        std::thread::sleep(Duration::from_millis(50));
        let binaries = Binaries::default();
        assert!(binaries.mapped(&mapped, file).is_some());
        assert!(binaries.mapped(&mapped, file ^ 1).is_some(), "an old file may have two numbers");
        std::thread::sleep(Duration::from_millis(50));
        fs::rename(&other, &mapped).unwrap();
        assert!(binaries.mapped(&mapped, file).is_none());
        assert!(binaries.at(&mapped).is_some());
    }
}
