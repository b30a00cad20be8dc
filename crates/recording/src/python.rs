//! Detects Python's own allocator, which hides a program's objects from the recorder.
//!
//! CPython places objects of up to 512 bytes in arenas that it maps itself (pymalloc; free-threaded builds: mimalloc),
//! so that malloc is called for the rest only. `PYTHONMALLOC=malloc` makes every object a block of malloc's
//! (<https://docs.python.org/3/using/cmdline.html#envvar-PYTHONMALLOC>).

use std::fs;
use std::os::unix::ffi::OsStrExt;

use heapwright_allocators::preload::RECORD_PYTHON;

/// The environment variable that selects Python's allocator.
pub(crate) const VARIABLE: &str = "PYTHONMALLOC";

/// The value of [`VARIABLE`] by which all objects are blocks of malloc's.
pub(crate) const BY_MALLOC: &str = "malloc";

/// Why the small objects of a Python interpreter do not come from malloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// It was not asked for that.
    NotAsked,
    /// It was started with an option by which it reads no variables: `-E` or `-I`.
    ReadsNoVariables,
}

/// Returns why small objects of the live process `pid` do not come from malloc, if it is a Python interpreter, or has
/// one loaded, and they do not. Returns `None` for a process that has ended.
pub fn hidden_objects(pid: u32) -> Option<Hidden> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    if !has_interpreter(&String::from_utf8_lossy(&read("maps"))) {
        return None;
    }
    if !asks_for_malloc(&read("environ")) {
        return Some(Hidden::NotAsked);
    }
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    // Where a program has an interpreter loaded, its options are its own.
    let is_python = program.file_name().is_some_and(|name| name.as_bytes().starts_with(b"python"));
    (is_python && reads_no_variables(&read("cmdline"))).then_some(Hidden::ReadsNoVariables)
}

/// Returns whether an interpreter's arguments, as the system keeps them, have `-E` or `-I` before the program.
fn reads_no_variables(arguments: &[u8]) -> bool {
    let mut arguments = arguments.split(|&byte| byte == 0).skip(1);
    while let Some(argument) = arguments.next() {
        let Some(mut letters) = argument.strip_prefix(b"-").filter(|letters| !letters.is_empty()) else { return false };
        while let [letter, rest @ ..] = letters {
            match letter {
                b'E' | b'I' => return true,
                // The program follows.
                b'c' | b'm' => return false,
                // A value follows, here or as the next argument.
                b'W' | b'X' if rest.is_empty() => drop(arguments.next()),
                b'W' | b'X' => break,
                b'-' => {
                    if rest == VALUED {
                        arguments.next();
                    }
                    break;
                }
                _ => {}
            }
            letters = rest;
        }
    }
    false
}

/// The long option that has a value, without its hyphens.
const VALUED: &[u8] = b"check-hash-based-pycs";

/// Returns the version of the interpreter that the live process `pid` runs, such as `3.10`, if its frames were asked
/// for and cannot be read: those of other versions than 3.11 to 3.14, and of free-threaded ones.
pub fn version_without_frames(pid: u32) -> Option<String> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let asked = |variable: &[u8]| variable.starts_with(RECORD_PYTHON.as_bytes());
    let is_asked = || read("environ").split(|&byte| byte == 0).any(asked);
    version(&String::from_utf8_lossy(&read("maps"))).filter(|version| !has_frames(version) && is_asked())
}

fn has_frames(version: &str) -> bool {
    let minor = version.strip_prefix("3.").and_then(|minor| minor.parse().ok());
    minor.is_some_and(|minor: u32| (11..=14).contains(&minor))
}

/// Returns whether one of a process's mapped files is CPython: `.../python3.11`, `.../libpython3.11.so.1.0`.
fn has_interpreter(maps: &str) -> bool {
    interpreters(maps).next().is_some()
}

/// Returns the version of an interpreter that is in the name of a mapped file: `3.12`; `3.13t` of a free-threaded one.
fn version(maps: &str) -> Option<String> {
    interpreters(maps).find_map(|rest| {
        let mut parts = rest.split('.');
        let (major, minor) = (parts.next()?, parts.next()?);
        minor.starts_with(|c: char| c.is_ascii_digit()).then(|| format!("{major}.{minor}"))
    })
}

/// Returns what follows `python` in the names of mapped files of CPython.
fn interpreters(maps: &str) -> impl Iterator<Item = &str> {
    let file_names = maps.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name);
    let is_version = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_digit());
    file_names.filter_map(move |name| {
        let program = name.strip_prefix("python").filter(|rest| rest.is_empty() || is_version(rest));
        program.or_else(|| name.strip_prefix("libpython").filter(is_version))
    })
}

/// Returns whether an environment sets `PYTHONMALLOC` to `malloc` or `malloc_debug`.
fn asks_for_malloc(environment: &[u8]) -> bool {
    let value = environment.split(|&byte| byte == 0).find_map(|variable| variable.strip_prefix(b"PYTHONMALLOC="));
    value.is_some_and(|value| value.starts_with(b"malloc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_found_among_mapped_files() {
        let map = |path: &str| format!("5600-5700 r--p 00000000 fe:01 1234    {path}\n7f00-7f01 rw-p 0 00:00 0\n");
        for path in ["/usr/bin/python3.11", "/opt/bin/python", "/usr/lib/libpython3.12.so.1.0"] {
            assert!(has_interpreter(&map(path)), "{path}");
        }
        for path in ["/usr/bin/pythonic", "/usr/lib/python3/dist-packages/x.so", "/usr/bin/perl", "[heap]"] {
            assert!(!has_interpreter(&map(path)), "{path}");
        }
    }

    #[test]
    fn versions_are_those_in_the_names_of_files() {
        for (path, expected, has) in [
            ("/usr/bin/python3.11", Some("3.11"), true),
            ("/usr/lib/libpython3.14.so.1.0", Some("3.14"), true),
            ("/usr/lib/libpython3.13t.so.1.0", Some("3.13t"), false),
            ("/opt/bin/python3.10", Some("3.10"), false),
            ("/usr/lib/libpython2.7.so.1.0", Some("2.7"), false),
            ("/opt/bin/python3.15", Some("3.15"), false),
            ("/opt/bin/python3", None, false),
            ("/usr/bin/perl", None, false),
        ] {
            let found = version(&format!("7f00-7f01 r--p 00000000 fe:01 1234    {path}\n"));
            assert_eq!(found.as_deref(), expected, "{path}");
            assert_eq!(found.is_some_and(|version| has_frames(&version)), has, "{path}");
        }
    }

    #[test]
    fn options_by_which_no_variables_are_read_are_understood() {
        for (options, expected) in [
            (&["-E"][..], true),
            (&["-I", "s.py"], true),
            (&["-Es", "s.py"], true),
            (&["-sI"], true),
            (&["-X", "importtime", "-W", "error", "-E"], true),
            (&["-Ximporttime", "-E", "s.py"], true),
            (&["--check-hash-based-pycs", "never", "-I"], true),
            (&["s.py", "-E"], false),
            (&["-c", "-E"], false),
            (&["-m", "pip", "-I"], false),
            (&["-um", "x", "-I"], false),
            (&["-X", "-E", "s.py"], false),
            (&["-WEI", "s.py"], false),
            (&["-", "-E"], false),
            (&[], false),
        ] {
            let arguments = [&["python3"], options].concat().join("\0") + "\0";
            assert_eq!(reads_no_variables(arguments.as_bytes()), expected, "{options:?}");
        }
    }

    #[test]
    fn an_environment_that_asks_for_malloc_is_understood() {
        for (environment, expected) in [
            (&b"A=1\0PYTHONMALLOC=malloc\0"[..], true),
            (b"PYTHONMALLOC=malloc_debug\0", true),
            (b"PYTHONMALLOC=pymalloc\0", false),
            (b"PYTHONMALLOC=\0", false),
            (b"XPYTHONMALLOC=malloc\0", false),
            (b"", false),
        ] {
            assert_eq!(asks_for_malloc(environment), expected, "{}", String::from_utf8_lossy(environment));
        }
    }
}
