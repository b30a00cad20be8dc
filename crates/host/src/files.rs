//! File systems, locks on files, and capabilities of programs.

use std::collections::BTreeMap;
use std::fs::{self, File, FileType};
use std::io::{self, Read, Take};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::names::Shown;
use rustix::fs::{FlockOperation, SeekFrom, StatVfsMountFlags, flock, getxattr, seek, statvfs};

/// An open file that does not get longer: of a plain file that is still written, each reader of this command sees what
/// the first one saw.
pub struct Source(Take<File>);

impl Read for Source {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

/// Opens a file for reading.
///
/// # Errors
/// When it cannot be opened, with its name.
pub fn open(path: &Path) -> Result<Source> {
    let opened = File::open(path).and_then(|file| Ok((first_length(&file)?, file)));
    let (length, file) = opened.with_context(|| match path == Path::new("-") {
        true => "- cannot be opened (standard input is /dev/stdin)".to_owned(),
        false => format!("{} cannot be opened", path.shown()),
    })?;
    Ok(Source(file.take(length)))
}

/// Returns the length that a file had when this command first opened it; of other than plain files, the most. So it is
/// where the file system does not say when a file was made: another may have its inode by now.
fn first_length(file: &File) -> io::Result<u64> {
    type Identity = (u64, u64, SystemTime);
    static LENGTHS: Mutex<BTreeMap<Identity, u64>> = Mutex::new(BTreeMap::new());
    let found = file.metadata()?;
    let made = found.created().ok().filter(|_| found.is_file());
    let Some(made) = made else { return Ok(u64::MAX) };
    let mut lengths = LENGTHS.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(*lengths.entry((found.dev(), found.ino(), made)).or_insert(found.len()))
}

/// Opens a plain file for reading. A pipe that has this name is not waited for.
///
/// # Errors
/// When it cannot be opened, or is no plain file.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is a directory, a pipe or a device, not a plain file"));
    }
    Ok(file)
}

/// Checks that a file can be read more than once, as pipes cannot.
///
/// # Errors
/// That it cannot, and what to do. A file that is not there is reported by opening it.
pub fn ensure_rereadable(path: &Path) -> io::Result<()> {
    let is_read_once = |kind: FileType| kind.is_fifo() || kind.is_char_device() || kind.is_socket();
    if fs::metadata(path).is_ok_and(|found| is_read_once(found.file_type())) {
        let name = path.shown();
        let message =
            format!("{name} can be read only once, and this command reads a trace several times: save it as a file");
        return Err(io::Error::other(message));
    }
    Ok(())
}

/// Returns the path of a file of `process` beside `path`: `T.PID.hwt` beside `T.hwt`.
pub fn path_for_process(path: &Path, process: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{process}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Locks an open file or directory until it is closed. Returns `false` if another open file holds the lock.
pub fn try_lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Locks an open file until it is closed, and returns whether another open file holds the lock. On a file system
/// without locks it returns `false`.
pub fn is_locked_elsewhere(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Returns the next range of a file, from `from` on, that is not a hole; `None` when only a hole follows. A file system
/// without holes has a single range.
pub fn next_data(file: &File, from: u64) -> Option<Range<u64>> {
    let start = seek(file, SeekFrom::Data(from)).ok()?;
    let end = seek(file, SeekFrom::Hole(start)).ok()?;
    Some(start..end)
}

/// Returns how many bytes this user can still write to the file system of `folder`; `None` if unknown.
pub fn free_space(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns whether no file in `folder` can be loaded as code, because its path is invalid or its file system is mounted
/// `noexec`.
pub fn forbids_code(folder: &Path) -> bool {
    match statvfs(folder) {
        Ok(found) => found.f_flag.contains(StatVfsMountFlags::NOEXEC),
        // A path with a zero byte is invalid; for other errors the loader reports the reason.
        Err(error) => error == rustix::io::Errno::INVAL,
    }
}

/// Returns whether the program at `path` has file capabilities, as `setcap` sets them.
pub fn has_capabilities(path: &Path) -> bool {
    // An empty buffer requests only the length.
    let mut nothing: [u8; 0] = [];
    getxattr(path, c"security.capability", &mut nothing[..]).is_ok_and(|length| length > 0)
}

/// Returns the paths of what lies in `folder`, in order; none if it cannot be read.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Temporary files come and go, and have each other's inodes.
    #[test]
    fn another_file_in_the_place_of_one_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in 1..50 {
            fs::write(&path, vec![b'x'; length]).unwrap();
            let mut read = Vec::new();
            open(&path).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read.len(), length);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_folder_with_programs_may_hold_code() {
        assert!(!forbids_code(Path::new("/usr/bin")));
        assert!(forbids_code(Path::new("/usr/bin\0")));
    }

    #[test]
    fn pipes_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, is_rereadable) in [(&file, true), (&pipe, false), (&folder.path().join("nothing"), true)] {
            assert_eq!(ensure_rereadable(path).is_ok(), is_rereadable, "{}", path.display());
        }
    }

    #[test]
    fn a_lock_is_held_by_one_open_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let [one, other] = [0, 1].map(|_| File::open(file.path()).unwrap());
        assert!(try_lock(&one) && !try_lock(&other));
        assert!(is_locked_elsewhere(&other) && !is_locked_elsewhere(&one));
        drop(one);
        assert!(try_lock(&other));
    }

    #[test]
    fn an_ordinary_program_has_no_capabilities() {
        assert!(!has_capabilities(Path::new("/bin/sh")) && !has_capabilities(Path::new("/nowhere")));
        assert!(free_space(Path::new("/")).is_some() && free_space(Path::new("/nowhere")).is_none());
    }
}
