//! The private directory in which the recorded processes create their streams.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use heapwright_host::files::{free_space, is_locked_elsewhere, try_lock};
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
        remove_abandoned(memory);
        let has_space = free_space(memory).is_some_and(|free| free >= ENOUGH);
        match has_space.then(|| Room::inside(memory)) {
            Some(Ok(room)) => Ok(room),
            // It may be another user's, or read-only.
            _ => {
                let other = temporary::place()?;
                remove_abandoned(&other);
                Room::inside(&other)
            }
        }
    }

    fn inside(parent: &Path) -> Result<Room> {
        // Until it is locked, another command may take it for abandoned, and remove it. Then the next one is made.
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = match File::open(folder.path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                lock => lock?,
            };
            if !is_locked_elsewhere(&lock) && folder.path().exists() {
                return Ok(Room { folder, _lock: lock });
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the directories of commands that were killed. One that cannot be removed does no harm.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && let Some(_lock) = lock_abandoned(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a directory of a command of this user that does not live any more.
fn lock_abandoned(path: &Path) -> Option<File> {
    let found = fs::symlink_metadata(path).ok()?;
    let own = found.is_dir() && found.uid() == effective_user();
    own.then(|| File::open(path).ok())?.filter(try_lock)
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
        let (abandoned, used) = (make("abandoned"), make("used"));
        let user = File::open(&used).unwrap();
        assert!(try_lock(&user));
        remove_abandoned(parent.path());
        assert_eq!((abandoned.exists(), used.exists()), (false, true));
    }

    /// A directory that is removed before it is locked is made again.
    #[test]
    fn rooms_that_are_made_while_others_look_for_abandoned_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            let (made, look) =
                (threads.spawn(|| each_stays(parent.path())), threads.spawn(|| each_stays(parent.path())));
            while !(made.is_finished() && look.is_finished()) {
                remove_abandoned(parent.path());
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    fn each_stays(parent: &Path) {
        for _ in 0..2000 {
            let room = Room::inside(parent).unwrap();
            remove_abandoned(parent);
            assert!(room.path().exists());
        }
    }
}
