//! A mapped file that is not kept open.

use core::ffi::CStr;
use core::ptr::NonNull;

use crate::call::errno::errno_kept;
use crate::call::refused::Refused;
use crate::file::file_error::FileError;
use crate::file::file_mapping::FileMapping;
use crate::file::segment::{back, lengthen, stay_within_limit};
use crate::file::segment_file::SegmentFile;
use crate::file::unnamed::{link_descriptor, make_unnamed};
use crate::memory::barrier::{forbid, permit};

/// A shared mapping of a file that grows, unmapped when dropped. Only backed bytes may be touched.
///
/// Accesses to the others are forbidden: the leak checker of valgrind, which reads all writable memory, takes a signal
/// for each word behind the end of a file.
///
/// The file is open only while the window is created or the file grows. So a program that closes all descriptors cannot
/// close this one, nor open another file under its number.
///
/// ```
/// use heapwright_os::{SegmentFile, Window, unlink};
/// # let path = std::ffi::CString::new(format!("/dev/shm/heapwright-window-{}", std::process::id())).unwrap();
/// # let path = path.as_c_str();
/// let window = Window::create(c"/dev/shm", path, 4096, 1 << 20, |start| unsafe { start.write(7) })?;
/// window.back(path, 4096, 8192)?;
/// // SAFETY: the bytes are backed, and no other process has the file.
/// unsafe { window.base().add(4096).write(8) };
/// let mut bytes = [0; 4097];
/// SegmentFile::open_read_only(path)?.read_at(0, &mut bytes)?;
/// assert_eq!((bytes[0], bytes[4096]), (7, 8));
/// unlink(path)?;
/// # Ok::<(), heapwright_os::FileError>(())
/// ```
#[derive(Debug)]
pub struct Window {
    mapping: FileMapping,
}

impl Window {
    /// Creates a file of `length` bytes at `path`, on the file system of `directory`, and maps it with room to grow to
    /// `room` bytes. Both are multiples of the page size. `fill` is called with the address of the first byte before
    /// the file gets its name; all bytes are zero.
    ///
    /// # Errors
    /// [`FileError::Exists`] when the name is taken; [`FileError::NoMemory`], typically by the process's limit on
    /// address space; other errors of the system.
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
            let window = Window { mapping: FileMapping::over(&file, room)? };
            // SAFETY: the bytes are the mapping's last ones, which nothing uses yet.
            unsafe { forbid(window.at(length), room - length) }.map_err(|Refused| FileError::NoMemory)?;
            window.touch(0, length);
            fill(window.base());
            match temporary {
                None => link_descriptor(&file, path)?,
                Some(name) => name.publish(path)?,
            }
            Ok(window)
        })
    }

    /// Allocates space for the bytes `from..to` (multiples of the page size) of the file, which is the one at `path`,
    /// so that touching them cannot fail.
    ///
    /// # Errors
    /// [`FileError::NoSpace`], [`FileError::TooLong`]: the file cannot be made that long. Other errors of the system.
    pub fn back(&self, path: &CStr, from: usize, to: usize) -> Result<(), FileError> {
        errno_kept(|| {
            if to > self.length() {
                return Err(FileError::TooLong);
            }
            let file = SegmentFile::open(path)?;
            stay_within_limit(to)?;
            back(&file, from, to)?;
            // SAFETY: the bytes lie within the mapping, and are used after this only.
            unsafe { permit(self.at(from), to - from) }.map_err(|Refused| FileError::NoMemory)?;
            self.touch(from, to);
            Ok(())
        })
    }

    /// Populates the backed pages `from..to` at once, which saves a page fault for each. Has no effect before Linux
    /// 5.14.
    fn touch(&self, from: usize, to: usize) {
        // SAFETY: callers pass a range within the mapping, and the advice changes no contents.
        unsafe { libc::madvise(self.at(from).as_ptr().cast(), to - from, libc::MADV_POPULATE_WRITE) };
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.length());
        // SAFETY: callers pass an offset within the mapping, or its length.
        unsafe { self.base().add(offset) }
    }

    /// The first byte.
    #[inline(always)]
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Returns the number of bytes mapped.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> usize {
        self.mapping.length()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::string::String;

    use super::*;

    /// The permissions of the mapping that contains `address`.
    fn permissions(address: usize) -> String {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
        let contains = |line: &&str| {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            (number(from)..number(to)).contains(&address)
        };
        maps.lines().find(contains).unwrap().split(' ').nth(1).unwrap().into()
    }

    #[test]
    fn what_lies_behind_the_backed_bytes_cannot_be_accessed() {
        let path = CString::new(std::format!("/dev/shm/heapwright-window-test-{}", std::process::id())).unwrap();
        let pages = |count: usize| count * crate::page_size();
        let window = Window::create(c"/dev/shm", &path, pages(1), pages(16), |_| ()).unwrap();
        let at = |page: usize| permissions(window.base().as_ptr().addr() + pages(page));
        assert_eq!([at(0), at(1), at(15)], ["rw-s", "---s", "---s"]);
        window.back(&path, pages(1), pages(3)).unwrap();
        assert_eq!([at(0), at(2), at(3), at(15)], ["rw-s", "rw-s", "---s", "---s"]);
        window.back(&path, pages(3), pages(16)).unwrap();
        assert_eq!(at(15), "rw-s");
        crate::unlink(&path).unwrap();
    }
}
