//! Explains from a program's file why the drop-in library did not report.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Result, bail};
use heapwright_host::files::has_capabilities;
use heapwright_host::names::Shown;
use object::Endianness;
use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, ET_DYN, ET_EXEC, FileHeader32, FileHeader64, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::ending;

/// The most scripts that may interpret one another, as in the kernel.
const INTERPRETERS: usize = 4;

/// Returns the file that is executed for `name`: itself when it is a path, otherwise the first executable one in
/// `PATH`.
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

/// Why a program that was not ended by a signal left incomplete statistics, and what to do.
pub const WHY_CUT: &str = "there was no room on its disk: make room there, or name another directory by TMPDIR";

/// Returns one sentence with the likeliest reason why the program left no statistics.
pub fn why_unreported(name: &OsStr, status: ExitStatus) -> String {
    if let Some(obstacle) = obstacle_of(name) {
        return format!("nothing was intercepted: {obstacle}");
    }
    let name = name.shown();
    if status.signal().is_some() {
        return format!("no statistics: {name} was ended by {} before it could report", ending(status));
    }
    format!(
        "no statistics: {name} ended without its exit handlers (as _exit does), or was started without \
         LD_PRELOAD (env -i and sudo do this)"
    )
}

/// Returns whether the drop-in library ended the program at its start, for what its variables say. Then it ends any
/// program with the environment of `command`, this one as well.
pub fn is_refused_by_library(command: &Command, status: ExitStatus) -> bool {
    /// The library's exit code then.
    const REFUSED: i32 = 2;
    let ends_so = |status: ExitStatus| status.code() == Some(REFUSED);
    let Some(own) = env::current_exe().ok().filter(|_| ends_so(status)) else { return false };
    let mut probe = Command::new(own);
    probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => probe.env(name, value),
            None => probe.env_remove(name),
        };
    }
    probe.status().is_ok_and(ends_so)
}

/// Checks that a file is a shared object that the dynamic linker can load into programs like this command. It would
/// print a line and start the program without it otherwise.
///
/// # Errors
/// When it is something else.
pub fn check_library(path: &Path) -> Result<()> {
    let reason = match (
        path.is_file().then(|| File::open(path)).and_then(|file| Elf::read(&file.ok()?)),
        Elf::of_this_command(),
    ) {
        (None, _) => "it is not an ELF shared object",
        (Some(library), _) if !library.is_shared_object => "it is an ELF program, not a shared object",
        (Some(library), Some(own)) if (library.bits, library.machine) != (own.bits, own.machine) => {
            "it is for another processor architecture"
        }
        _ => return Ok(()),
    };
    bail!("cannot use the drop-in library {}: {reason}", path.shown())
}

/// Returns what prevents a library from being preloaded into the program, if its file shows it; begins with the file's
/// path.
pub fn obstacle_of(name: &OsStr) -> Option<String> {
    let path = find(name).map_or_else(|| PathBuf::from(name), interpreter_of);
    obstacle(&path).map(|obstacle| format!("{} {obstacle}", path.shown())).or_else(preloaded_obstacle)
}

/// Returns which library that LD_PRELOAD names already does not load behind another one.
fn preloaded_obstacle() -> Option<String> {
    let preloaded = env::var_os("LD_PRELOAD")?;
    let sanitizer = preloaded.as_bytes().split(|byte| b": ".contains(byte)).find(|library| {
        let name = library.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer.as_bytes()))
    })?;
    let name = OsStr::from_bytes(sanitizer).shown();
    Some(format!("LD_PRELOAD names {name}, which replaces malloc and must be loaded first: unset it"))
}

/// Follows the interpreters of a script to a program that is not a script.
fn interpreter_of(mut path: PathBuf) -> PathBuf {
    for _ in 0..INTERPRETERS {
        let Some(interpreter) = shebang(&path) else { break };
        path = interpreter;
    }
    path
}

/// The most bytes of a script's first line, as in the kernel.
const FIRST_LINE: u64 = 256;

/// Returns whether a file is a script that names its interpreter.
pub fn is_script(path: &Path) -> bool {
    path.is_file() && shebang(path).is_some()
}

/// Returns the interpreter in the first line of a script.
fn shebang(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let name = line.trim_ascii_start().split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// File names of the sanitizers' libraries that replace malloc.
const SANITIZERS: [&str; 5] = ["libasan.so", "libhwasan.so", "liblsan.so", "libmsan.so", "libtsan.so"];

/// Returns what prevents the dynamic linker from loading the drop-in library into a program, if its file shows it.
fn obstacle(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let own = Elf::of_this_command()?;
    let Some(program) = Elf::read(&file) else {
        return Some("is not an ELF program".to_owned());
    };
    if (program.bits, program.machine) != (own.bits, own.machine) {
        let bits = program.bits;
        return Some(format!("is a {bits}-bit program for another processor architecture than the drop-in library's"));
    }
    let Some(linker) = program.linker else {
        return Some(
            "is statically linked, so that no library can be put in front of its malloc: build it without -static"
                .to_owned(),
        );
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

/// Returns whether a program gains privileges that its caller lacks.
fn is_privileged(path: &Path) -> bool {
    const SET_ID: u32 = 0o6000;
    let set_id = fs::metadata(path).is_ok_and(|found| found.permissions().mode() & SET_ID != 0);
    set_id || has_capabilities(path)
}

/// The facts about an ELF program that matter here.
struct Elf {
    bits: u8,
    /// The number of the kind of processor (`e_machine`).
    machine: u16,
    /// Whether it is position-independent and names no dynamic linker.
    is_shared_object: bool,
    /// Path of the dynamic linker; none for a static program.
    linker: Option<Vec<u8>>,
    /// The needed libraries; none if they cannot be read.
    needed: Vec<String>,
}

impl Elf {
    /// Reads no more of the file than necessary.
    fn read(file: &File) -> Option<Elf> {
        let content = ReadCache::new(file);
        Elf::of_header::<FileHeader64<Endianness>>(&content, 64)
            .or_else(|| Elf::of_header::<FileHeader32<Endianness>>(&content, 32))
    }

    fn of_this_command() -> Option<Elf> {
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
        // The machine's number is at byte 18 of every ELF file; 0x5a5a is unassigned.
        content[18..20].copy_from_slice(&[0x5a, 0x5a]);
        fs::write(&copy, content).unwrap();
        assert!(obstacle(&copy).is_some_and(|obstacle| obstacle.contains("another processor architecture")));
    }

    #[test]
    fn only_shared_objects_for_this_processor_are_libraries() {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("library");
        let said = || check_library(&library).err().map_or_else(String::new, |error| error.to_string());
        assert!(check_library(home.path()).is_err() && said().ends_with("it is not an ELF shared object"));
        let mut content = fs::read(heapwright_allocators::preload::library(None).unwrap()).unwrap();
        fs::write(&library, &content).unwrap();
        assert_eq!(said(), "");
        // The machine's number, see above.
        content[18..20].copy_from_slice(&[0x5a, 0x5a]);
        fs::write(&library, &content).unwrap();
        assert!(said().ends_with("it is for another processor architecture"), "{}", said());
        fs::copy(env::current_exe().unwrap(), &library).unwrap();
        assert!(said().ends_with("it is an ELF program, not a shared object"), "{}", said());
        fs::write(&library, "root:x:0:0\n").unwrap();
        assert!(said().ends_with("it is not an ELF shared object"), "{}", said());
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
