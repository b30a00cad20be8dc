//! Memory that processes share: a file, mapped.

use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};

use crate::errno::errno;
use crate::file_error::FileError;
use crate::unnamed::{TemporaryName, link_descriptor, make_unnamed};

/// An open regular file, closed when dropped.
#[derive(Debug)]
pub struct SegmentFile {
    pub(crate) descriptor: i32,
}

/// What the file system knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The user it belongs to.
    pub owner: u32,
    /// Its permission bits, at most `0o7777`.
    pub mode: u32,
    /// Its length in bytes.
    pub length: u64,
    /// The bytes that the file system holds for it; a sparse file has fewer than its length.
    pub allocated: u64,
    /// The number of its device; together with `inode` it says which file it is.
    pub device: u64,
    /// Its number on the device.
    pub inode: u64,
}

impl SegmentFile {
    /// Opens the file at `path` for reading and writing. Never waits, whatever is there.
    ///
    /// # Errors
    /// [`FileError::NotAFile`] for all but regular files, symbolic links included; others as the system says.
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

    fn open_with(path: &CStr, access: i32) -> Result<SegmentFile, FileError> {
        let flags = access | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        let descriptor = retried(|| unsafe { libc::open(path.as_ptr(), flags) })?;
        let file = SegmentFile { descriptor };
        match file.system_status()?.st_mode & libc::S_IFMT {
            libc::S_IFREG => Ok(file),
            _ => Err(FileError::NotAFile),
        }
    }

    /// What the file system knows of the file now.
    ///
    /// # Errors
    /// [`FileError`], hardly ever: an I/O error of a remote file system.
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

    fn system_status(&self) -> Result<libc::stat, FileError> {
        // SAFETY: a stat buffer is plain integers, and fstat fills it or fails.
        unsafe {
            let mut found = core::mem::zeroed();
            retried(|| libc::fstat(self.descriptor, &mut found))?;
            Ok(found)
        }
    }

    /// Fills `buffer` with the bytes from `offset` on and returns how many there were: fewer than asked for only where
    /// the file ends. Parts that the file system holds nothing for read as zeros and stay so.
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

    /// As [`SegmentFile::read_at`], by one system call, which may read fewer bytes than there are; none only where the file
    /// ends.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let Ok(at) = offset.try_into() else { return Ok(0) };
        // SAFETY: the buffer is valid for its length.
        let read = retried(|| unsafe { libc::pread(self.descriptor, buffer.as_mut_ptr().cast(), buffer.len(), at) })?;
        Ok(read.try_into().unwrap_or(0))
    }

    /// Maps the first `length` bytes (not 0), at an address of the system's choice. What lies behind the file's end must
    /// not be touched, nor what the file system cannot back: see [`Segment::back`].
    ///
    /// # Errors
    /// [`FileError::Refused`], typically by the process's limit on address space; [`FileError::Denied`] when the file was
    /// opened for reading only.
    pub fn map(self, length: usize) -> Result<Segment, FileError> {
        Segment::over(self, None, length)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(self.descriptor) };
    }
}

/// A shared mapping of a file, unmapped and closed when dropped. The file itself stays as long as it has a name or somebody
/// has it open.
///
/// The child of a `fork` has the same mapping at the same address.
///
/// ```
/// use heapwright_os::{Segment, SegmentFile, unlink};
/// # let path = std::ffi::CString::new(format!("/dev/shm/heapwright-doc-{}", std::process::id())).unwrap();
/// # let path = path.as_c_str();
/// let mut made = Segment::create_unnamed(c"/dev/shm", 0o600, 1 << 30)?;
/// made.back(0, 4096)?;
/// // SAFETY: the first page is backed, and nobody else has the file.
/// unsafe { made.base().write(7) };
/// made.publish(path)?;
/// let opened = SegmentFile::open(path)?.map(1 << 30)?;
/// // SAFETY: as above; nobody writes.
/// assert_eq!(unsafe { opened.base().read() }, 7);
/// unlink(path)?;
/// # Ok::<(), heapwright_os::FileError>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    file: SegmentFile,
    /// Until the file is published, where it cannot do without a name.
    temporary: Option<TemporaryName>,
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a segment owns its mapping and its descriptor; the system calls that act on them may come from any thread.
unsafe impl Send for Segment {}

// SAFETY: as above; what is read and written through the address is the caller's affair.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a file of `length` bytes (not 0), all zero, on the file system of `directory`, and maps it. It has no name yet: when
    /// the process ends before [`Segment::publish`], nothing is left (but on file systems that know no files without names: a
    /// temporary file `.heapwright-*` in `directory`, in nobody's way). It takes no space until it is backed or touched.
    ///
    /// `mode` is the file's permission bits, as they are, whatever the process's umask.
    ///
    /// # Errors
    /// [`FileError::TooLong`] when the process or the file system limits files to fewer bytes; others as the system says.
    pub fn create_unnamed(directory: &CStr, mode: u32, length: usize) -> Result<Segment, FileError> {
        let (file, temporary) = make_unnamed(directory)?;
        // SAFETY: the descriptor is ours.
        retried(|| unsafe { libc::fchmod(file.descriptor, mode) })?;
        lengthen(&file, length)?;
        Self::over(file, temporary, length)
    }

    fn over(file: SegmentFile, temporary: Option<TemporaryName>, length: usize) -> Result<Segment, FileError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice changes no existing memory.
        let address = unsafe { libc::mmap(null_mut(), length, protection, flags, file.descriptor, 0) };
        if address == libc::MAP_FAILED {
            return Err(FileError::last());
        }
        let base = NonNull::new(address.cast()).ok_or(FileError::Refused)?;
        Ok(Segment { file, temporary, base, length })
    }

    /// Gives a file made by [`Segment::create_unnamed`] its name, which is on the file system that it was made on. From then on others
    /// can open it.
    ///
    /// # Errors
    /// [`FileError::Exists`] when something has the name, which stays what it is; others as the system says.
    pub fn publish(&mut self, path: &CStr) -> Result<(), FileError> {
        match &self.temporary {
            None => link_descriptor(&self.file, path),
            Some(name) => {
                name.publish(path)?;
                self.temporary = None;
                Ok(())
            }
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &SegmentFile {
        &self.file
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

    /// Has the file system take on the bytes `from..to`, so that touching them cannot fail later. Whole pages are backed;
    /// backing again what is backed changes nothing.
    ///
    /// On file systems that cannot reserve space, zeros are written to the range: back what holds nothing yet.
    ///
    /// # Errors
    /// [`FileError::NoSpace`], [`FileError::Refused`]; part of the range may be backed then. [`FileError::TooLong`]
    /// when the range is not within the mapping or a limit on file sizes is in the way.
    pub fn back(&self, from: usize, to: usize) -> Result<(), FileError> {
        if to > self.length {
            return Err(FileError::TooLong);
        }
        back(&self.file, from, to)
    }

    /// As [`Segment::back`], for what was backed once but may be so no more: a copy of a file may be sparse. On file systems
    /// that cannot reserve space, nothing is done.
    ///
    /// # Errors
    /// As [`Segment::back`].
    pub fn back_again(&self, from: usize, to: usize) -> Result<(), FileError> {
        if to > self.length {
            return Err(FileError::TooLong);
        }
        match reserve(&self.file, from, to) {
            Err(FileError::Other(libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
            result => result,
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its owner is going.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Removes the name `path` of a file. Who has the file open keeps it.
///
/// # Errors
/// [`FileError`].
pub fn unlink(path: &CStr) -> Result<(), FileError> {
    // SAFETY: the path is a C string.
    retried(|| unsafe { libc::unlink(path.as_ptr()) }).map(|_| ())
}

/// The user with whose rights the process works.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

/// See [`Segment::back`].
pub(crate) fn back(file: &SegmentFile, from: usize, to: usize) -> Result<(), FileError> {
    match reserve(file, from, to) {
        Err(FileError::Other(libc::EOPNOTSUPP | libc::ENOSYS)) => write_zeros(file, from, to),
        result => result,
    }
}

pub(crate) fn lengthen(file: &SegmentFile, length: usize) -> Result<(), FileError> {
    stay_within_limit(length)?;
    let length = length.try_into().map_err(|_| FileError::TooLong)?;
    // SAFETY: the descriptor is ours.
    retried(|| unsafe { libc::ftruncate(file.descriptor, length) }).map(|_| ())
}

/// A file made longer than the process's limit would not be refused but end the process by `SIGXFSZ`.
pub(crate) fn stay_within_limit(length: usize) -> Result<(), FileError> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the limit is written to a local variable.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if length as u64 > limit.rlim_cur { Err(FileError::TooLong) } else { Ok(()) }
}

fn reserve(file: &SegmentFile, from: usize, to: usize) -> Result<(), FileError> {
    in_steps(from, to, |from, length| {
        // SAFETY: the descriptor is ours. Both numbers lie within a mapping, hence below 2⁶³.
        match unsafe { libc::fallocate(file.descriptor, 0, from as i64, length as i64) } {
            0 => Ok(()),
            _ => Err(FileError::last()),
        }
    })
}

/// Covers `from..to` by calls for `(from, length)`. When a signal comes, some systems drop all that one call has
/// reserved so far: the more signals, the smaller the steps.
fn in_steps(
    mut from: usize,
    to: usize,
    mut call: impl FnMut(usize, usize) -> Result<(), FileError>,
) -> Result<(), FileError> {
    const SMALLEST: usize = 1 << 16;
    let mut step = to.saturating_sub(from);
    while from < to {
        let length = step.min(to - from);
        match call(from, length) {
            Ok(()) => from += length,
            Err(FileError::Other(libc::EINTR)) => step = (step / 2).max(SMALLEST),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_zeros(file: &SegmentFile, mut from: usize, to: usize) -> Result<(), FileError> {
    static ZEROS: [u8; 1 << 14] = [0; 1 << 14];
    stay_within_limit(to)?;
    while from < to {
        let length = ZEROS.len().min(to - from);
        // SAFETY: the zeros are there, and the descriptor is ours.
        let written = unsafe { libc::pwrite(file.descriptor, ZEROS.as_ptr().cast(), length, from as i64) };
        match usize::try_from(written) {
            Ok(0) => return Err(FileError::NoSpace),
            Ok(written) => from += written,
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(FileError::last()),
        }
    }
    Ok(())
}

/// What `call` returns once no signal interrupts it.
pub(crate) fn retried<N: Default + PartialOrd>(mut call: impl FnMut() -> N) -> Result<N, FileError> {
    loop {
        match call() {
            result if result >= N::default() => return Ok(result),
            _ if errno() == libc::EINTR => {}
            _ => return Err(FileError::last()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_interrupted_takes_smaller_steps() {
        const MIB: usize = 1 << 20;
        for longest in [usize::MAX, 100 * MIB, MIB, 1 << 16] {
            let (mut covered, mut calls) = (5 * MIB + 3, 0);
            let outcome = in_steps(covered, 200 * MIB, |from, length| {
                calls += 1;
                assert_eq!(from, covered);
                if length > longest {
                    return Err(FileError::Other(libc::EINTR));
                }
                covered += length;
                Ok(())
            });
            assert_eq!((outcome, covered), (Ok(()), 200 * MIB));
            assert!(calls <= 2 * (195 * MIB).div_ceil(longest) + 20, "{calls} calls of at most {longest} bytes");
        }
        let full = in_steps(0, 10, |_, _| Err(FileError::NoSpace));
        assert_eq!(full, Err(FileError::NoSpace));
        assert_eq!(in_steps(10, 10, |_, _| Err(FileError::NoSpace)), Ok(()));
    }

    /// On file systems that can reserve space, nothing else comes here.
    #[test]
    fn zeros_back_a_range_and_leave_what_is_around_it() {
        const LENGTH: usize = 100_000;
        let segment = Segment::create_unnamed(c"/dev/shm", 0o600, LENGTH).unwrap();
        segment.back(0, LENGTH).unwrap();
        // SAFETY: all of it is backed, and nobody else has it.
        unsafe { segment.base().write_bytes(1, LENGTH) };
        write_zeros(segment.file(), 10, 70_000).unwrap();
        let mut bytes = [0; LENGTH];
        assert_eq!(segment.file().read_at(0, &mut bytes), Ok(LENGTH));
        assert!(bytes[10..70_000].iter().all(|&byte| byte == 0));
        assert!(bytes[..10].iter().chain(&bytes[70_000..]).all(|&byte| byte == 1));
        write_zeros(segment.file(), 5, 5).unwrap();
        assert_eq!(segment.file().status().map(|status| status.length), Ok(LENGTH as u64));
    }
}
