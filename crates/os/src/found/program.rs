//! The name of the program that this process runs.
//!
//! A process may write over its arguments, and `program_invocation_short_name` leads into them: nginx, PostgreSQL and
//! sshd show their state as a title there. The name is therefore that of the file, determined once.

use core::ffi::{CStr, c_char};
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::call::errno::errno_kept;
use crate::file::file_error::FileError;
use crate::file::output::Line;
use crate::file::own_file::with_own_path;

unsafe extern "C" {
    static program_invocation_name: *const c_char;
}

/// The longest name of a file on Linux.
pub const LONGEST_NAME: usize = 255;

/// The name of a file.
pub type FileName = Line<LONGEST_NAME>;

/// Returns the file name of the program that this process runs; never empty. Determined by the first call, which is to
/// come early (relative paths lead elsewhere when the process has changed its directory); children of `fork` have the
/// result of their parent.
///
/// It is the name by which the file was executed: that of the symbolic link where it was a link (`python3`, or `sh` for
/// a program with many names, as busybox is one). For a script it is that of the interpreter, as the first line names
/// it. Otherwise it is the last one that the system has for the file.
#[must_use]
pub fn program_name() -> FileName {
    static KEPT: KeptName = KeptName::new();
    KEPT.get_or(determine)
}

/// Returns the same name after all symbolic links have been followed, such as `python3.13` for `python3`. Empty where
/// it is not known.
#[must_use]
pub fn linked_program_name() -> FileName {
    static KEPT: KeptName = KeptName::new();
    KEPT.get_or(|| linked_name().unwrap_or_default())
}

/// Returns the file name that this process was told to execute: that of a script, where [`program_name`] is its
/// interpreter's. The system gives the process this name. Empty where it is not known.
#[must_use]
pub fn executed_name() -> FileName {
    named(last_part(executed_path().map_or(b"", CStr::to_bytes)))
}

fn determine() -> FileName {
    let paths = [executed_path(), first_argument()];
    let of_system = running_file().and_then(|running| {
        let is_running = |path: &&CStr| !is_made_by_system(path) && file_at(path) == Some(running);
        paths.into_iter().flatten().find(is_running).map(CStr::to_bytes).map(last_part).map(named)
    });
    let others = || paths.into_iter().flatten().map(|path| last_part(path.to_bytes())).find(|name| !name.is_empty());
    of_system.or_else(linked_name).or_else(|| others().map(named)).unwrap_or_else(|| named(b"unknown"))
}

/// Returns the path that the process was told to execute. It lies behind the arguments and the environment, where
/// titles do not reach.
fn executed_path() -> Option<&'static CStr> {
    // SAFETY: the call has no preconditions.
    let address = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    // SAFETY: the system's pointer leads to a C string that lives as long as the process.
    (address != 0).then(|| unsafe { CStr::from_ptr(with_exposed_provenance(address)) })
}

/// Returns the first argument if it is a path: the interpreter of a script has its own there.
fn first_argument() -> Option<&'static CStr> {
    // SAFETY: the C library's pointer is null or leads to a C string that lives as long as the process.
    let argument = unsafe { (!program_invocation_name.is_null()).then(|| CStr::from_ptr(program_invocation_name)) };
    argument.filter(|argument| argument.to_bytes().contains(&b'/'))
}

/// Whether a path leads to the file of the process in other words: its last part is no name of the file.
fn is_made_by_system(path: &CStr) -> bool {
    [&b"/proc/"[..], b"/dev/fd/"].iter().any(|folder| path.to_bytes().starts_with(folder))
}

/// What a file is recognised by.
type FileNumbers = (libc::dev_t, libc::ino_t);

fn running_file() -> Option<FileNumbers> {
    with_own_path(format_args!("exe"), |path| file_at(path).ok_or(FileError::NotFound)).ok()
}

fn file_at(path: &CStr) -> Option<FileNumbers> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and a `CStr` ends with a zero.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::stat(path.as_ptr(), &mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}

/// Returns the name of the file by the system's link to it.
#[cold]
#[inline(never)]
fn linked_name() -> Option<FileName> {
    const LONGEST_PATH: usize = 4096;
    let read = with_own_path(format_args!("exe"), |link| {
        let mut path = [0u8; LONGEST_PATH];
        // SAFETY: a `CStr` ends with a zero, and the buffer is an array, hence valid for writes of its length.
        let length = unsafe { libc::readlink(link.as_ptr(), path.as_mut_ptr().cast(), path.len()) };
        let length = usize::try_from(length).map_err(|_| FileError::last())?;
        let name = last_part(path.get(..length).unwrap_or_default());
        Ok(named(name.strip_suffix(b" (deleted)").unwrap_or(name)))
    });
    read.ok().filter(|name| !name.bytes().is_empty())
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

fn named(name: &[u8]) -> FileName {
    let mut line = FileName::new();
    line.push(name);
    line
}

/// A name that any thread may determine and keep, without a lock: they all determine the same one.
struct KeptName {
    bytes: [AtomicU8; LONGEST_NAME],
    /// 0 while there is no name.
    length: AtomicUsize,
}

impl KeptName {
    const fn new() -> KeptName {
        KeptName { bytes: [const { AtomicU8::new(0) }; LONGEST_NAME], length: AtomicUsize::new(0) }
    }

    /// Returns the name that is kept, or else the one that `determine` returns, which is kept from then on.
    fn get_or(&self, determine: impl FnOnce() -> FileName) -> FileName {
        self.get().unwrap_or_else(|| {
            let name = errno_kept(determine);
            self.keep(&name);
            name
        })
    }

    fn get(&self) -> Option<FileName> {
        let length = self.length.load(Ordering::Acquire);
        let mut name = FileName::new();
        self.bytes.get(..length)?.iter().for_each(|byte| name.push(&[byte.load(Ordering::Relaxed)]));
        (length > 0).then_some(name)
    }

    fn keep(&self, name: &FileName) {
        self.bytes.iter().zip(name.bytes()).for_each(|(kept, &byte)| kept.store(byte, Ordering::Relaxed));
        self.length.store(name.bytes().len(), Ordering::Release);
    }
}
