//! A file as memory, without keeping the file open.

use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};

use crate::errno::errno_kept;
use crate::file_error::FileError;
use crate::segment::{SegmentFile, back, lengthen, stay_within_limit};
use crate::unnamed::{link_descriptor, make_unnamed};

/// A shared mapping of a file that grows, unmapped when dropped. What is backed can be touched.
///
/// The file is open only while the window is made or the file grows: there is no descriptor that a program which closes
/// all of them could close, or give to another file.
///
/// ```
/// use heapwright_os::{SegmentFile, Window, unlink};
/// # let path = std::ffi::CString::new(format!("/dev/shm/heapwright-window-{}", std::process::id())).unwrap();
/// # let path = path.as_c_str();
/// let window = Window::create(c"/dev/shm", path, 4096, 1 << 20, |start| unsafe { start.write(7) })?;
/// window.back(path, 4096, 8192)?;
/// // SAFETY: what is backed is ours, and nobody else has the file.
/// unsafe { window.base().add(4096).write(8) };
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
    /// Makes a file of `length` bytes at `path`, which is on the file system of `directory`, and maps it with room for it to grow to
    /// `room` bytes; both are multiples of the page size. `fill` is called with the first byte, all of the bytes being zero,
    /// before the file gets its name.
    ///
    /// # Errors
    /// [`FileError::Exists`] when something has the name already; [`FileError::Refused`], typically by the process's limit
    /// on address space; others as the system says.
    pub fn create(
        directory: &CStr,
        path: &CStr,
        length: usize,
        room: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Result<Window, FileError> {
        errno_kept(|| {
            let (file, temporary) = make_unnamed(directory)?;
            lengthen(&file, length)?;
            back(&file, 0, length)?;
            let window = Window::over(&file, room)?;
            window.touch(0, length);
            fill(window.base());
            match temporary {
                None => link_descriptor(&file, path)?,
                Some(name) => name.publish(path)?,
            }
            Ok(window)
        })
    }

    /// Has the file at `path`, which is the window's, take on the bytes `from..to`, so that touching them cannot fail;
    /// multiples of the page size.
    ///
    /// # Errors
    /// [`FileError::NoSpace`], [`FileError::TooLong`]: the file cannot be made that long. Others as the system says.
    pub fn back(&self, path: &CStr, from: usize, to: usize) -> Result<(), FileError> {
        errno_kept(|| {
            if to > self.length {
                return Err(FileError::TooLong);
            }
            let file = SegmentFile::open(path)?;
            stay_within_limit(to)?;
            back(&file, from, to)?;
            self.touch(from, to);
            Ok(())
        })
    }

    fn over(file: &SegmentFile, length: usize) -> Result<Window, FileError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice changes no existing memory.
        let address = unsafe { libc::mmap(null_mut(), length, protection, flags, file.descriptor, 0) };
        if address == libc::MAP_FAILED {
            return Err(FileError::last());
        }
        Ok(Window { base: NonNull::new(address.cast()).ok_or(FileError::Refused)?, length })
    }

    /// Has the system set up the pages `from..to`, which are backed, at once: one by one, each would cost a fault. Systems
    /// that do not know how (before Linux 5.14) leave it at that.
    fn touch(&self, from: usize, to: usize) {
        // SAFETY: the range lies within the mapping, and no contents change.
        unsafe { libc::madvise(self.base.as_ptr().add(from).cast(), to - from, libc::MADV_POPULATE_WRITE) };
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
