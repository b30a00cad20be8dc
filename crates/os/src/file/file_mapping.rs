//! A file mapped for all processes that have it.

use core::ptr::{NonNull, null_mut};

use crate::call::errno::errno_kept;
use crate::file::file_error::FileError;
use crate::file::segment_file::SegmentFile;

/// A shared mapping of the first bytes of a file, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct FileMapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is owned by this value, and the system calls that act on it may come from any thread.
unsafe impl Send for FileMapping {}

// SAFETY: shared references give out the address and the length only, which do not change.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps the first `length` bytes of a file (not 0), at an address of the system's choice. Bytes behind the file's
    /// end, and bytes that the file system cannot back, must not be touched.
    pub(crate) fn over(file: &SegmentFile, length: usize) -> Result<FileMapping, FileError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice changes no existing memory.
        let address = unsafe { libc::mmap(null_mut(), length, protection, flags, file.descriptor, 0) };
        if address == libc::MAP_FAILED {
            return Err(FileError::last());
        }
        Ok(FileMapping { base: NonNull::new(address.cast()).ok_or(FileError::NoMemory)?, length })
    }

    /// The first byte.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The number of bytes mapped.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `over` and is owned by this value, which ends here.
        errno_kept(|| unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) });
    }
}
