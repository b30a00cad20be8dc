//! Why a file could not be used.

use core::ffi::CStr;
use core::fmt;

use crate::errno::errno;

/// Why the system did not do what was asked with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// Nothing has this name, or a directory on the way to it is missing.
    NotFound,
    /// Something has this name already.
    Exists,
    /// This user may not do that, or the file system is read-only.
    Denied,
    /// It is something else than a regular file: a symbolic link, a directory, a pipe, a device.
    NotAFile,
    /// The file system is full, or the user's quota is used up.
    NoSpace,
    /// Longer than the process's limit on file sizes or than the file system allows.
    TooLong,
    /// The system is short of memory, addresses or descriptors, or a limit of the process on them is reached.
    Refused,
    /// Anything else, by the system's error number.
    Other(i32),
}

impl FileError {
    /// What the call that failed last on this thread says.
    pub(crate) fn last() -> FileError {
        Self::of(errno())
    }

    /// What an error number of the system means.
    #[must_use]
    pub fn of(code: i32) -> FileError {
        match code {
            libc::ENOENT | libc::ENOTDIR => FileError::NotFound,
            libc::EEXIST => FileError::Exists,
            libc::EACCES | libc::EPERM | libc::EROFS => FileError::Denied,
            libc::ELOOP | libc::EISDIR | libc::ENXIO => FileError::NotAFile,
            libc::ENOSPC | libc::EDQUOT => FileError::NoSpace,
            libc::EFBIG => FileError::TooLong,
            libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE => FileError::Refused,
            other => FileError::Other(other),
        }
    }
}

impl FileError {
    /// The system's error number; where several mean the same, one of them.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            FileError::NotFound => libc::ENOENT,
            FileError::Exists => libc::EEXIST,
            FileError::Denied => libc::EACCES,
            FileError::NotAFile => libc::EISDIR,
            FileError::NoSpace => libc::ENOSPC,
            FileError::TooLong => libc::EFBIG,
            FileError::Refused => libc::ENOMEM,
            FileError::Other(code) => code,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileError::NotFound => "there is no such file, or a directory on the way to it is missing",
            FileError::Exists => "something with this name exists already",
            FileError::Denied => "this user may not do that, or the file system is read-only",
            FileError::NotAFile => "it is not a regular file but a symbolic link, a directory, a pipe or a device",
            FileError::NoSpace => "the file system is full, or the user's quota is used up",
            FileError::TooLong => "longer than the limit on file sizes allows (`ulimit -f`, or the file system's own)",
            FileError::Refused => {
                "the system is short of memory, addresses or descriptors, or a limit of the process on them is reached"
            }
            FileError::Other(code) => return describe(*code, f),
        })
    }
}

impl core::error::Error for FileError {}

/// In the C library's words.
fn describe(code: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut buffer = [0u8; 128];
    // SAFETY: the buffer is valid for its length, and the system writes a C string into it.
    unsafe { libc::strerror_r(code, buffer.as_mut_ptr().cast(), buffer.len()) };
    let text = CStr::from_bytes_until_nul(&buffer).ok().and_then(|text| text.to_str().ok()).unwrap_or_default();
    write!(f, "{text} (error {code} of the system)")
}
