//! A trace file while it is written: `T.partial` beside `T`, which becomes `T` once it is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use heapwright_host::files::is_locked_elsewhere;
use heapwright_host::names::Shown;
use heapwright_trace::{ReadError, Reader};

/// What is appended to the name of a trace that is not complete.
const SUFFIX: &str = ".partial";

/// A trace file that is not complete.
pub struct Partial {
    destination: PathBuf,
    path: PathBuf,
    /// The open file, locked against other recordings until it is closed.
    file: Option<File>,
}

impl Partial {
    /// Opens and locks `T.partial` for the destination `T`. Contents that a dead recorder left in it stay until
    /// [`Partial::begin`].
    ///
    /// # Errors
    /// The file cannot be written, another recording writes it, or it or the destination contains something else than a
    /// trace.
    pub fn open(destination: &Path) -> Result<Partial> {
        /// A recording that ends renames the file that this one is about to lock.
        const ATTEMPTS: usize = 10;
        require_trace(destination)?;
        let path = with_suffix(destination);
        if let Ok(found) = fs::symlink_metadata(&path) {
            ensure!(found.is_file(), "{} is not a regular file", path.shown());
        }
        for _ in 0..ATTEMPTS {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let file = opened.with_context(|| format!("{} cannot be written", path.shown()))?;
            ensure!(!is_locked_elsewhere(&file), "another recording writes {}", path.shown());
            if is_at(&file, &path)? {
                require_trace(&path)?;
                if file.metadata()?.nlink() > 1 {
                    // It was kept under another name, and stays there.
                    fs::remove_file(&path).with_context(|| format!("{} cannot be replaced", path.shown()))?;
                    continue;
                }
                return Ok(Partial { destination: destination.to_owned(), path, file: Some(file) });
            }
        }
        bail!("another recording writes {}", path.shown())
    }

    /// Returns the path of the file while it is not complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path that the file gets once it is complete.
    pub fn destination(&self) -> &Path {
        &self.destination
    }

    /// Removes what an earlier recording left in the file, and returns the file for writing. The lock is held until
    /// both are closed.
    pub fn begin(&self) -> io::Result<File> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.try_clone()?;
        file.set_len(0)?;
        Ok(file)
    }

    /// Does the same as [`Partial::begin`], and leaves the file to the caller: a recording of many processes keeps no
    /// more files open than there are processes at a time.
    pub fn begin_once(&mut self) -> io::Result<File> {
        let file = self.begin()?;
        self.file = None;
        Ok(file)
    }

    /// Changes the destination while the file is being written.
    pub fn move_to(&mut self, destination: &Path) -> Result<()> {
        require_trace(destination)?;
        let path = with_suffix(destination);
        fs::rename(&self.path, &path).with_context(|| format!("{} cannot be renamed", self.path.shown()))?;
        (self.destination, self.path) = (destination.to_owned(), path);
        Ok(())
    }

    /// Replaces the destination by the complete file, with the mode and owner of the file that it replaces.
    ///
    /// # Errors
    /// The destination is as it was, and the partial file is still there.
    pub fn complete(&self) -> Result<()> {
        require_trace(&self.destination)?;
        self.replace().with_context(|| format!("{} cannot be written", self.destination.shown()))
    }

    fn replace(&self) -> io::Result<()> {
        let file = File::open(&self.path)?;
        if let Ok(old) = fs::metadata(&self.destination) {
            // Only root may give files away; the owner is then the one who recorded.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&self.path, &self.destination)?;
        // Not every file system can do this, and the trace is in place.
        let _ = File::open(folder_of(&self.destination)).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Removes the file; one that cannot be removed does no harm.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Removes the file if nothing was ever written to it.
    pub fn remove_if_empty(&self) {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() == 0) {
            self.remove();
        }
    }

    /// Makes what was written durable, as far as the system can.
    pub fn sync(&self) {
        let _ = File::open(&self.path).and_then(|file| file.sync_all());
    }
}

fn with_suffix(destination: &Path) -> PathBuf {
    let mut path = OsString::from(destination);
    path.push(SUFFIX);
    PathBuf::from(path)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns whether `path` is still the name of an open file.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let opened = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino())))
}

/// Refuses to replace a file that has contents and is not a trace.
fn require_trace(path: &Path) -> Result<()> {
    if !fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.shown()))?;
    if let Err(ReadError::NotATrace) = Reader::new(file) {
        bail!("{} exists and is not a Heapwright trace: it is not replaced", path.shown());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use heapwright_trace::{About, Writer};

    use super::*;

    /// The bytes of an empty trace of this program.
    fn trace(program: &str) -> Vec<u8> {
        Writer::new(Vec::new(), &About::of_program(program)).unwrap().finish().unwrap()
    }

    #[test]
    fn the_older_trace_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("t.hwt");
        fs::write(&place, trace("old")).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).unwrap();
        let partial = Partial::open(&place).unwrap();
        partial.begin().unwrap().write_all(&trace("new")).unwrap();
        assert_eq!(fs::read(&place).unwrap(), trace("old"));
        partial.complete().unwrap();
        assert_eq!(fs::read(&place).unwrap(), trace("new"));
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!partial.path().exists());
    }

    #[test]
    fn what_is_not_a_trace_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("t.hwt");
        for name in ["t.hwt", "t.hwt.partial"] {
            let precious = folder.path().join(name);
            fs::write(&precious, "precious").unwrap();
            let error = Partial::open(&place).err().unwrap().to_string();
            assert!(error.contains("is not a Heapwright trace"), "{error}");
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
            fs::remove_file(precious).unwrap();
        }
        let partial = Partial::open(&place).unwrap();
        partial.begin().unwrap().write_all(&trace("new")).unwrap();
        fs::write(&place, "it came later").unwrap();
        assert!(partial.complete().is_err());
        assert_eq!((fs::read(&place).unwrap(), partial.path().exists()), (b"it came later".to_vec(), true));
    }

    #[test]
    fn what_a_recorder_left_that_was_killed_at_its_first_write_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("t.hwt");
        let whole = trace("new");
        for cut in [8, 12, 13, whole.len() - 1] {
            fs::write(folder.path().join("t.hwt.partial"), &whole[..cut]).unwrap();
            let partial = Partial::open(&place).unwrap();
            partial.begin().unwrap().write_all(&whole).unwrap();
            partial.complete().unwrap();
        }
    }

    #[test]
    fn a_partial_file_that_has_another_name_stays_under_that() {
        let folder = tempfile::tempdir().unwrap();
        let [place, kept] = ["t.hwt", "kept.hwt"].map(|name| folder.path().join(name));
        fs::write(&kept, trace("old")).unwrap();
        fs::hard_link(&kept, folder.path().join("t.hwt.partial")).unwrap();
        let partial = Partial::open(&place).unwrap();
        partial.begin().unwrap().write_all(&trace("new")).unwrap();
        partial.complete().unwrap();
        assert_eq!((fs::read(&kept).unwrap(), fs::read(&place).unwrap()), (trace("old"), trace("new")));
    }

    #[test]
    fn a_partial_file_belongs_to_one_recording_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("t.hwt");
        let mut one = Partial::open(&place).unwrap();
        let mut file = one.begin_once().unwrap();
        file.write_all(&trace("one")).unwrap();
        let error = Partial::open(&place).err().unwrap().to_string();
        assert!(error.contains("another recording writes"), "{error}");
        drop(file);
        // What a dead recorder left stays until the next one has something to write. A child that another test makes
        // has the file, and its lock, until it executes its program.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let other = loop {
            match Partial::open(&place) {
                Ok(other) => break other,
                Err(error) => assert!(std::time::Instant::now() < patience, "{error}"),
            }
        };
        assert_eq!(fs::read(other.path()).unwrap(), trace("one"));
        other.remove_if_empty();
        assert!(other.path().exists());
        other.begin().unwrap();
        other.remove_if_empty();
        assert!(!other.path().exists());
    }
}
