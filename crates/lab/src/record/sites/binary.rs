//! The files that code comes from: what an unwinder needs of them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use framehop::ExplicitModuleSectionInfo;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ReadCache};

/// What is known of a program or a library.
pub struct Binary {
    /// Which state of the file it is.
    pub version: Version,
    /// Segments with code.
    code: Vec<Segment>,
    /// The lowest address that the file asks for.
    lowest: u64,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
}

/// A part of the file that is mapped.
struct Segment {
    offset: u64,
    length: u64,
    address: u64,
}

struct Section {
    range: Range<u64>,
    bytes: Arc<[u8]>,
}

impl Binary {
    fn read(path: &Path, version: Version) -> Result<Binary> {
        let file = ReadCache::new(BufReader::new(File::open(path)?));
        let elf = ElfFile64::<object::Endianness, _>::parse(&file)?;
        let endian = elf.endian();
        let loads = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == object::elf::PT_LOAD);
        let lowest = loads.clone().map(|header| header.p_vaddr(endian)).min().context("nothing of it is mapped")?;
        let code = loads
            .filter(|header| header.p_flags(endian).contains(object::elf::PF_X))
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
        let section = |name| {
            let bytes = elf.section_by_name(name)?.data().ok()?;
            Some(Section { range: range(name)?, bytes: Arc::from(bytes) })
        };
        Ok(Binary {
            version,
            code,
            lowest,
            text: range(".text"),
            got: range(".got"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
        })
    }

    /// By how much the addresses of a process differ from the file's, when it has mapped code of the file from `offset` on at
    /// `start`.
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

    /// Where the lowest address of the file is in a process with this bias.
    pub fn base(&self, bias: u64) -> u64 {
        bias.wrapping_add(self.lowest)
    }

    /// What framehop needs.
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

/// What tells one state of a file from another: other contents under the same name are another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    inode: u64,
    modified: (i64, i64),
}

impl Version {
    /// That of the file at `path` now.
    pub fn of(path: &Path) -> Option<Version> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Version { inode: found.ino(), modified: (found.mtime(), found.mtime_nsec()) })
    }
}

/// What was found under a path, in one of its states.
type Found = HashMap<(PathBuf, Version), Option<Arc<Binary>>>;

/// Binaries, each read once for all processes of a recording.
#[derive(Clone, Default)]
pub struct Binaries {
    known: Arc<Mutex<Found>>,
}

impl Binaries {
    /// The binary at `path`; `None` when it is not one, or cannot be read.
    pub fn at(&self, path: &Path) -> Option<Arc<Binary>> {
        let version = Version::of(path)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let binary = known.entry((path.to_owned(), version));
        binary.or_insert_with(|| Binary::read(path, version).ok().map(Arc::new)).clone()
    }
}
