//! Files that get their name when their contents are complete.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::call::errno::errno_kept;
use crate::file::descriptor::retried;
use crate::file::file_error::FileError;
use crate::file::output::Line;
use crate::file::own_file::with_own_path;
use crate::file::segment_file::SegmentFile;
use crate::own::process::process_id;

/// Creates a file without a name in `directory`; on file systems without such files, one with a temporary name.
pub(crate) fn make_unnamed(directory: &CStr) -> Result<(SegmentFile, Option<TemporaryName>), FileError> {
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: a `CStr` ends with a zero.
    match retried(|| unsafe { libc::open(directory.as_ptr(), flags, 0o600 as libc::c_uint) }) {
        Ok(descriptor) => Ok((SegmentFile::of(descriptor)?, None)),
        // A kernel without the flag refuses to open a directory for writing.
        Err(FileError::Other(libc::EOPNOTSUPP) | FileError::NotAFile) => {
            make_temporary(directory).map(|(file, name)| (file, Some(name)))
        }
        Err(error) => Err(error),
    }
}

/// Creates an empty file in `directory`. Takes neither memory nor space of the file system, as a rule.
///
/// # Errors
/// [`FileError`]; [`FileError::Exists`] when there is one of this name.
pub fn create_empty(directory: &CStr, name: &CStr) -> Result<(), FileError> {
    errno_kept(|| {
        let directory = open_directory(directory)?;
        create_in(&directory, name).map(drop)
    })
}

/// Gives a file without a name the name `path`.
pub(crate) fn link_descriptor(file: &SegmentFile, path: &CStr) -> Result<(), FileError> {
    let by_link = |link: &CStr| link_at(libc::AT_FDCWD, link, path, libc::AT_SYMLINK_FOLLOW);
    match with_own_path(format_args!("fd/{}", file.descriptor), by_link) {
        // Without /proc: older systems allow this to privileged processes only.
        Err(FileError::NotFound) => link_at(file.descriptor, c"", path, libc::AT_EMPTY_PATH),
        result => result,
    }
}

/// The temporary name of a file, removed when dropped.
#[derive(Debug)]
pub(crate) struct TemporaryName {
    directory: SegmentFile,
    name: Line<32>,
}

impl TemporaryName {
    /// Gives the file the name `path`; the temporary name stays until this is dropped.
    pub(crate) fn publish(&self, path: &CStr) -> Result<(), FileError> {
        link_at(self.directory.descriptor, c_string(&self.name), path, 0)
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        // SAFETY: a `CStr` ends with a zero, and the descriptor is that of a directory, which this value owns.
        unsafe { libc::unlinkat(self.directory.descriptor, c_string(&self.name).as_ptr(), 0) };
    }
}

/// Names that a dead process of the same number has left are skipped.
fn make_temporary(directory: &CStr) -> Result<(SegmentFile, TemporaryName), FileError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const ATTEMPTS: u32 = 1000;
    let directory = open_directory(directory)?;
    for _ in 0..ATTEMPTS {
        let mut name = Line::new();
        let _ = write!(name, ".heapwright-{}-{}\0", process_id(), NEXT.fetch_add(1, Ordering::Relaxed) % ATTEMPTS);
        match create_in(&directory, c_string(&name)) {
            Ok(file) => return Ok((file, TemporaryName { directory, name })),
            Err(FileError::Exists) => {}
            Err(error) => return Err(error),
        }
    }
    Err(FileError::Exists)
}

fn open_directory(path: &CStr) -> Result<SegmentFile, FileError> {
    let flags = libc::O_DIRECTORY | libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: a `CStr` ends with a zero.
    SegmentFile::of(retried(|| unsafe { libc::open(path.as_ptr(), flags) })?)
}

/// Creates a file in an open directory.
fn create_in(directory: &SegmentFile, name: &CStr) -> Result<SegmentFile, FileError> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: a `CStr` ends with a zero, and the descriptor is that of the open directory.
    let open = || unsafe { libc::openat(directory.descriptor, name.as_ptr(), flags, 0o600 as libc::c_uint) };
    SegmentFile::of(retried(open)?)
}

fn link_at(directory: i32, from: &CStr, to: &CStr, flags: i32) -> Result<(), FileError> {
    // SAFETY: a `CStr` ends with a zero.
    retried(|| unsafe { libc::linkat(directory, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags) }).map(|_| ())
}

fn c_string<const N: usize>(text: &Line<N>) -> &CStr {
    CStr::from_bytes_until_nul(text.bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::string::ToString;

    use super::*;

    /// On file systems with files without names, only this test calls `make_temporary`.
    #[test]
    fn a_temporary_name_goes_when_the_file_has_its_own_or_is_given_up() {
        let directory = std::env::temp_dir().join(std::format!("heapwright-os-temporary-{}", process_id()));
        fs::create_dir_all(&directory).unwrap();
        let path = |name| CString::new(directory.join(name).to_str().unwrap()).unwrap();
        let names =
            || fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect::<std::vec::Vec<_>>();

        let (file, name) = make_temporary(&path("")).unwrap();
        assert_eq!(names().len(), 1);
        assert!(names()[0].to_str().unwrap().starts_with(&std::format!(".heapwright-{}-", process_id())));
        assert_eq!(name.publish(&path("first")), Ok(()));
        drop(name);
        assert_eq!(names(), ["first"]);

        let (_other, name) = make_temporary(&path("")).unwrap();
        assert_eq!(name.publish(&path("first")), Err(FileError::Exists));
        drop(name);
        assert_eq!(names(), ["first"]);
        let found = SegmentFile::open(&path("first")).unwrap();
        assert_eq!(found.status(), file.status());
        assert_eq!(make_temporary(&path("missing")).unwrap_err().to_string(), FileError::NotFound.to_string());
        fs::remove_dir_all(&directory).unwrap();
    }
}
