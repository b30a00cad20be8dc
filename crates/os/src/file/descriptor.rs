//! Descriptors of files: calls that signals interrupt, closing, and small files at once.

use core::ffi::CStr;

use crate::call::errno::errno;
use crate::call::waiting::uncancelled;
use crate::file::file_error::FileError;

/// Repeats `call` while signals interrupt it, and returns its result. The thread is not cancelled meanwhile.
pub(crate) fn retried<N: Default + PartialOrd>(mut call: impl FnMut() -> N) -> Result<N, FileError> {
    uncancelled(|| {
        loop {
            match call() {
                result if result >= N::default() => return Ok(result),
                _ if errno() == libc::EINTR => {}
                _ => return Err(FileError::last()),
            }
        }
    })
}

/// Closes a descriptor. The thread is not cancelled meanwhile.
///
/// # Safety
/// The descriptor is the caller's, and is not used any more.
pub(crate) unsafe fn close(descriptor: i32) {
    // SAFETY: the caller's promise.
    uncancelled(|| unsafe { libc::close(descriptor) });
}

/// Reads the start of a small file, as far as it fits, by one read (files of `/proc` are consistent only within one).
pub(crate) fn read_small<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    // SAFETY: a `CStr` ends with a zero, the buffer is a slice, hence valid for writes of its length, and the
    // descriptor was opened here and is closed once.
    let length = uncancelled(|| unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return -1;
        }
        let length = libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(descriptor);
        length
    });
    buffer.get(..usize::try_from(length).ok()?)
}
