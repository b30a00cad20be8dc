//! Temporary files and folders, which are removed even when a signal ends this process. Folders of a process that was
//! killed are removed by the next one that makes some.

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use tempfile::Builder;

use crate::cleanup;
use crate::interruption;
use crate::locked_folder::{LockedFolder, remove_abandoned};
use crate::names::Shown;

/// The variable that names the folder of temporary files.
const PLACE: &str = "TMPDIR";

/// What can be done where there is no place for temporary files.
const OTHER: &str = "TMPDIR can name another directory";

/// Returns the folder in which temporary files are created: the value of `TMPDIR`, or /tmp where that is not set or
/// empty. It is never created itself.
///
/// # Errors
/// When there is no such folder, with what to do.
pub fn place() -> Result<PathBuf> {
    let named = env::var_os(PLACE).filter(|named| !named.is_empty());
    let place = named.as_ref().map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    if place.is_dir() {
        return Ok(place);
    }
    let name = place.shown();
    if named.is_none() {
        bail!("{name}, for temporary files, is no folder: create it, or name another by {PLACE}");
    }
    bail!("{PLACE} names {name}, which is no folder: create it, or name another")
}

/// Returns what to do about an error of a temporary file, to be put behind its text: empty, unless there is no space.
pub fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ": make room there, or name another directory by TMPDIR",
        _ => "",
    }
}

/// Creates a temporary file without a name, which is gone when it is closed.
///
/// # Errors
/// When it cannot be created, with the folder.
pub fn file() -> Result<File> {
    let place = place()?;
    tempfile::tempfile_in(&place)
        .with_context(|| format!("no temporary file can be created in {} ({OTHER})", place.shown()))
}

/// How the names of temporary folders begin.
const PREFIX: &str = "heapwright-";

/// Returns whether a name is that of a [`Folder`]: the prefix, a word, a number and a random text. The random texts of
/// other temporary files have no hyphens.
fn is_of_a_folder(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX.as_bytes()) else { return false };
    let parts: Vec<&[u8]> = rest.split(|&byte| byte == b'-').collect();
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    matches!(parts[..], [word, number, random] if !word.is_empty() && is_number(number) && !random.is_empty())
}

/// A temporary folder, which is removed when this is dropped.
pub struct Folder {
    // Fields are dropped in this order.
    folder: LockedFolder,
    _listed: Listed,
}

impl Folder {
    /// Creates a folder whose name begins with `heapwright-`, for `what`. Other users cannot read what lies in it.
    /// Removes such folders of processes of this user that were killed.
    ///
    /// # Errors
    /// When there is no place or no space for it.
    pub fn new(what: &str) -> Result<Folder> {
        let prefix = format!("{PREFIX}{what}-{}-", process::id());
        let private = fs::Permissions::from_mode(0o700);
        let place = place()?;
        remove_abandoned(&place, is_of_a_folder);
        let folder = LockedFolder::make(&place, Builder::new().prefix(&prefix).permissions(private));
        let folder =
            folder.with_context(|| format!("no temporary folder can be created in {} ({OTHER})", place.shown()))?;
        let listed = Listed::new(folder.path()).context("cannot listen for signals")?;
        Ok(Folder { folder, _listed: listed })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A path that is removed when a signal ends this process, while this lives.
pub(crate) struct Listed {
    path: PathBuf,
}

impl Listed {
    pub(crate) fn new(path: &Path) -> io::Result<Listed> {
        cleanup::add(path);
        // First listed: the thread that listens may have no memory to begin with, which ends the process.
        let listed = Listed { path: path.to_owned() };
        interruption::watch()?;
        Ok(listed)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        cleanup::forget(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn folders_are_private() {
        let folder = Folder::new("test").unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        assert!(is_of_a_folder(folder.path().file_name().unwrap().as_encoded_bytes()));
    }

    #[test]
    fn only_names_of_folders_that_are_locked_are_those_of_abandoned_ones() {
        assert!(is_of_a_folder(b"heapwright-bench-4711-aB3xYz"));
        let others: [&[u8]; 5] = [
            b"heapwright-bench-aB3xYz",
            b"heapwright-record-123456",
            b"heapwright-1000",
            b"heapwright-bench-4711-",
            b"other-bench-4711-aB3xYz",
        ];
        others.iter().for_each(|name| assert!(!is_of_a_folder(name)));
    }
}
