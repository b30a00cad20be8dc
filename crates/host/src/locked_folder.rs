//! Folders that are locked while the command that made them lives, so that the next command can remove those of
//! commands that were killed.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::{Builder, TempDir};

use crate::files::{is_locked_elsewhere, try_lock};
use crate::process::effective_user;

/// A folder that is locked, and removed when this is dropped.
pub struct LockedFolder {
    folder: TempDir,
    /// Locked until it is closed.
    _lock: File,
}

impl LockedFolder {
    /// Makes a folder in `parent`, with the name and the permissions of `builder`.
    ///
    /// # Errors
    /// When there is no place or no space for it.
    pub fn make(parent: &Path, builder: &Builder) -> io::Result<LockedFolder> {
        // Until it is locked, another command may take it for abandoned, and remove it. Then the next one is made.
        loop {
            let folder = builder.tempdir_in(parent)?;
            let lock = match File::open(folder.path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                lock => lock?,
            };
            if !is_locked_elsewhere(&lock) && folder.path().exists() {
                return Ok(LockedFolder { folder, _lock: lock });
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders in `parent` of this user's commands that were killed. All whose names `is_locked_name` accepts
/// must be locked while they are used. One that cannot be removed does no harm.
pub fn remove_abandoned(parent: &Path, is_locked_name: impl Fn(&[u8]) -> bool) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_locked_name(entry.file_name().as_encoded_bytes())
            && let Some(_lock) = lock_abandoned(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a folder of a command of this user that does not live any more.
fn lock_abandoned(path: &Path) -> Option<File> {
    let found = fs::symlink_metadata(path).ok()?;
    let own = found.is_dir() && found.uid() == effective_user();
    own.then(|| File::open(path).ok())?.filter(try_lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "heapwright-";

    fn is_ours(name: &[u8]) -> bool {
        name.starts_with(PREFIX.as_bytes())
    }

    #[test]
    fn what_a_killed_command_left_is_removed_and_what_is_in_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("1-0"), "stream").unwrap();
            path
        };
        let [abandoned, used, other] = ["heapwright-abandoned", "heapwright-used", "other"].map(make);
        let user = File::open(&used).unwrap();
        assert!(try_lock(&user));
        remove_abandoned(parent.path(), is_ours);
        assert_eq!([abandoned, used, other].map(|path| path.exists()), [false, true, true]);
    }

    /// A folder that is removed before it is locked is made again.
    #[test]
    fn folders_that_are_made_while_others_look_for_abandoned_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            let (made, look) =
                (threads.spawn(|| each_stays(parent.path())), threads.spawn(|| each_stays(parent.path())));
            while !(made.is_finished() && look.is_finished()) {
                remove_abandoned(parent.path(), is_ours);
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    fn each_stays(parent: &Path) {
        for _ in 0..2000 {
            let folder = LockedFolder::make(parent, Builder::new().prefix(PREFIX)).unwrap();
            remove_abandoned(parent, is_ours);
            assert!(folder.path().exists());
        }
    }
}
