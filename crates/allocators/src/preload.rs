//! Extracts the drop-in library, the recorder and the bench program that the command carries, so that the dynamic
//! linker can load them.
//!
//! Each is written once, named by the hash of its content, into a directory that only the user can access, and is
//! compared with the carried content before every use. It is a file, not a memfd, because `LD_PRELOAD` is inherited and
//! all descendants must find it too.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use heapwright_host::descriptors::is_shortage;
use heapwright_host::files::forbids_code;
use heapwright_host::names::Shown;
use heapwright_host::process::effective_user;
use heapwright_host::temporary;

use crate::elf;

/// The dynamic linker's list of libraries to preload.
pub const LD_PRELOAD: &str = "LD_PRELOAD";
/// Policy of the drop-in library.
pub const POLICY: &str = "HEAPWRIGHT_POLICY";
/// Path of the drop-in library's statistics.
pub const STATS: &str = "HEAPWRIGHT_STATS";
/// Rules of the drop-in library's heap under a policy.
pub const RULES: &str = "HEAPWRIGHT_RULES";
/// Seed of the drop-in library's random fit.
pub const SEED: &str = "HEAPWRIGHT_SEED";
/// Reaction of the drop-in library when a program frees an address that is not a live block.
pub const ON_BAD_FREE: &str = "HEAPWRIGHT_ON_BAD_FREE";
/// Hardening measures of the drop-in library.
pub const HARDEN: &str = "HEAPWRIGHT_HARDEN";
/// Whether the drop-in library dissolves slabs.
const DISSOLVE: &str = "HEAPWRIGHT_DISSOLVE";
/// When the drop-in library purges.
const PURGE: &str = "HEAPWRIGHT_PURGE";
/// The limit on memory near which the drop-in library purges more.
const LIMIT: &str = "HEAPWRIGHT_LIMIT";
/// The directory in which the drop-in library leaves its heap's last state.
pub const WATCH: &str = "HEAPWRIGHT_WATCH";
/// The directory in which recorded processes create their streams.
pub const RECORD: &str = "HEAPWRIGHT_RECORD";
/// Set when recorded processes record the time of every call.
pub const RECORD_TIMES: &str = "HEAPWRIGHT_RECORD_TIMES";
/// Sampling period of stacks: one request in this many.
pub const RECORD_SITES: &str = "HEAPWRIGHT_RECORD_SITES";
/// Set when recorded processes record the frames of Python's interpreter with stacks.
pub const RECORD_PYTHON: &str = "HEAPWRIGHT_RECORD_PYTHON";
/// Set when recorded processes record only what is requested in the blocks that they mark.
pub const RECORD_MARKED: &str = "HEAPWRIGHT_RECORD_MARKED";
/// A drop-in library to use instead of the carried one.
pub const LIBRARY: &str = "HEAPWRIGHT_LIBRARY";

/// All variables that determine a process's malloc.
pub const VARIABLES: [&str; 11] =
    [LD_PRELOAD, POLICY, RULES, STATS, SEED, ON_BAD_FREE, HARDEN, DISSOLVE, PURGE, LIMIT, WATCH];

/// Returns the path of the drop-in library: `chosen`, otherwise the environment's, otherwise the carried one.
pub fn library(chosen: Option<&Path>) -> Result<PathBuf> {
    match chosen.map(PathBuf::from).or_else(|| env::var_os(LIBRARY).map(PathBuf::from)) {
        Some(path) => listed(&path).with_context(|| format!("cannot use the drop-in library {}", path.shown())),
        None => extracted(heapwright_carried::DROP_IN, library_name),
    }
}

/// Returns what [`library`] does, for a command that has no use for a library that is not loaded: of such a file the
/// dynamic linker prints a line, and starts the program without it.
///
/// # Errors
/// As [`library`]; also when the file's header shows that the linker cannot load it.
pub fn loadable_library(chosen: Option<&Path>) -> Result<PathBuf> {
    let library = library(chosen)?;
    match elf::why_unloadable(&library) {
        Some(why) => bail!("cannot use the drop-in library {}: {why}", library.shown()),
        None => Ok(library),
    }
}

/// Returns the path of the carried recorder.
pub fn recorder() -> Result<PathBuf> {
    extracted(heapwright_carried::RECORDER, library_name)
}

/// Returns the path of the carried bench program, in which mallocs are measured.
pub fn bench_program() -> Result<PathBuf> {
    extracted(heapwright_carried::BENCH, |hash| format!("heapwright-bench-{hash:016x}"))
}

fn library_name(hash: u64) -> String {
    format!("libheapwright-{hash:016x}.so")
}

/// Returns the absolute path of a library that can be listed in `LD_PRELOAD`.
///
/// # Errors
/// When there is no such file, or the linker takes characters of its path for something else.
pub fn listed(path: &Path) -> Result<PathBuf> {
    let path = path.canonicalize()?;
    can_be_listed(&path)?;
    Ok(path)
}

/// Checks that `path` can be listed in LD_PRELOAD, which the linker splits at spaces and colons, in which it replaces
/// `$ORIGIN`, `$LIB` and `$PLATFORM`, and which has no quoting.
fn can_be_listed(path: &Path) -> Result<()> {
    let contains = |bytes: &[u8]| path.as_os_str().as_encoded_bytes().iter().any(|byte| bytes.contains(byte));
    ensure!(!contains(b": "), "its path contains a space or a colon, at which the dynamic linker splits it");
    ensure!(!contains(b"$"), "its path contains a dollar sign, and the dynamic linker replaces names behind it");
    Ok(())
}

/// Returns the path of a file with `content`, named by its hash; writes the file unless it exists.
fn extracted(content: &[u8], name: fn(u64) -> String) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let file = name(hasher.finish());
    let mut refusals = Vec::new();
    for folder in folders()? {
        match extract_into(&folder, &file, content) {
            Ok(path) => return Ok(path),
            // No other directory helps.
            Err(error) if error.downcast_ref().is_some_and(is_shortage) => {
                return Err(error).with_context(|| format!("{file} in {}", folder.shown()));
            }
            Err(error) => refusals.push(format!("{}: {error:#}", folder.shown())),
        }
    }
    bail!("cannot write {file} to any directory ({})", refusals.join("; "))
}

/// Returns the directories to try for the library, best first.
///
/// # Errors
/// When there is no place for temporary files: to create one, or to use another, would hide that.
fn folders() -> Result<impl Iterator<Item = PathBuf>> {
    let user = effective_user();
    // Both may be those of a session or a user that is not there: they are not made.
    let existing = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_dir());
    let runtime = existing("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    let shared = [temporary::place()?, PathBuf::from("/dev/shm")].map(|path| path.join(format!("heapwright-{user}")));
    let home = existing("HOME").map(|home| home.join(".cache/heapwright"));
    Ok(runtime.map(|path| path.join("heapwright")).into_iter().chain(shared).chain(home))
}

fn extract_into(folder: &Path, file: &str, content: &[u8]) -> Result<PathBuf> {
    can_be_listed(folder)?;
    claim(folder)?;
    // Programs that start in another directory load the file too, and the directory for temporary files may be
    // relative.
    let folder = folder.canonicalize()?;
    can_be_listed(&folder)?;
    let path = folder.join(file);
    if contains(&path, content).unwrap_or(false) {
        return Ok(path);
    }
    let draft = folder.join(format!("{file}.{}", std::process::id()));
    let written = write_new(&draft, content).and_then(|()| fs::rename(&draft, &path));
    if let Err(error) = written {
        // A draft that stays does no harm, and the error to report is the first one.
        let _ = fs::remove_file(&draft);
        return Err(error).context("cannot write it");
    }
    Ok(path)
}

/// Returns whether a file has just this content, without memory for the whole of it.
fn contains(path: &Path, content: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let is_as_long = file.metadata()?.len() == content.len() as u64;
    let mut part = [0; 16 << 10];
    for expected in content.chunks(part.len()) {
        let found = &mut part[..expected.len()];
        file.read_exact(found)?;
        if found != expected {
            return Ok(false);
        }
    }
    Ok(is_as_long)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(path)?;
    // Not by `mode`, from which the mask for new files takes parts.
    file.set_permissions(fs::Permissions::from_mode(FOR_ALL_TO_READ))?;
    file.write_all(content)
}

/// The permissions of the library and its folder: a program that changes its user still loads the library into others.
const FOR_ALL_TO_READ: u32 = 0o755;

/// Checks that `folder` exists, belongs to this user, and that others cannot write to it, which would be control over
/// the programs that run. Opens it to others for reading.
fn claim(folder: &Path) -> Result<()> {
    if let Some(above) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    DirBuilder::new().recursive(true).mode(FOR_ALL_TO_READ).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let user = effective_user();
    ensure!(found.is_dir() && found.uid() == user, "belongs to another user");
    ensure!(found.mode() & 0o022 == 0, "can be written to by other users (chmod 755 it)");
    if found.mode() & FOR_ALL_TO_READ != FOR_ALL_TO_READ {
        // Without it, programs that change their user do without the library.
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(FOR_ALL_TO_READ));
    }
    ensure!(!forbids_code(folder), "is mounted noexec");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_was_tampered_with_is_written_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("own");
        let path = extract_into(&folder, "l.so", b"good").unwrap();
        fs::write(&path, b"evil").unwrap();
        assert_eq!(fs::read(extract_into(&folder, "l.so", b"good").unwrap()).unwrap(), b"good");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn the_path_of_a_library_is_absolute() {
        let here = std::env::current_dir().unwrap();
        if here.to_string_lossy().contains([' ', ':']) {
            // The dynamic linker would split every path below, which is refused.
            return;
        }
        let home = tempfile::tempdir_in(".").unwrap();
        let relative = Path::new(".").join(home.path().file_name().unwrap());
        let path = extract_into(&relative.join("own"), "l.so", b"good").unwrap();
        assert!(path.is_absolute(), "{}", path.display());
    }

    #[test]
    fn a_folder_that_the_linker_would_read_as_another_is_refused() {
        let home = tempfile::tempdir().unwrap();
        assert!(extract_into(&home.path().join("my folder"), "l.so", b"good").is_err());
        assert!(extract_into(&home.path().join("${ORIGIN}"), "l.so", b"good").is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o770, 0o702] {
            fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(extract_into(home.path(), "l.so", b"good").is_err(), "{mode:o}");
        }
    }

    #[test]
    fn others_can_read_the_library_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let closed = home.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        for folder in [closed, home.path().join("above/new")] {
            let library = extract_into(&folder, "l.so", b"good").unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
            assert_eq!([&*folder, &*library].map(mode), [0o755, 0o755], "{}", folder.display());
        }
        assert_eq!(fs::metadata(home.path().join("above")).unwrap().mode() & 0o777, 0o700);
    }
}
