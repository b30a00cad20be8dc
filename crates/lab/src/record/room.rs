//! The private directory in which the recorded processes make their streams.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, ffi::CString, os::unix::ffi::OsStrExt};

use tempfile::TempDir;

const PREFIX: &str = "heapwright-record-";

/// Where streams cost no disk.
const MEMORY: &str = "/dev/shm";

/// How much space there has to be for streams to be kept in memory, in bytes: twice what a process may be ahead.
const ENOUGH: u64 = 1 << 30;

/// A directory of this command's own, removed when dropped. Should the command be killed, the next one removes it.
pub struct Room {
    folder: TempDir,
    /// Locked for as long as the command lives.
    _lock: File,
}

impl Room {
    /// Makes a directory, in memory when there is space.
    pub fn make() -> io::Result<Room> {
        let parent = if free_space(Path::new(MEMORY)) >= ENOUGH { PathBuf::from(MEMORY) } else { env::temp_dir() };
        remove_abandoned(&parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::open(folder.path())?;
        try_lock(&lock);
        Ok(Room { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the directories of commands that have been killed. One that cannot be removed is in nobody's way.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    /// Between the making of a directory and its locking lies far less.
    const SETTLED: Duration = Duration::from_secs(60);
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    // SAFETY: geteuid has no preconditions.
    let own = found.is_dir() && found.uid() == unsafe { libc::geteuid() };
    let settled = found.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > SETTLED));
    own && settled && File::open(path).is_ok_and(|folder| try_lock(&folder))
}

/// Locks an open directory until it is closed; `false` when somebody else has.
fn try_lock(folder: &File) -> bool {
    // SAFETY: the descriptor is open.
    unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// How many bytes this user can still write to the file system of `folder`; 0 when there is no telling.
fn free_space(folder: &Path) -> u64 {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return 0 };
    // SAFETY: all zeroes is a valid statvfs.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero byte and `found` is ours to write.
    match unsafe { libc::statvfs(name.as_ptr(), &mut found) } {
        0 => found.f_bavail.saturating_mul(found.f_frsize),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_command_left_is_removed_and_what_is_in_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("1-0"), "stream").unwrap();
            path
        };
        let (old, used, new) = (make("old"), make("used"), make("new"));
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        for path in [&old, &used] {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        let user = File::open(&used).unwrap();
        assert!(try_lock(&user));
        remove_abandoned(parent.path());
        assert_eq!((old.exists(), used.exists(), new.exists()), (false, true, true));
    }
}
