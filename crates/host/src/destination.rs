//! Where a command writes a file for its user: checked before the command begins its work.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Access, access};

use crate::draft::{Draft, cannot, folder_of};
use crate::names::{STANDARD_OUTPUT, Shown};

/// The first bytes of every trace.
const TRACE: &[u8; 8] = b"hwtrace\0";

/// The most symbolic links that are followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// What is written, which decides what it may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A trace replaces traces and empty files.
    Trace,
    /// A page, a table or text of another tool replaces anything but traces.
    Other,
}

/// A place that can be written to, and may be.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The path as it was given.
    named: PathBuf,
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    /// A file that is replaced as a whole: its path without symbolic links.
    File(PathBuf),
    /// A pipe, a device or a socket.
    Special(PathBuf),
    /// A file that this process has open.
    Open(RawFd),
}

impl Target {
    /// Returns whether both are one file, or one file that this process has open. Everything written to the same pipe
    /// or device arrives.
    fn is(&self, other: &Target) -> bool {
        match (self, other) {
            (Target::File(one), Target::File(other)) => canonical(one) == canonical(other),
            (Target::Open(one), Target::Open(other)) => one == other,
            _ => false,
        }
    }
}

impl Destination {
    /// Checks that `contents` can be written to `place`, and that this loses neither one of `sources`, which the
    /// command reads, nor a file that is unlikely to be meant. `-` is standard output.
    ///
    /// # Errors
    /// Says what prevents it, and what to do instead.
    pub fn of(place: &Path, contents: Contents, sources: &[&Path]) -> Result<Destination> {
        let named = place.to_owned();
        if place.as_os_str() == STANDARD_OUTPUT {
            return Ok(Destination { named, target: Target::Open(1) });
        }
        let name = place.shown();
        let target = resolve(place).with_context(|| cannot(place))?;
        let there = match fs::metadata(place) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| cannot(place)),
        };
        if let Some(there) = &there {
            for source in sources {
                ensure!(
                    !is_same_file(there, source),
                    "{name} is read by this command, and would be overwritten: name another file"
                );
            }
        }
        match (&target, &there) {
            (Target::File(path), there) => {
                if let Some(there) = there {
                    ensure!(!there.is_dir(), "{name} is a directory: name a file in it");
                    ensure_replaceable(place, there, contents)?;
                }
                access(folder_of(path), Access::WRITE_OK | Access::EXEC_OK).with_context(|| cannot(place))?;
                drop(beside(path).with_context(|| cannot(place))?);
            }
            (Target::Special(path), _) => access(path, Access::WRITE_OK).with_context(|| cannot(place))?,
            (Target::Open(_), _) => {}
        }
        Ok(Destination { named, target })
    }

    /// Checks that no two of these are the same file, of which one would overwrite the other.
    ///
    /// # Errors
    /// Names both.
    pub fn ensure_apart(all: &[&Destination]) -> Result<()> {
        for (at, one) in all.iter().enumerate() {
            if let Some(other) = all[..at].iter().find(|other| other.target.is(&one.target)) {
                let [one, other] = [other, one].map(|each| each.named.shown());
                bail!("{one} and {other} are the same file, and one would overwrite the other: name another file");
            }
        }
        Ok(())
    }

    /// Returns whether a file of this path is this one, or would be.
    pub fn is_at(&self, path: &Path) -> bool {
        resolve(path).is_ok_and(|target| self.target.is(&target))
    }

    /// Returns whether this is standard output or another file that this process was started with, so that nothing
    /// else may be printed.
    pub fn is_open_already(&self) -> bool {
        matches!(self.target, Target::Open(_))
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.named
    }

    /// Begins to write.
    ///
    /// # Errors
    /// When the file cannot be written there any more.
    pub fn draft(&self) -> Result<Draft> {
        let begun = match &self.target {
            Target::File(path) => beside(path).and_then(|file| Draft::beside(file, path, &self.named)),
            Target::Special(path) => open_special(path).map(|file| Draft::directly(file, &self.named)),
            Target::Open(number) => duplicate(*number).map(|file| Draft::directly(file, &self.named)),
        };
        begun.with_context(|| cannot(&self.named))
    }

    /// Writes these bytes and nothing else.
    ///
    /// # Errors
    /// When they cannot be written; an older file is then still there.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut draft = self.draft()?;
        draft.write_all(bytes)?;
        draft.keep()
    }

    /// Opens the file itself, and empties it: for output that others read while it grows.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self) -> Result<File> {
        let opened = match &self.target {
            Target::File(path) => File::create(path),
            Target::Special(path) => open_special(path),
            Target::Open(number) => duplicate(*number),
        };
        opened.with_context(|| cannot(&self.named))
    }
}

/// Creates a temporary file next to `path`.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    Draft::temporary(folder_of(path))
}

/// Returns the path of a file that may not be there yet, with the only name of its folder.
fn canonical(path: &Path) -> Option<PathBuf> {
    Some(folder_of(path).canonicalize().ok()?.join(path.file_name()?))
}

/// Follows the symbolic links from `place`, which may lead to a file that is not there yet.
fn resolve(place: &Path) -> io::Result<Target> {
    let mut path = place.to_owned();
    for _ in 0..MOST_LINKS {
        if let Some(number) = number_of_open_file(&path) {
            return Ok(Target::Open(number));
        }
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_symlink() => {
                let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
                path = folder.join(fs::read_link(&path)?);
            }
            Ok(there) if there.is_file() || there.is_dir() => return Ok(Target::File(path)),
            Ok(_) => return Ok(Target::Special(path)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let names_a_file = matches!(path.components().next_back(), Some(Component::Normal(_)));
                let ends_with_slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
                if names_a_file && !ends_with_slash {
                    return Ok(Target::File(path));
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns the number of the open file of this process that `path` names in `/proc`, where `/dev/stdout` leads.
fn number_of_open_file(path: &Path) -> Option<RawFd> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let folder = path.parent()?.canonicalize().ok()?;
    let own = Path::new("/proc").join(std::process::id().to_string());
    (folder == own.join("fd")).then_some(number)
}

fn is_same_file(there: &Metadata, source: &Path) -> bool {
    fs::metadata(source)
        .is_ok_and(|source| source.is_file() && (source.dev(), source.ino()) == (there.dev(), there.ino()))
}

/// Fails if `contents` should not replace the existing file.
fn ensure_replaceable(place: &Path, there: &Metadata, contents: Contents) -> Result<()> {
    let name = place.shown();
    access(place, Access::WRITE_OK).with_context(|| cannot(place))?;
    if there.len() == 0 {
        return Ok(());
    }
    let mut start = Vec::new();
    let opened = File::open(place).and_then(|file| file.take(TRACE.len() as u64).read_to_end(&mut start));
    opened.with_context(|| format!("{name} exists, and whether it may be overwritten cannot be seen"))?;
    match (contents, start == TRACE) {
        (Contents::Other, true) => bail!("{name} is a trace, and would be overwritten: name another file"),
        (Contents::Trace, false) => {
            bail!("{name} is not a trace, and would be overwritten by one: name another file, or remove it first")
        }
        _ => Ok(()),
    }
}

fn open_special(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.file_type().is_socket() {
        return Ok(File::from(OwnedFd::from(UnixStream::connect(path)?)));
    }
    OpenOptions::new().write(true).open(path)
}

/// Returns another handle of an open file. The position in it is shared, so that earlier output is not overwritten.
fn duplicate(number: RawFd) -> io::Result<File> {
    // SAFETY: the number is checked by the call itself, which fails for a file that is not open. The borrow ends with
    // this function, and the numbers that users name here are of files that this process was started with, which it
    // does not close.
    let handle = unsafe { BorrowedFd::borrow_raw(number) };
    handle.try_clone_to_owned().map(File::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use std::thread;

    use super::*;

    const A_TRACE: &[u8] = b"hwtrace\0...";

    fn refusal(place: &Path, contents: Contents, sources: &[&Path]) -> String {
        format!("{:#}", Destination::of(place, contents, sources).expect_err("it was allowed"))
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_source_is_not_overwritten_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [trace, soft, hard, link_to_nothing] =
            ["t", "soft", "hard", "nothing"].map(|name| folder.path().join(name));
        fs::write(&trace, A_TRACE).unwrap();
        symlink("t", &soft).unwrap();
        symlink("new", &link_to_nothing).unwrap();
        fs::hard_link(&trace, &hard).unwrap();
        let dotted = folder.path().join("./t");
        for place in [&trace, &soft, &hard, &dotted] {
            for contents in [Contents::Trace, Contents::Other] {
                let said = refusal(place, contents, &[Path::new("/nowhere"), &trace]);
                assert!(said.contains("is read by this command"), "{said}");
            }
            assert!(refusal(&dotted, Contents::Trace, &[place]).contains("is read by this command"));
        }
        Destination::of(&link_to_nothing, Contents::Trace, &[&trace]).unwrap().write(A_TRACE).unwrap();
        assert_eq!(names(folder.path()), ["hard", "new", "nothing", "soft", "t"]);
    }

    #[test]
    fn traces_and_other_files_do_not_replace_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let [trace, text, empty] = ["t", "precious.txt", "empty"].map(|name| folder.path().join(name));
        fs::write(&trace, A_TRACE).unwrap();
        fs::write(&text, "precious").unwrap();
        fs::write(&empty, "").unwrap();
        assert!(refusal(&trace, Contents::Other, &[]).contains("is a trace, and would be overwritten"));
        assert!(refusal(&text, Contents::Trace, &[]).contains("is not a trace, and would be overwritten"));
        for (place, contents) in
            [(&trace, Contents::Trace), (&text, Contents::Other), (&empty, Contents::Trace), (&empty, Contents::Other)]
        {
            Destination::of(place, contents, &[]).unwrap();
        }
        assert_eq!(fs::read(&text).unwrap(), b"precious");
    }

    #[test]
    fn what_cannot_be_written_is_known_before_the_work_begins() {
        let folder = tempfile::tempdir().unwrap();
        let [file, looped] = ["file", "loop"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        symlink("loop", &looped).unwrap();
        assert!(refusal(folder.path(), Contents::Other, &[]).contains("is a directory"));
        let places = [
            Path::new("/nowhere/at/all"),
            Path::new("/proc/new"),
            &file.join("inside"),
            &folder.path().join("no/"),
            &looped,
        ];
        for place in places {
            let said = refusal(place, Contents::Other, &[]);
            assert!(said.starts_with(&format!("{} cannot be written: ", place.display())), "{said}");
        }
        assert_eq!(names(folder.path()), ["file", "loop"]);
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, new] = ["file", "link", "new"].map(|name| folder.path().join(name));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        Destination::of(&link, Contents::Other, &[]).unwrap().write(b"after").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);

        Destination::of(&new, Contents::Other, &[]).unwrap().write(b"new").unwrap();
        let like = folder.path().join("like");
        fs::write(&like, "").unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode(), fs::metadata(&like).unwrap().mode());
    }

    #[test]
    fn what_is_no_common_file_is_written_straight() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, socket] = ["pipe", "socket"].map(|name| folder.path().join(name));
        Destination::of(Path::new("/dev/null"), Contents::Trace, &[]).unwrap().write(b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let full = Destination::of(Path::new("/dev/full"), Contents::Other, &[]).unwrap().write(b"gone");
        assert!(full.unwrap_err().to_string().contains("/dev/full cannot be written"));

        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let to_pipe = Destination::of(&pipe, Contents::Trace, &[]).unwrap();
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        to_pipe.write(b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");

        let listener = UnixListener::bind(&socket).unwrap();
        Destination::of(&socket, Contents::Trace, &[]).unwrap().write(b"through").unwrap();
        let mut came = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut came).unwrap();
        assert_eq!((&came[..], names(folder.path()).len()), (&b"through"[..], 2));
    }

    #[test]
    fn two_outputs_are_not_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        symlink("file", &link).unwrap();
        let of = |path: &Path| Destination::of(path, Contents::Other, &[]).unwrap();
        let apart = |one: &Path, other: &Path| {
            let [one, other] = [of(one), of(other)];
            Destination::ensure_apart(&[&one, &other])
        };
        let null = Path::new("/dev/null");
        for (one, other) in [(&*file, &*link), (&file, &folder.path().join("./file")), (Path::new("-"), Path::new("-"))]
        {
            let said = apart(one, other).unwrap_err().to_string();
            assert!(said.contains("are the same file"), "{said}");
        }
        apart(&file, &folder.path().join("other")).unwrap();
        apart(null, null).unwrap();
        assert!(of(&file).is_at(&link) && of(&link).is_at(&file) && !of(&file).is_at(null));
        apart(&file, Path::new("-")).unwrap();
        assert!(names(folder.path()) == ["link"]);
    }

    #[test]
    fn an_open_file_is_written_where_it_stands() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut open = File::create(&log).unwrap();
        open.write_all(b"one ").unwrap();
        let place = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        Destination::of(&place, Contents::Trace, &[]).unwrap().write(b"two ").unwrap();
        open.write_all(b"three").unwrap();
        assert_eq!(fs::read(&log).unwrap(), b"one two three");
        let said = refusal(&place, Contents::Other, &[&log]);
        assert!(said.contains("is read by this command"), "{said}");
    }
}
