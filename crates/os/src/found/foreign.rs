//! The memory of another process, read without stopping it.

use core::fmt;

use crate::call::errno::{errno, errno_kept};

/// Why the memory of another process could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignError {
    /// The system does not permit this process to read that one.
    Denied,
    /// There is no such process, or not any more.
    Gone,
    /// Nothing is mapped there.
    Unmapped,
    /// Anything else, by the system's error number.
    Other(i32),
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignError::Denied => f.write_str("the system does not permit this process to read that one's memory"),
            ForeignError::Gone => f.write_str("there is no such process"),
            ForeignError::Unmapped => f.write_str("nothing is mapped there"),
            ForeignError::Other(code) => write!(f, "error {code} of the system"),
        }
    }
}

impl core::error::Error for ForeignError {}

/// Fills `buffer` with the memory of process `pid` at `address`; returns the number of bytes before the first page that
/// is not mapped, at least one unless the buffer is empty.
///
/// The process runs meanwhile: its writes may be read in part. Permitted where tracing is: for processes of the same
/// user, on some systems only for descendants.
///
/// ```
/// use heapwright_os::read_foreign;
/// let (bytes, mut read) = (*b"four", [0; 4]);
/// assert_eq!(read_foreign(std::process::id(), bytes.as_ptr().addr(), &mut read), Ok(4));
/// assert_eq!(read, bytes);
/// ```
///
/// # Errors
/// [`ForeignError`].
pub fn read_foreign(pid: u32, address: usize, buffer: &mut [u8]) -> Result<usize, ForeignError> {
    let here = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let there = libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: buffer.len() };
    let Ok(pid) = libc::pid_t::try_from(pid) else { return Err(ForeignError::Gone) };
    errno_kept(|| {
        // SAFETY: the local range is the buffer, a slice; the remote one is only read, and the system checks it.
        let read = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
        usize::try_from(read).map_err(|_| match errno() {
            libc::EPERM => ForeignError::Denied,
            libc::ESRCH => ForeignError::Gone,
            libc::EFAULT => ForeignError::Unmapped,
            other => ForeignError::Other(other),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::process::process_id;

    #[test]
    fn unmapped_memory_and_missing_processes_are_reported() {
        let mut buffer = [0; 16];
        assert_eq!(read_foreign(process_id(), 1, &mut buffer), Err(ForeignError::Unmapped));
        assert_eq!(read_foreign(u32::MAX, 1, &mut buffer), Err(ForeignError::Gone));
        assert_eq!(read_foreign(0x3fff_fff0, 1, &mut buffer), Err(ForeignError::Gone));
        assert_eq!(read_foreign(process_id(), 1, &mut []), Ok(0));
    }
}
