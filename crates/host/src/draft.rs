//! Files that are replaced atomically.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::names::{STANDARD_OUTPUT, Shown};
use crate::process::reason_of_failed_write;
use crate::temporary::Listed;

/// A file that is written under a temporary name next to its [destination](crate::destination::Destination) until it
/// is kept; until then an older file stays. A destination that is not a regular file, such as a pipe, is written
/// directly.
pub struct Draft {
    /// The destination's path as it was given.
    named: PathBuf,
    to: To,
}

enum To {
    Beside { file: NamedTempFile, target: PathBuf, _listed: Listed },
    Directly(File),
}

impl Draft {
    pub(crate) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
        // Temporary files are private to their owner by default; this one gets the usual permissions.
        let like_any_other = fs::Permissions::from_mode(0o666);
        tempfile::Builder::new().prefix(".heapwright-").permissions(like_any_other).tempfile_in(folder)
    }

    pub(crate) fn beside(file: NamedTempFile, target: &Path, named: &Path) -> io::Result<Draft> {
        let listed = Listed::new(file.path())?;
        Ok(Draft { named: named.to_owned(), to: To::Beside { file, target: target.to_owned(), _listed: listed } })
    }

    pub(crate) fn directly(file: File, named: &Path) -> Draft {
        Draft { named: named.to_owned(), to: To::Directly(file) }
    }

    /// Returns the file itself, for seeking.
    pub fn as_file_mut(&mut self) -> &mut File {
        match &mut self.to {
            To::Beside { file, .. } => file.as_file_mut(),
            To::Directly(file) => file,
        }
    }

    /// Moves the file to its destination, so that it survives a crash of the machine from now on.
    ///
    /// # Errors
    /// When the file cannot be moved; the older file is then still there.
    pub fn keep(self) -> Result<()> {
        let named = self.named;
        match self.to {
            To::Beside { file, target, _listed } => replace(file, &target),
            To::Directly(mut file) => file.flush(),
        }
        .with_context(|| cannot(&named))
    }
}

fn replace(file: NamedTempFile, target: &Path) -> io::Result<()> {
    if let Ok(before) = fs::metadata(target) {
        let new = file.as_file();
        if new.metadata().is_ok_and(|now| (now.uid(), now.gid()) != (before.uid(), before.gid())) {
            // Only root may do so; the file of another user then becomes this user's, as with other tools.
            let _ = fchown(new, Some(before.uid()), Some(before.gid()));
        }
        new.set_permissions(fs::Permissions::from_mode(before.mode() & 0o777))?;
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    match File::open(folder_of(target)).and_then(|folder| folder.sync_all()) {
        // A directory that may be written but not read cannot be opened, and some file systems cannot sync directories.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => Ok(()),
        synced => synced,
    }
}

/// Returns the directory of a file.
pub(crate) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Errors name the destination.
impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.as_file_mut().write(bytes).map_err(|error| {
            let reason = reason_of_failed_write(&error);
            io::Error::new(error.kind(), format!("{}: {reason}", cannot(&self.named)))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.as_file_mut().flush()
    }
}

/// The message about a file that cannot be written.
pub(crate) fn cannot(place: &Path) -> String {
    if place.as_os_str() == STANDARD_OUTPUT {
        "standard output cannot be written".to_owned()
    } else {
        format!("{} cannot be written", place.shown())
    }
}

#[cfg(test)]
mod tests {
    use crate::destination::{Contents, Destination};

    use super::*;

    #[test]
    fn what_is_not_kept_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        fs::write(&place, "before").unwrap();
        let destination = Destination::of(&place, Contents::Other, &[]).unwrap();
        let mut draft = destination.draft().unwrap();
        draft.write_all(b"half").unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"before");
        drop(draft);
        assert_eq!((fs::read(&place).unwrap(), fs::read_dir(&folder).unwrap().count()), (b"before".to_vec(), 1));

        let mut draft = destination.draft().unwrap();
        draft.write_all(b"whole").unwrap();
        draft.keep().unwrap();
        assert_eq!((fs::read(&place).unwrap(), fs::read_dir(&folder).unwrap().count()), (b"whole".to_vec(), 1));
    }
}
