//! Paths that are removed before this process ends: its temporary files and folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What to remove.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Lists a path.
pub(crate) fn add(path: &Path) {
    all(|all| all.push(path.to_owned()));
}

/// Takes a path off the list.
pub(crate) fn forget(path: &Path) {
    all(|all| {
        if let Some(at) = all.iter().position(|listed| listed == path) {
            all.swap_remove(at);
        }
    });
}

fn all<R>(change: impl FnOnce(&mut Vec<PathBuf>) -> R) -> R {
    change(&mut ALL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes everything, before this process ends.
pub fn remove_all() {
    remove(&all(std::mem::take));
}

/// Removes everything, unless the list is being changed, perhaps by this thread.
pub(crate) fn remove_all_if_unlocked() {
    if let Ok(all) = ALL.try_lock() {
        remove(&all);
    }
}

fn remove(paths: &[PathBuf]) {
    // What cannot be removed stays behind: the process ends.
    for path in paths {
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}
