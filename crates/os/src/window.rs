//! A part of a file as memory, without keeping the file open.

use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};

use crate::errno::errno_kept;
use crate::file_error::FileError;
use crate::segment::{Segment, SegmentFile, back, stay_within_limit};

/// A shared mapping of a part of a file, unmapped when dropped. All of it is backed, so that touching it cannot fail.
///
/// The file is open only while the window is made: there is no descriptor that a program which closes all of them could
/// close, or give to another file.
///
/// ```
/// use heapwright_os::{SegmentFile, Window, unlink};
/// # let path = std::ffi::CString::new(format!("/dev/shm/heapwright-window-{}", std::process::id())).unwrap();
/// # let path = path.as_c_str();
/// let first = Window::create(c"/dev/shm", path, 4096, |start| unsafe { start.write(7) })?;
/// let second = Window::open(path, 4096, 8192)?;
/// // SAFETY: the window is ours, and nobody else has the file.
/// unsafe { second.base().write(8) };
/// let mut bytes = [0; 4097];
/// SegmentFile::open_read_only(path)?.read_at(0, &mut bytes)?;
/// assert_eq!((bytes[0], bytes[4096]), (7, 8));
/// unlink(path)?;
/// # Ok::<(), heapwright_os::FileError>(())
/// ```
#[derive(Debug)]
pub struct Window {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a window owns its mapping; the system calls that act on it may come from any thread.
unsafe impl Send for Window {}

impl Window {
    /// Makes a file of `length` bytes at `path`, which is on the file system of `directory`, and maps it. `fill` is called with the first
    /// byte, all of the bytes being zero, before the file gets its name.
    ///
    /// # Errors
    /// [`FileError::Exists`] when something has the name already; others as the system says.
    pub fn create(
        directory: &CStr,
        path: &CStr,
        length: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Result<Window, FileError> {
        errno_kept(|| {
            let mut segment = Segment::create_unnamed(directory, 0o600, length)?;
            segment.back(0, length)?;
            fill(segment.base());
            let window = Window::over(segment.file(), 0, length)?;
            segment.publish(path)?;
            Ok(window)
        })
    }

    /// Maps the bytes `from..from + length` of the file at `path`, which is made longer if need be; both are multiples of
    /// the page size.
    ///
    /// # Errors
    /// [`FileError::NoSpace`], [`FileError::TooLong`]: the file cannot be made that long. Others as the system says.
    pub fn open(path: &CStr, from: u64, length: usize) -> Result<Window, FileError> {
        errno_kept(|| {
            let file = SegmentFile::open(path)?;
            let start = usize::try_from(from).map_err(|_| FileError::TooLong)?;
            let end = start.checked_add(length).ok_or(FileError::TooLong)?;
            stay_within_limit(end)?;
            back(&file, start, end)?;
            Self::over(&file, from, length)
        })
    }

    fn over(file: &SegmentFile, from: u64, length: usize) -> Result<Window, FileError> {
        let from = from.try_into().map_err(|_| FileError::TooLong)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // Touching the pages one by one would cost a fault each.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the system's choice changes no existing memory.
        let address = unsafe { libc::mmap(null_mut(), length, protection, flags, file.descriptor, from) };
        if address == libc::MAP_FAILED {
            return Err(FileError::last());
        }
        Ok(Window { base: NonNull::new(address.cast()).ok_or(FileError::Refused)?, length })
    }

    /// The first byte.
    #[inline(always)]
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes are mapped.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its owner is going.
        errno_kept(|| unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) });
    }
}
