//! Detects Python's own allocator, which hides a program's objects from the recorder.
//!
//! CPython places objects of up to 512 bytes in arenas that it maps itself (pymalloc; free-threaded builds: mimalloc),
//! so that malloc is called for the rest only. `PYTHONMALLOC=malloc` makes every object a block of malloc's
//! (<https://docs.python.org/3/using/cmdline.html#envvar-PYTHONMALLOC>).

use std::fs;
use std::os::unix::ffi::OsStrExt;

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

/// Returns whether one of a process's mapped files is CPython: `.../python3.11`, `.../libpython3.11.so.1.0`.
fn has_interpreter(maps: &str) -> bool {
    let file_names = maps.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name);
    let is_version = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let mut interpreters = file_names.filter(|name| {
        let program = name.strip_prefix("python").is_some_and(|rest| rest.is_empty() || is_version(rest));
        program || name.strip_prefix("libpython").is_some_and(is_version)
    });
    interpreters.next().is_some()
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
