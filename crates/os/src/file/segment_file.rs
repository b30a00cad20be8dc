//! Files that processes share.

use core::ffi::CStr;

use crate::call::errno::{errno, errno_kept};
use crate::file::descriptor::{close, retried};
use crate::file::file_error::FileError;
use crate::file::own_position::{position, set_own_position, set_position};

/// An open regular file, closed when dropped.
///
/// A program may close descriptors that are not its own, as daemons do when they start, and the system then gives the
/// number to the next file, which may be the same one, opened again. Attributes, allocation and closing therefore
/// verify that the descriptor still is this value's: by device and inode, and by the position in the file, which is
/// another one for each opening and is not used otherwise.
#[derive(Debug)]
pub struct SegmentFile {
    pub(crate) descriptor: i32,
    /// The device and the inode of the file.
    pub(crate) identity: (u64, u64),
    /// The position that this opening has; 0 on file systems that refuse it.
    position: i64,
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The user it belongs to.
    pub owner: u32,
    /// Its permission bits, at most `0o7777`.
    pub mode: u32,
    /// Its length in bytes.
    pub length: u64,
    /// The bytes that the file system has allocated for it; fewer than its length in a sparse file.
    pub allocated: u64,
    /// The number of its device; device and inode together identify a file.
    pub device: u64,
    /// Its number on the device.
    pub inode: u64,
}

impl SegmentFile {
    /// Opens the file at `path` for reading and writing. Never blocks, whatever kind of file it is.
    ///
    /// # Errors
    /// [`FileError::NotAFile`] for everything but regular files, also for symbolic links; other errors of the system.
    pub fn open(path: &CStr) -> Result<SegmentFile, FileError> {
        Self::open_with(path, libc::O_RDWR)
    }

    /// As [`SegmentFile::open`], for [`SegmentFile::read_at`] only.
    ///
    /// # Errors
    /// As [`SegmentFile::open`].
    pub fn open_read_only(path: &CStr) -> Result<SegmentFile, FileError> {
        Self::open_with(path, libc::O_RDONLY)
    }

    /// As [`SegmentFile::open_read_only`], through a symbolic link of the system's.
    pub(crate) fn open_through(link: &CStr) -> Result<SegmentFile, FileError> {
        Self::open_by(link, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
    }

    fn open_with(path: &CStr, access: i32) -> Result<SegmentFile, FileError> {
        Self::open_by(path, access | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
    }

    fn open_by(path: &CStr, flags: i32) -> Result<SegmentFile, FileError> {
        // SAFETY: a `CStr` ends with a zero.
        let (mut file, found) = Self::opened(retried(|| unsafe { libc::open(path.as_ptr(), flags) })?)?;
        if found.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(FileError::NotAFile);
        }
        // The system makes the contents of files without a length (`/proc`) up to a position that is set or asked for.
        if found.st_size != 0 {
            file.position = set_own_position(file.descriptor);
        }
        Ok(file)
    }

    /// Takes over a descriptor that was just opened.
    pub(crate) fn of(descriptor: i32) -> Result<SegmentFile, FileError> {
        let (mut file, _) = Self::opened(descriptor)?;
        file.position = set_own_position(descriptor);
        Ok(file)
    }

    /// The file of a descriptor that was just opened, and its attributes.
    fn opened(descriptor: i32) -> Result<(SegmentFile, libc::stat), FileError> {
        match status_of(descriptor) {
            Ok(found) => {
                let identity = (found.st_dev, found.st_ino);
                Ok((SegmentFile { descriptor, identity, position: position(descriptor) }, found))
            }
            Err(error) => {
                // SAFETY: the descriptor was just opened, and the caller has given it away.
                unsafe { close(descriptor) };
                Err(error)
            }
        }
    }

    /// Opens the file once more by `path`, for [`SegmentFile::read_at`] only.
    ///
    /// # Errors
    /// [`FileError::Replaced`] when another file is there now; as [`SegmentFile::open`].
    pub fn open_again(&self, path: &CStr) -> Result<SegmentFile, FileError> {
        let opened = Self::open_read_only(path)?;
        if opened.identity == self.identity { Ok(opened) } else { Err(FileError::Replaced) }
    }

    /// Returns the file's attributes.
    ///
    /// # Errors
    /// [`FileError::Replaced`] when the descriptor is closed, or not that of the file any more; other errors of the
    /// system, for instance an I/O error of a remote file system.
    pub fn status(&self) -> Result<FileStatus, FileError> {
        let found = self.system_status()?;
        Ok(FileStatus {
            owner: found.st_uid,
            mode: found.st_mode & 0o7777,
            length: found.st_size.try_into().unwrap_or(0),
            allocated: u64::try_from(found.st_blocks).unwrap_or(0) * 512,
            device: found.st_dev,
            inode: found.st_ino,
        })
    }

    /// Returns the next range of bytes from `offset` on that the file holds, start and end: those before it are zero
    /// and not allocated. `None` when there is none. On file systems that do not tell, all bytes are held.
    ///
    /// Meanwhile the file has another position, by which other threads and the children of a fork do not know it: see
    /// [`SegmentFile::open_beside`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn next_data(&self, offset: u64) -> Result<Option<(u64, u64)>, FileError> {
        let seek = |from: u64, whence| {
            let from = from.try_into().map_err(|_| FileError::TooLong)?;
            // SAFETY: the call takes the open descriptor and numbers.
            match unsafe { libc::lseek(self.descriptor, from, whence) } {
                found if found >= 0 => Ok(Some(found as u64)),
                _ if errno() == libc::ENXIO => Ok(None),
                _ if errno() == libc::EINVAL => Ok(Some(if whence == libc::SEEK_DATA { offset } else { u64::MAX })),
                _ => Err(FileError::last()),
            }
        };
        let range = match seek(offset, libc::SEEK_DATA) {
            Ok(Some(start)) => seek(start, libc::SEEK_HOLE).map(|end| end.map(|end| (start, end))),
            found => found.map(|_| None),
        };
        set_position(self.descriptor, self.position);
        range
    }

    /// Whether the file belongs to the process's effective user, or the process may do with it what that may, whatever
    /// number the system gives for either: in a user namespace all users without a number in it have the same one.
    #[must_use]
    pub fn is_own(&self) -> bool {
        // Only to them the system allows this flag. SAFETY: the calls take the open descriptor and numbers.
        unsafe {
            let flags = libc::fcntl(self.descriptor, libc::F_GETFL);
            let allowed = flags >= 0 && libc::fcntl(self.descriptor, libc::F_SETFL, flags | libc::O_NOATIME) == 0;
            if allowed {
                libc::fcntl(self.descriptor, libc::F_SETFL, flags);
            }
            allowed
        }
    }

    /// The attributes as the system gives them.
    ///
    /// # Errors
    /// As [`SegmentFile::status`].
    pub(crate) fn system_status(&self) -> Result<libc::stat, FileError> {
        let found = status_of(self.descriptor).map_err(|error| match error {
            FileError::Other(libc::EBADF) => FileError::Replaced,
            error => error,
        })?;
        let same = (found.st_dev, found.st_ino) == self.identity && position(self.descriptor) == self.position;
        if same { Ok(found) } else { Err(FileError::Replaced) }
    }

    /// Fills `buffer` with the bytes from `offset` on and returns their number: fewer than its length only at the
    /// file's end. Parts of a sparse file that are not allocated read as zeros and stay unallocated.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let Some(at) = offset.checked_add(filled as u64) else { break };
            match self.read_some_at(at, rest)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// As [`SegmentFile::read_at`], by one system call, which may read fewer bytes than there are, but none only at the
    /// file's end.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let Ok(at) = offset.try_into() else { return Ok(0) };
        // SAFETY: the buffer is a slice, hence valid for writes of its length.
        let read = retried(|| unsafe { libc::pread(self.descriptor, buffer.as_mut_ptr().cast(), buffer.len(), at) })?;
        Ok(read.try_into().unwrap_or(0))
    }

    // Not inlined: what small programs run lies together, and they close no segments.
    #[inline(never)]
    fn close_unless_replaced(&mut self) {
        if self.system_status().is_ok() {
            // SAFETY: the descriptor is owned by this value, which ends here.
            unsafe { close(self.descriptor) };
        }
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        errno_kept(|| self.close_unless_replaced());
    }
}

fn status_of(descriptor: i32) -> Result<libc::stat, FileError> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and is valid for the call's write.
    unsafe {
        let mut found = core::mem::zeroed();
        retried(|| libc::fstat(descriptor, &mut found))?;
        Ok(found)
    }
}

/// Removes the name `path` of a file. Processes that have the file open keep it.
///
/// # Errors
/// [`FileError`].
pub fn unlink(path: &CStr) -> Result<(), FileError> {
    // SAFETY: a `CStr` ends with a zero.
    retried(|| unsafe { libc::unlink(path.as_ptr()) }).map(|_| ())
}
