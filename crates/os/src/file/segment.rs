//! Memory that processes share: mappings of files.

use core::ffi::CStr;
use core::ptr::NonNull;

use crate::call::errno::errno;
use crate::call::waiting::uncancelled;
use crate::file::descriptor::retried;
use crate::file::file_error::FileError;
use crate::file::file_mapping::FileMapping;
use crate::file::room::stay_within_memory;
use crate::file::segment_file::SegmentFile;
use crate::file::unnamed::{TemporaryName, link_descriptor, make_unnamed};

/// A shared mapping of a file, unmapped and closed when dropped. The file itself stays as long as it has a name or is
/// open elsewhere.
///
/// The child of a `fork` has the same mapping at the same address.
///
/// ```
/// use heapwright_os::{Segment, SegmentFile, unlink};
/// # let path = std::ffi::CString::new(format!("/dev/shm/heapwright-doc-{}", std::process::id())).unwrap();
/// # let path = path.as_c_str();
/// let mut made = Segment::create_unnamed(c"/dev/shm", 0o600, 1 << 30)?;
/// made.back(0, 4096)?;
/// // SAFETY: the first page is backed, and no other process has the file.
/// unsafe { made.base().write(7) };
/// made.publish(path)?;
/// let opened = SegmentFile::open(path)?.map(1 << 30)?;
/// // SAFETY: the first page is backed, and is not written to meanwhile.
/// assert_eq!(unsafe { opened.base().read() }, 7);
/// unlink(path)?;
/// # Ok::<(), heapwright_os::FileError>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    /// Dropped before the mapping, which keeps the inode: no other file has its number until the descriptor is closed.
    file: SegmentFile,
    mapping: FileMapping,
    /// The name of an unpublished file, on file systems that know no files without names.
    temporary: Option<TemporaryName>,
}

impl SegmentFile {
    /// Maps the first `length` bytes (not 0), at an address of the system's choice. Bytes behind the file's end, and
    /// bytes that the file system cannot back, must not be touched: see [`Segment::back`].
    ///
    /// # Errors
    /// [`FileError::NoMemory`], typically by the process's limit on address space; [`FileError::Denied`] when the file
    /// was opened for reading only.
    pub fn map(self, length: usize) -> Result<Segment, FileError> {
        Segment::over(self, None, length)
    }
}

impl Segment {
    /// Creates a file of `length` bytes (not 0), all zero, on the file system of `directory`, and maps it. It has no
    /// name yet: when the process ends before [`Segment::publish`], no file is left. (On file systems that know no
    /// files without names, a temporary file `.heapwright-*` in `directory` is left.) It takes no space until it is
    /// backed or touched.
    ///
    /// `mode` is the file's permission bits; the process's umask does not apply.
    ///
    /// # Errors
    /// [`FileError::TooLong`] when the process or the file system limits files to fewer bytes; other errors of the
    /// system.
    pub fn create_unnamed(directory: &CStr, mode: u32, length: usize) -> Result<Segment, FileError> {
        let (file, temporary) = make_unnamed(directory)?;
        // SAFETY: the call takes a descriptor, which this file owns, and no pointers.
        retried(|| unsafe { libc::fchmod(file.descriptor, mode) })?;
        lengthen(&file, length)?;
        Self::over(file, temporary, length)
    }

    fn over(file: SegmentFile, temporary: Option<TemporaryName>, length: usize) -> Result<Segment, FileError> {
        Ok(Segment { mapping: FileMapping::over(&file, length)?, file, temporary })
    }

    /// Gives a file made by [`Segment::create_unnamed`] its name, on the file system that it was created on. Other
    /// processes can open it from then on.
    ///
    /// # Errors
    /// [`FileError::Exists`] when the name is taken; the existing file stays. Other errors of the system.
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
        self.mapping.base()
    }

    /// Returns the number of bytes mapped.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> usize {
        self.mapping.length()
    }

    /// Allocates space in the file system for the bytes `from..to`, so that touching them cannot fail later. Whole
    /// pages are backed; backing bytes again has no effect.
    ///
    /// On file systems that cannot reserve space, zeros are written to the range, so that its contents are lost.
    ///
    /// # Errors
    /// [`FileError::NoSpace`]; [`FileError::NoMemory`], also when the file lies in memory and the machine has less
    /// available than the range takes: the kernel would end processes to find it. Part of the range may be backed then.
    /// [`FileError::TooLong`] when the range is not within the mapping or a limit on file sizes is in the way.
    /// [`FileError::Replaced`] when the descriptor is not that of the file any more; nothing is done then.
    pub fn back(&self, from: usize, to: usize) -> Result<(), FileError> {
        if to > self.mapping.length() {
            return Err(FileError::TooLong);
        }
        back(&self.file, from, to)
    }

    /// As [`Segment::back`], for bytes that were backed once but may not be backed any more: a copy of a file may be
    /// sparse. Does nothing on file systems that cannot reserve space.
    ///
    /// # Errors
    /// As [`Segment::back`].
    pub fn back_again(&self, from: usize, to: usize) -> Result<(), FileError> {
        if to > self.mapping.length() {
            return Err(FileError::TooLong);
        }
        match reserve(&self.file, from, to) {
            Err(FileError::Other(libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
            result => result,
        }
    }
}

/// See [`Segment::back`].
pub(crate) fn back(file: &SegmentFile, from: usize, to: usize) -> Result<(), FileError> {
    stay_within_memory(file.descriptor, to.saturating_sub(from))?;
    match reserve(file, from, to) {
        Err(FileError::Other(libc::EOPNOTSUPP | libc::ENOSYS)) => write_zeros(file, from, to),
        result => result,
    }
}

pub(crate) fn lengthen(file: &SegmentFile, length: usize) -> Result<(), FileError> {
    stay_within_limit(length)?;
    let length = length.try_into().map_err(|_| FileError::TooLong)?;
    // SAFETY: the call takes a descriptor, which this file owns, and no pointers.
    retried(|| unsafe { libc::ftruncate(file.descriptor, length) }).map(|_| ())
}

/// Checks the process's limit on file sizes, as the system does not refuse a longer file but ends the process by
/// `SIGXFSZ`.
pub(crate) fn stay_within_limit(length: usize) -> Result<(), FileError> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the limit is written to a local variable.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if length as u64 > limit.rlim_cur { Err(FileError::TooLong) } else { Ok(()) }
}

fn reserve(file: &SegmentFile, from: usize, to: usize) -> Result<(), FileError> {
    file.system_status()?;
    in_steps(from, to, |from, length| {
        // SAFETY: the call takes a descriptor, which this file owns, and no pointers. Both numbers lie within a
        // mapping, hence below 2⁶³.
        uncancelled(|| match unsafe { libc::fallocate(file.descriptor, 0, from as i64, length as i64) } {
            0 => Ok(()),
            _ => Err(FileError::last()),
        })
    })
}

/// Covers `from..to` by calls for `(from, length)`. When a signal interrupts a call, some systems undo all that the
/// call has reserved: the steps get smaller with each signal.
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
        // SAFETY: at most as many bytes are read as `ZEROS` has.
        let written =
            uncancelled(|| unsafe { libc::pwrite(file.descriptor, ZEROS.as_ptr().cast(), length, from as i64) });
        match usize::try_from(written) {
            Ok(0) => return Err(FileError::NoSpace),
            Ok(written) => from += written,
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(FileError::last()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_takes_smaller_steps() {
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

    /// On file systems that can reserve space, only this test calls `write_zeros`.
    #[test]
    fn zeros_back_a_range_and_leave_what_is_around_it() {
        const LENGTH: usize = 100_000;
        let segment = Segment::create_unnamed(c"/dev/shm", 0o600, LENGTH).unwrap();
        segment.back(0, LENGTH).unwrap();
        // SAFETY: all of it is backed, and no other process has it.
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
