//! Files that are there as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// A file that is written under another name beside its place until it is kept; what stood there stays until then. What is
/// no common file, such as a pipe, is written to directly.
pub struct Draft {
    place: PathBuf,
    to: To,
}

enum To {
    Beside(NamedTempFile),
    Directly(File),
}

impl Draft {
    /// Begins the file that is to stand at `place`.
    ///
    /// # Errors
    /// When it could not be written there; says so.
    pub fn of(place: &Path) -> Result<Draft> {
        let begun = if fs::metadata(place).is_ok_and(|there| !there.is_file()) {
            OpenOptions::new().write(true).open(place).map(To::Directly)
        } else {
            let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // Temporary files are their owner's alone unless told otherwise; this one becomes a file like any other.
            let like_any_other = fs::Permissions::from_mode(0o666);
            tempfile::Builder::new().permissions(like_any_other).tempfile_in(folder).map(To::Beside)
        };
        Ok(Draft { to: begun.with_context(|| cannot(place))?, place: place.to_owned() })
    }

    /// The file itself, for who has to seek in it.
    pub fn as_file_mut(&mut self) -> &mut File {
        match &mut self.to {
            To::Beside(file) => file.as_file_mut(),
            To::Directly(file) => file,
        }
    }

    /// Puts the file into its place.
    ///
    /// # Errors
    /// As [`Draft::of`]; what stood there is still there.
    pub fn keep(mut self) -> Result<()> {
        self.as_file_mut().flush().with_context(|| cannot(&self.place))?;
        match self.to {
            To::Beside(file) => file.persist(&self.place).map(drop).with_context(|| cannot(&self.place)),
            To::Directly(_) => Ok(()),
        }
    }
}

fn cannot(place: &Path) -> String {
    format!("{} cannot be written", place.display())
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.as_file_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        fs::write(&place, "before").unwrap();
        let mut draft = Draft::of(&place).unwrap();
        draft.write_all(b"half").unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"before");
        drop(draft);
        assert_eq!((fs::read(&place).unwrap(), fs::read_dir(&folder).unwrap().count()), (b"before".to_vec(), 1));

        let mut draft = Draft::of(&place).unwrap();
        draft.write_all(b"whole").unwrap();
        draft.keep().unwrap();
        assert_eq!((fs::read(&place).unwrap(), fs::read_dir(&folder).unwrap().count()), (b"whole".to_vec(), 1));
    }

    #[test]
    fn what_is_no_common_file_is_written_to() {
        let mut draft = Draft::of(Path::new("/dev/null")).unwrap();
        draft.write_all(b"gone").unwrap();
        draft.keep().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let said = Draft::of(Path::new("/nowhere/at/all")).err().unwrap().to_string();
        assert_eq!(said, "/nowhere/at/all cannot be written");
    }
}
