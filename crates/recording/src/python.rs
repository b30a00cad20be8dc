//! Detects Python's own allocator, which hides a program's objects from the recorder.
//!
//! CPython places objects of up to 512 bytes in arenas that it maps itself (pymalloc; free-threaded builds: mimalloc),
//! so that malloc is called for the rest only. `PYTHONMALLOC=malloc` makes every object a block of malloc's
//! (<https://docs.python.org/3/using/cmdline.html#envvar-PYTHONMALLOC>).

use std::fs;

/// The environment variable that selects Python's allocator.
pub(crate) const VARIABLE: &str = "PYTHONMALLOC";

/// The value of [`VARIABLE`] by which all objects are blocks of malloc's.
pub(crate) const BY_MALLOC: &str = "malloc";

/// Returns whether the live process `pid` is a Python interpreter, or has one loaded, whose small objects do not come
/// from malloc.
/// Returns `false` for a process that has ended.
pub fn hides_objects(pid: u32) -> bool {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    has_interpreter(&String::from_utf8_lossy(&read("maps"))) && !asks_for_malloc(&read("environ"))
}

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
