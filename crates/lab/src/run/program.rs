//! What a program's file tells about why the drop-in library was not heard of.

use std::env;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use object::Endianness;
use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, ET_DYN, ET_EXEC, FileHeader32, FileHeader64, Machine, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::ending;

/// How many scripts may interpret one another; as the kernel has it.
const INTERPRETERS: usize = 4;

/// The file that is executed for `name`: itself when it is a path, else the first in `PATH` that may be executed.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return path.exists().then_some(path);
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// One sentence on why the program left no statistics, the likeliest reason that can be found out.
pub fn why_unheard(name: &OsStr, status: ExitStatus) -> String {
    if let Some(obstacle) = obstacle_of(name) {
        return format!("nothing was intercepted: {obstacle}");
    }
    let name = name.display();
    if status.signal().is_some() {
        return format!("no statistics: {name} was ended by {} before it could report", ending(status));
    }
    format!(
        "no statistics: {name} ended without its exit handlers (as _exit does), or was started anew without \
         LD_PRELOAD (as env -i and sudo do)"
    )
}

/// What keeps a library from being preloaded into the program, if its file shows it; begins with the file's path.
pub fn obstacle_of(name: &OsStr) -> Option<String> {
    let path = find(name).map_or_else(|| PathBuf::from(name), interpreter_of);
    obstacle(&path).map(|obstacle| format!("{} {obstacle}", path.display()))
}

/// The program that a script is run by, through all scripts on the way; a program that is no script is its own.
fn interpreter_of(mut path: PathBuf) -> PathBuf {
    for _ in 0..INTERPRETERS {
        let Some(interpreter) = shebang(&path) else { break };
        path = interpreter;
    }
    path
}

/// How long the first line of a script may be; as the kernel has it.
const FIRST_LINE: u64 = 256;

/// What the first line of a script names.
fn shebang(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let name = line.trim_ascii_start().split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// How the libraries of those sanitizers are called that replace malloc.
const SANITIZERS: [&str; 5] = ["libasan.so", "libhwasan.so", "liblsan.so", "libmsan.so", "libtsan.so"];

/// What keeps the dynamic linker from loading the drop-in library into a program, if its file shows it.
fn obstacle(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let own = Elf::read(&env::current_exe().ok().and_then(|path| File::open(path).ok())?)?;
    let Some(program) = Elf::read(&file) else {
        return Some("is not an ELF program".to_owned());
    };
    if (program.bits, program.machine) != (own.bits, own.machine) {
        let bits = program.bits;
        return Some(format!("is a {bits}-bit program for another kind of processor than the drop-in library"));
    }
    let Some(linker) = program.linker else {
        return Some("is statically linked, so that no library can be put in front of its malloc".to_owned());
    };
    if own.linker.is_some_and(|own| file_name(&own) != file_name(&linker)) {
        let linker = String::from_utf8_lossy(&linker);
        return Some(format!("belongs to another C library than the drop-in library's (it is loaded by {linker})"));
    }
    if let Some(sanitizer) = program.needed.iter().find(|name| SANITIZERS.iter().any(|one| name.starts_with(one))) {
        return Some(format!(
            "is built with a sanitizer ({sanitizer}), which has a malloc of its own that must come first"
        ));
    }
    is_privileged(path).then(|| {
        "has privileges of its own (set-user-ID, set-group-ID or file capabilities), and the dynamic linker preloads \
         nothing into such programs"
            .to_owned()
    })
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Whether a program gets privileges that its caller lacks.
fn is_privileged(path: &Path) -> bool {
    const SET_ID: u32 = 0o6000;
    let set_id = fs::metadata(path).is_ok_and(|found| found.permissions().mode() & SET_ID != 0);
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return set_id };
    // SAFETY: both strings end with a zero byte, and a size of 0 asks for the length only.
    let capabilities =
        unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    set_id || capabilities > 0
}

/// What matters of an ELF program.
struct Elf {
    bits: u8,
    machine: Machine,
    /// The path of the dynamic linker that loads it; none for a static program.
    linker: Option<Vec<u8>>,
    /// The libraries that it names; none where that cannot be read.
    needed: Vec<String>,
}

impl Elf {
    /// Reads no more of the file than it has to.
    fn read(file: &File) -> Option<Elf> {
        let content = ReadCache::new(file);
        Elf::of_header::<FileHeader64<Endianness>>(&content, 64)
            .or_else(|| Elf::of_header::<FileHeader32<Endianness>>(&content, 32))
    }

    fn of_header<H: FileHeader>(content: &ReadCache<&File>, bits: u8) -> Option<Elf> {
        let header = H::parse(content).ok()?;
        let endian = header.endian().ok()?;
        if ![ET_EXEC, ET_DYN].contains(&header.e_type(endian)) {
            return None;
        }
        let segments = header.program_headers(endian, content).ok()?;
        let interpreter = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP);
        let linker = interpreter.and_then(|segment| segment.data(endian, content).ok());
        let linker = linker.map(|name| name.strip_suffix(b"\0").unwrap_or(name).to_vec());
        let needed = needed::<H>(segments, endian, content).unwrap_or_default();
        Some(Elf { bits, machine: header.e_machine(endian), linker, needed })
    }
}

/// The libraries that a program names.
fn needed<H: FileHeader>(
    segments: &[H::ProgramHeader],
    endian: H::Endian,
    content: &ReadCache<&File>,
) -> Option<Vec<String>> {
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, content).ok().flatten())?;
    let values =
        |tag| entries.iter().filter(move |entry| entry.d_tag(endian) == tag).map(|entry| entry.d_val(endian).into());
    let value = |tag| -> Option<u64> { values(tag).next() };
    let (start, length) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let text = segments.iter().find_map(|segment| segment.data_range(endian, content, start, length).ok().flatten())?;
    let name = |at: u64| text.get(usize::try_from(at).ok()?..)?.split(|&byte| byte == 0).next();
    let names = values(DT_NEEDED).filter_map(name);
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_stands_for_its_interpreter() {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("script");
        fs::write(&script, "#! /bin/sh -e\necho").unwrap();
        assert_eq!(interpreter_of(script), Path::new("/bin/sh"));
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("script");
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(interpreter_of(script.clone()), script);
    }

    #[test]
    fn this_very_program_has_no_obstacle() {
        assert_eq!(obstacle(&env::current_exe().unwrap()), None);
    }

    #[test]
    fn a_program_with_privileges_is_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let copy = home.path().join("copy");
        fs::copy(env::current_exe().unwrap(), &copy).unwrap();
        assert_eq!(obstacle(&copy), None);
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(obstacle(&copy).is_some_and(|obstacle| obstacle.contains("set-user-ID")));
    }

    #[test]
    fn a_program_for_another_processor_is_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let copy = home.path().join("copy");
        let mut content = fs::read(env::current_exe().unwrap()).unwrap();
        // The machine's number stands at byte 18 of every ELF file; 0x5a5a is nobody's.
        content[18..20].copy_from_slice(&[0x5a, 0x5a]);
        fs::write(&copy, content).unwrap();
        assert!(obstacle(&copy).is_some_and(|obstacle| obstacle.contains("another kind of processor")));
    }

    #[test]
    fn garbage_is_not_a_program() {
        let home = tempfile::tempdir().unwrap();
        for content in [&b""[..], b"\x7fELF", &[0xff; 200], b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0"] {
            let file = home.path().join("file");
            fs::write(&file, content).unwrap();
            assert_eq!(obstacle(&file).as_deref(), Some("is not an ELF program"));
        }
    }
}
