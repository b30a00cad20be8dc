//! Errors of files.

use core::fmt;

use crate::call::errno::errno;
use crate::own::limits::MemoryLimit;

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

/// Writes the meaning of an error number and its name, as far as they are known. Not by the C library's `strerror_r`,
/// which translates: it allocates, and takes locks of the library.
fn describe(code: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match meaning(code) {
        Some((name, text)) => write!(f, "{text} ({name}, error {code} of the system)"),
        None => write!(f, "error {code} of the system"),
    }
}

/// Returns the name and the meaning of the error numbers that operations on files have.
fn meaning(code: i32) -> Option<(&'static str, &'static str)> {
    Some(match code {
        libc::EINTR => ("EINTR", "interrupted by a signal"),
        libc::EIO => ("EIO", "input or output failed"),
        libc::EBADF => ("EBADF", "the file descriptor is not open for this"),
        libc::EFAULT => ("EFAULT", "bad address"),
        libc::EBUSY => ("EBUSY", "the file or device is in use"),
        libc::EXDEV => ("EXDEV", "the two paths are on different file systems"),
        libc::ENODEV => ("ENODEV", "the file system or device cannot do this"),
        libc::EINVAL => ("EINVAL", "the file system does not take these arguments"),
        libc::ETXTBSY => ("ETXTBSY", "the file is a program that is running"),
        libc::ESPIPE => ("ESPIPE", "the file has no positions"),
        libc::EMLINK => ("EMLINK", "the file has too many names"),
        libc::EPIPE => ("EPIPE", "the reader has closed the pipe"),
        libc::EDEADLK => ("EDEADLK", "waiting for this lock would never end"),
        libc::ENAMETOOLONG => ("ENAMETOOLONG", "the path or a name in it is too long"),
        libc::ENOLCK => ("ENOLCK", "the system has no more file locks"),
        libc::ENOSYS => ("ENOSYS", "the system does not have this call, or a filter refuses it"),
        libc::EOPNOTSUPP => ("EOPNOTSUPP", "the file system does not support this"),
        libc::EOVERFLOW => ("EOVERFLOW", "a number is too large for the system"),
        libc::ENOTCONN => ("ENOTCONN", "the process that serves the file system has ended"),
        libc::ECONNREFUSED => ("ECONNREFUSED", "the connection was refused"),
        libc::ETIMEDOUT => ("ETIMEDOUT", "timed out"),
        libc::EHOSTDOWN => ("EHOSTDOWN", "the host of the file system is down"),
        libc::EHOSTUNREACH => ("EHOSTUNREACH", "the host of the file system cannot be reached"),
        libc::ESTALE => ("ESTALE", "the file is gone from its remote file system"),
        libc::EUCLEAN => ("EUCLEAN", "the file system is damaged"),
        libc::EREMOTEIO => ("EREMOTEIO", "input or output failed on a remote host"),
        libc::ENOKEY => ("ENOKEY", "the key of the encrypted file is missing"),
        libc::EHWPOISON => ("EHWPOISON", "the memory has a hardware error"),
        _ => return None,
    })
}
