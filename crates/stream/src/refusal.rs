//! Notes of processes for which no stream could be made: empty files beside the streams, whose names say it all.

use core::ffi::CStr;
use core::fmt::Write;
use core::str::from_utf8;

use heapwright_os::{FileError, Line, create_empty, executed_name, process_id};

/// What the name of a note begins with. Names of streams begin with a digit.
const PREFIX: &[u8] = b".refused-";

/// The most bytes of a process's name that the system keeps.
const NAME: usize = 15;

/// A note, read from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal<'n> {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// The reason.
    pub error: FileError,
    /// The name that the system gave the process when it began its program.
    pub name: &'n [u8],
}

impl<'n> Refusal<'n> {
    /// Reads the name of a file; `None` if it is no note.
    #[must_use]
    pub fn of(file_name: &'n [u8]) -> Option<Refusal<'n>> {
        let mut parts = file_name.strip_prefix(PREFIX)?.splitn(3, |&byte| byte == b'-');
        let mut number = || from_utf8(parts.next()?).ok();
        let (pid, error) = (number()?.parse().ok()?, FileError::of(number()?.parse().ok()?));
        Some(Refusal { pid, error, name: parts.next()? })
    }
}

/// Leaves a note of this process in the directory of streams, as far as that is possible.
pub fn note_refusal(directory: &CStr, error: FileError) {
    let mut name = Line::<64>::new();
    name.push(PREFIX);
    let _ = write!(name, "{}-{}-", process_id(), error.code());
    let executed = executed_name();
    name.push(executed.bytes().get(..NAME).unwrap_or(executed.bytes()));
    name.push(b"\0");
    if let Ok(name) = CStr::from_bytes_with_nul(name.bytes()) {
        let _ = create_empty(directory, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_a_process_a_reason_and_a_name() {
        let found = Refusal::of(b".refused-17-28-a-b").unwrap();
        assert_eq!(found, Refusal { pid: 17, error: FileError::NoSpace, name: b"a-b" });
        assert_eq!(Refusal::of(b".refused-17-28-").map(|found| found.name), Some(&b""[..]));
        for other in [&b"17.28-0"[..], b".refused-17-28", b".refused-x-28-a", b".heapwright-17-0"] {
            assert_eq!(Refusal::of(other), None);
        }
    }
}
