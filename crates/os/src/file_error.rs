//! Errors of files.

use core::ffi::CStr;
use core::fmt;

use crate::errno::errno;
use crate::limits::MemoryLimit;

/// The reason for which the system refused an operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// No file has this name, or a directory of its path is missing.
    NotFound,
    /// A file of this name exists already.
    Exists,
    /// The user lacks permission, or the file system is read-only.
    Denied,
    /// It is not a regular file but a symbolic link, a directory, a pipe or a device.
    NotAFile,
    /// The file system is full, or the user's quota is used up.
    NoSpace,
    /// Longer than the process's limit on file sizes or than the file system allows.
    TooLong,
    /// The system is short of memory or address space, or a limit of the process on them is reached.
    NoMemory,
    /// The system is short of descriptors, or the process's limit on them is reached.
    NoDescriptors,
    /// The program closed the file's descriptor, and its number is that of another file now.
    Replaced,
    /// Anything else, by the system's error number.
    Other(i32),
}

impl FileError {
    /// The error of the last call that failed on this thread.
    pub(crate) fn last() -> FileError {
        Self::of(errno())
    }

    /// The error for an error number of the system.
    #[must_use]
    pub fn of(code: i32) -> FileError {
        match code {
            libc::ENOENT | libc::ENOTDIR => FileError::NotFound,
            libc::EEXIST => FileError::Exists,
            libc::EACCES | libc::EPERM | libc::EROFS => FileError::Denied,
            libc::ELOOP | libc::EISDIR | libc::ENXIO => FileError::NotAFile,
            libc::ENOSPC | libc::EDQUOT => FileError::NoSpace,
            libc::EFBIG => FileError::TooLong,
            libc::ENOMEM | libc::EAGAIN => FileError::NoMemory,
            libc::EMFILE | libc::ENFILE => FileError::NoDescriptors,
            other => FileError::Other(other),
        }
    }
}

impl FileError {
    /// Returns an error number of the system for this error.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            FileError::NotFound => libc::ENOENT,
            FileError::Exists => libc::EEXIST,
            FileError::Denied => libc::EACCES,
            FileError::NotAFile => libc::EISDIR,
            FileError::NoSpace => libc::ENOSPC,
            FileError::TooLong => libc::EFBIG,
            FileError::NoMemory => libc::ENOMEM,
            FileError::NoDescriptors => libc::EMFILE,
            FileError::Replaced => libc::EBADF,
            FileError::Other(code) => code,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileError::NotFound => "there is no such file, or a directory of its path is missing",
            FileError::Exists => "a file of this name exists already",
            FileError::Denied => "the user lacks permission, or the file system is read-only",
            FileError::NotAFile => "it is not a regular file but a symbolic link, a directory, a pipe or a device",
            FileError::NoSpace => "the file system is full, or the user's quota is used up",
            FileError::TooLong => "longer than the limit on file sizes allows (`ulimit -f`, or the file system's own)",
            FileError::NoMemory => {
                let advice = MemoryLimit::of_this_process().advice();
                return write!(f, "the system is short of memory or address space, or a limit is reached: {advice}");
            }
            FileError::NoDescriptors => {
                "the system is short of file descriptors, or the process's limit on them is reached (`ulimit -n`)"
            }
            FileError::Replaced => {
                "the program closed the descriptor of the file, whose number may be that of another file now"
            }
            FileError::Other(code) => return describe(*code, f),
        })
    }
}

impl core::error::Error for FileError {}

/// Writes the C library's description.
fn describe(code: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut buffer = [0u8; 128];
    // SAFETY: the buffer is an array, hence valid for writes of its length.
    unsafe { libc::strerror_r(code, buffer.as_mut_ptr().cast(), buffer.len()) };
    let text = CStr::from_bytes_until_nul(&buffer).ok().and_then(|text| text.to_str().ok()).unwrap_or_default();
    write!(f, "{text} (error {code} of the system)")
}
