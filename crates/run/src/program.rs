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

use heapwright_allocators::elf::Elf;
use heapwright_host::files::has_capabilities;
use heapwright_host::names::Shown;

use crate::launch::ending;

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
        "no statistics: {name} ended without its exit handlers (as _exit does, and a daemon's first process), or was \
         started without LD_PRELOAD (env -i and sudo do this)"
    )
}

/// Returns one sentence on a process that was started as `name`, ran the program `last` at its end and reported that
/// this made no call.
pub fn why_without_calls(name: &OsStr, last: &str) -> String {
    let silent = "made no malloc-family call that got a block, or has its own malloc";
    let is_another = Path::new(name).file_name().is_some_and(|name| name.as_bytes() != last.as_bytes());
    // A script is run by another program anyway.
    let is_replaced = is_another && find(name).is_some_and(|path| !is_script(&path));
    match is_replaced {
        true => format!("{} was replaced by exec, and its statistics are lost: {last} {silent}", name.shown()),
        false => format!("{} {silent}", name.shown()),
    }
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
        return Some(format!(
            "is a {bits}-bit program for another processor architecture than that of the preloaded library"
        ));
    }
    let Some(linker) = program.linker else {
        return Some(
            "is statically linked, so that no library can be put in front of its malloc: build it without -static"
                .to_owned(),
        );
    };
    if own.linker.is_some_and(|own| file_name(&own) != file_name(&linker)) {
        let linker = String::from_utf8_lossy(&linker);
        return Some(format!("belongs to another C library than the preloaded one does (it is loaded by {linker})"));
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
    fn garbage_is_not_a_program() {
        let home = tempfile::tempdir().unwrap();
        for content in [&b""[..], b"\x7fELF", &[0xff; 200], b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0"] {
            let file = home.path().join("file");
            fs::write(&file, content).unwrap();
            assert_eq!(obstacle(&file).as_deref(), Some("is not an ELF program"));
        }
    }
}
