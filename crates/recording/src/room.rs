//! The private directory in which the recorded processes create their streams.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use heapwright_host::files::{free_space, try_lock};
use heapwright_host::process::effective_user;
use heapwright_host::temporary;
use tempfile::TempDir;

const PREFIX: &str = "heapwright-record-";

/// A file system in memory, where streams cost no disk.
const MEMORY: &str = "/dev/shm";

/// Free space required to keep streams in memory, in bytes: twice the most by which a process may run ahead of the
/// collector.
const ENOUGH: u64 = 1 << 30;

/// A directory that belongs to this command, removed when dropped. If the command is killed, the next command removes
/// it.
pub struct Room {
    folder: TempDir,
    /// Locked while the command lives.
    _lock: File,
}

impl Room {
    /// Creates a directory, in memory when there is space and it can be made there.
    ///
    /// # Errors
    /// When there is no place or no space for it.
    pub fn make() -> Result<Room> {
        let memory = Path::new(MEMORY);
        let has_space = free_space(memory).is_some_and(|free| free >= ENOUGH);
        match has_space.then(|| Room::inside(memory)) {
            Some(Ok(room)) => Ok(room),
            // It may be another user's, or read-only.
            _ => Room::inside(&temporary::place()?),
        }
    }

    fn inside(parent: &Path) -> Result<Room> {
        remove_abandoned(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::open(folder.path())?;
        try_lock(&lock);
        Ok(Room { folder, _lock: lock })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the directories of commands that were killed. One that cannot be removed does no harm.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    /// A directory is locked long before it reaches this age.
    const SETTLED: Duration = Duration::from_secs(60);
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let own = found.is_dir() && found.uid() == effective_user();
    let settled = found.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > SETTLED));
    own && settled && File::open(path).is_ok_and(|folder| try_lock(&folder))
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
