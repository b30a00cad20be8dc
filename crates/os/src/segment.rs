//! Memory that processes share: files and their mappings.

use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::errno::{errno, errno_kept};
use crate::file_error::FileError;
use crate::file_mapping::FileMapping;
use crate::identity::read_small;
use crate::own_position::{position, set_own_position, set_position};
use crate::room::stay_within_memory;
use crate::unnamed::{TemporaryName, link_descriptor, make_unnamed};
use crate::waiting::uncancelled;

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

    fn system_status(&self) -> Result<libc::stat, FileError> {
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

    /// Maps the first `length` bytes (not 0), at an address of the system's choice. Bytes behind the file's end, and
    /// bytes that the file system cannot back, must not be touched: see [`Segment::back`].
    ///
    /// # Errors
    /// [`FileError::NoMemory`], typically by the process's limit on address space; [`FileError::Denied`] when the file
    /// was opened for reading only.
    pub fn map(self, length: usize) -> Result<Segment, FileError> {
        Segment::over(self, None, length)
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

/// Removes the name `path` of a file. Processes that have the file open keep it.
///
/// # Errors
/// [`FileError`].
pub fn unlink(path: &CStr) -> Result<(), FileError> {
    // SAFETY: a `CStr` ends with a zero.
    retried(|| unsafe { libc::unlink(path.as_ptr()) }).map(|_| ())
}

/// Returns the number of the process's effective user.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::geteuid() }
}

/// Whether `user` is the number of a single user here, and not one under which a user namespace shows all those that it
/// has no number for. Without `/proc`, the number that systems use for that is never a single user.
#[must_use]
pub fn is_one_user(user: u32) -> bool {
    let mut buffer = [0; 128];
    user != overflow_user() || read_small(c"/proc/self/uid_map", &mut buffer).is_some_and(maps_every_user)
}

/// Returns the number under which a user namespace shows users that it has no number for, read once.
fn overflow_user() -> u32 {
    const USUAL: u32 = 65534;
    /// The number and 1 above, or 0.
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    if let Some(known) = KNOWN.load(Ordering::Relaxed).checked_sub(1) {
        return known as u32;
    }
    let mut buffer = [0; 128];
    let number = |text: &[u8]| core::str::from_utf8(text.trim_ascii()).ok()?.parse().ok();
    let Some(read) = read_small(c"/proc/sys/kernel/overflowuid", &mut buffer).and_then(number) else { return USUAL };
    KNOWN.store(u64::from(read) + 1, Ordering::Relaxed);
    read
}

/// Whether a user namespace with this map has a number for every user.
fn maps_every_user(map: &[u8]) -> bool {
    let mut fields = map.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    fields.nth(2) == Some(b"4294967295") && fields.next().is_none()
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
