//! The memory of another process, read without stopping it.

use core::fmt;

use crate::errno::{errno, errno_kept};

/// Why the memory of another process could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignError {
    /// The system does not let this process look into that one.
    Denied,
    /// There is no such process (any more).
    Gone,
    /// Nothing is mapped there.
    Unmapped,
    /// Anything else, by the system's error number.
    Other(i32),
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignError::Denied => f.write_str("the system does not let this process look into that one"),
            ForeignError::Gone => f.write_str("there is no such process"),
            ForeignError::Unmapped => f.write_str("nothing is mapped there"),
            ForeignError::Other(code) => write!(f, "error {code} of the system"),
        }
    }
}

impl core::error::Error for ForeignError {}

/// Fills `buffer` with what process `pid` has at `address`; returns how many bytes there were before the first page that is not
/// mapped, at least one unless the buffer is empty.
///
/// The process goes on meanwhile: what it writes may be seen in part. Allowed as tracing is: for processes of the same user,
/// of which some systems allow one's own descendants only.
///
/// ```
/// use heapwright_os::read_foreign;
/// let (told, mut read) = (*b"told", [0; 4]);
/// assert_eq!(read_foreign(std::process::id(), told.as_ptr().addr(), &mut read), Ok(4));
/// assert_eq!(read, told);
/// ```
///
/// # Errors
/// [`ForeignError`].
pub fn read_foreign(pid: u32, address: usize, buffer: &mut [u8]) -> Result<usize, ForeignError> {
    let here = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let there = libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: buffer.len() };
    let Ok(pid) = libc::pid_t::try_from(pid) else { return Err(ForeignError::Gone) };
    errno_kept(|| {
        // SAFETY: the one local range is the buffer; the remote one is read only, and checked by the system.
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
    use crate::process::process_id;

    #[test]
    fn what_is_not_there_is_said() {
        let mut buffer = [0; 16];
        assert_eq!(read_foreign(process_id(), 1, &mut buffer), Err(ForeignError::Unmapped));
        assert_eq!(read_foreign(u32::MAX, 1, &mut buffer), Err(ForeignError::Gone));
        assert_eq!(read_foreign(0x3fff_fff0, 1, &mut buffer), Err(ForeignError::Gone));
        assert_eq!(read_foreign(process_id(), 1, &mut []), Ok(0));
    }
}
