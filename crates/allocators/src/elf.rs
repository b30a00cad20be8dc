//! ELF files: what the dynamic linker can load.

use std::env;
use std::fs::File;
use std::path::Path;

use object::Endianness;
use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, ET_DYN, ET_EXEC, FileHeader32, FileHeader64, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// Returns why the dynamic linker cannot load a file into programs like this command, if its header shows it. It would
/// print a line and start the program without the file.
#[must_use]
pub fn why_unloadable(path: &Path) -> Option<&'static str> {
    let library = path.is_file().then(|| File::open(path)).and_then(|file| Elf::read(&file.ok()?));
    match (library, Elf::of_this_command()) {
        (None, _) => Some("it is not an ELF shared object"),
        (Some(library), _) if !library.is_shared_object => Some("it is an ELF program, not a shared object"),
        (Some(library), Some(own)) if (library.bits, library.machine) != (own.bits, own.machine) => {
            Some("it is for another processor architecture")
        }
        _ => None,
    }
}

/// What matters here of an ELF program or shared object.
pub struct Elf {
    /// The length of its addresses in bits.
    pub bits: u8,
    /// The number of the kind of processor (`e_machine`).
    pub machine: u16,
    /// Whether it is position-independent and names no dynamic linker.
    pub is_shared_object: bool,
    /// Path of the dynamic linker; none for a static program.
    pub linker: Option<Vec<u8>>,
    /// The needed libraries; none if they cannot be read.
    pub needed: Vec<String>,
}

impl Elf {
    /// Reads no more of the file than necessary; `None` if it is neither.
    pub fn read(file: &File) -> Option<Elf> {
        let content = ReadCache::new(file);
        Elf::of_header::<FileHeader64<Endianness>>(&content, 64)
            .or_else(|| Elf::of_header::<FileHeader32<Endianness>>(&content, 32))
    }

    /// Returns what this command is.
    pub fn of_this_command() -> Option<Elf> {
        Elf::read(&File::open(env::current_exe().ok()?).ok()?)
    }

    fn of_header<H: FileHeader>(content: &ReadCache<&File>, bits: u8) -> Option<Elf> {
        let header = H::parse(content).ok()?;
        let endian = header.endian().ok()?;
        let kind = header.e_type(endian);
        if ![ET_EXEC, ET_DYN].contains(&kind) {
            return None;
        }
        let segments = header.program_headers(endian, content).ok()?;
        let interpreter = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP);
        let linker = interpreter.and_then(|segment| segment.data(endian, content).ok());
        let linker = linker.map(|name| name.strip_suffix(b"\0").unwrap_or(name).to_vec());
        let needed = needed::<H>(segments, endian, content).unwrap_or_default();
        let is_shared_object = kind == ET_DYN && linker.is_none();
        Some(Elf { bits, machine: header.e_machine(endian), is_shared_object, linker, needed })
    }
}

/// Returns the libraries that a program needs.
fn needed<H: FileHeader>(
    segments: &[H::ProgramHeader],
    endian: H::Endian,
    content: &ReadCache<&File>,
) -> Option<Vec<String>> {
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, content).ok().flatten())?;
    let values = |tag| {
        entries.iter().filter(move |entry| entry.d_tag(endian).into() == tag).map(|entry| entry.d_val(endian).into())
    };
    let value = |tag| -> Option<u64> { values(tag).next() };
    let (start, length) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let text = segments.iter().find_map(|segment| segment.data_range(endian, content, start, length).ok().flatten())?;
    let name = |at: u64| text.get(usize::try_from(at).ok()?..)?.split(|&byte| byte == 0).next();
    let names = values(DT_NEEDED).filter_map(name);
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_shared_objects_for_this_processor_are_libraries() {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("library");
        let said = || why_unloadable(&library).unwrap_or_default();
        assert_eq!(why_unloadable(home.path()), Some("it is not an ELF shared object"));
        let mut content = fs::read(crate::preload::library(None).unwrap()).unwrap();
        fs::write(&library, &content).unwrap();
        assert_eq!(said(), "");
        // The machine's number is at byte 18 of every ELF file; 0x5a5a is unassigned.
        content[18..20].copy_from_slice(&[0x5a, 0x5a]);
        fs::write(&library, &content).unwrap();
        assert_eq!(said(), "it is for another processor architecture");
        fs::copy(env::current_exe().unwrap(), &library).unwrap();
        assert_eq!(said(), "it is an ELF program, not a shared object");
        fs::write(&library, "root:x:0:0\n").unwrap();
        assert_eq!(said(), "it is not an ELF shared object");
    }
}
