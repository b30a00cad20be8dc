//! The drop-in library, the recorder and the small program for measuring that the command carries inside, put where the dynamic linker can load them.
//!
//! Each is written once, under the hash of its content, into a folder that only the user can enter, and is compared with
//! what is carried inside before every use. A file, not a memfd: `LD_PRELOAD` is inherited, and children of children
//! have to find it too.

use std::env;
use std::ffi::CString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The dynamic linker's list of libraries to load first.
pub const LD_PRELOAD: &str = "LD_PRELOAD";
/// The drop-in library's policy.
pub const POLICY: &str = "HEAPWRIGHT_POLICY";
/// Where the drop-in library writes its statistics.
pub const STATS: &str = "HEAPWRIGHT_STATS";
/// The seed of the drop-in library's random fit.
pub const SEED: &str = "HEAPWRIGHT_SEED";
/// What the drop-in library does when a program frees what is not a block.
pub const ON_BAD_FREE: &str = "HEAPWRIGHT_ON_BAD_FREE";
/// The measures that the drop-in library takes against faulty and hostile programs.
pub const HARDEN: &str = "HEAPWRIGHT_HARDEN";
/// The directory in which the drop-in library leaves its heap's last state.
pub const WATCH: &str = "HEAPWRIGHT_WATCH";
/// The directory in which recorded processes make their streams.
pub const RECORD: &str = "HEAPWRIGHT_RECORD";
/// Set when recorded processes tell the time of every call.
pub const RECORD_TIMES: &str = "HEAPWRIGHT_RECORD_TIMES";
/// Of how many requests one is recorded with its stack.
pub const RECORD_SITES: &str = "HEAPWRIGHT_RECORD_SITES";
/// A drop-in library to use instead of the one inside.
pub const LIBRARY: &str = "HEAPWRIGHT_LIBRARY";

/// All variables that decide about a process' malloc.
pub const VARIABLES: [&str; 7] = [LD_PRELOAD, POLICY, STATS, SEED, ON_BAD_FREE, HARDEN, WATCH];

static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libheapwright.so"));
static EMBEDDED_RECORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libheapwright_record.so"));
static EMBEDDED_BENCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/heapwright-bench"));

/// The path of the drop-in library: `chosen`, else what the environment names, else the one carried inside.
pub fn library(chosen: Option<&Path>) -> Result<PathBuf> {
    match chosen.map(PathBuf::from).or_else(|| env::var_os(LIBRARY).map(PathBuf::from)) {
        Some(path) => listed(&path).with_context(|| format!("cannot use the drop-in library {}", path.display())),
        None => extracted(EMBEDDED, library_name),
    }
}

/// The path of the recorder, which is carried inside too.
pub fn recorder() -> Result<PathBuf> {
    extracted(EMBEDDED_RECORDER, library_name)
}

/// The path of the small program in which mallocs are measured, which is carried inside too.
pub fn bench_program() -> Result<PathBuf> {
    extracted(EMBEDDED_BENCH, |hash| format!("heapwright-bench-{hash:016x}"))
}

fn library_name(hash: u64) -> String {
    format!("libheapwright-{hash:016x}.so")
}

/// The absolute path of a library that the dynamic linker can be told to load.
///
/// # Errors
/// When there is no such file, or its path has what the linker splits lists at.
pub fn listed(path: &Path) -> Result<PathBuf> {
    let path = path.canonicalize()?;
    can_be_listed(&path)?;
    Ok(path)
}

/// Whether `path` can stand in LD_PRELOAD, which the linker splits at spaces and colons and has no way to quote.
fn can_be_listed(path: &Path) -> Result<()> {
    let splits = path.as_os_str().as_encoded_bytes().iter().any(|byte| b": ".contains(byte));
    ensure!(!splits, "its path has a space or a colon, and the dynamic linker takes it for two");
    Ok(())
}

/// Where `content` lies as a file, named by its hash; it is written unless it is there already.
fn extracted(content: &[u8], name: fn(u64) -> String) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let file = name(hasher.finish());
    let mut refusals = Vec::new();
    for folder in folders() {
        match extract_into(&folder, &file, content) {
            Ok(path) => return Ok(path),
            Err(error) => refusals.push(format!("{}: {error:#}", folder.display())),
        }
    }
    bail!("cannot put {file} anywhere ({})", refusals.join("; "))
}

/// The folders that may take the library, best first.
fn folders() -> impl Iterator<Item = PathBuf> {
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = [env::temp_dir(), PathBuf::from("/dev/shm")].map(|path| path.join(format!("heapwright-{user}")));
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/heapwright"));
    runtime.map(|path| path.join("heapwright")).into_iter().chain(shared).chain(home)
}

fn extract_into(folder: &Path, file: &str, content: &[u8]) -> Result<PathBuf> {
    can_be_listed(folder)?;
    claim(folder)?;
    let path = folder.join(file);
    if fs::read(&path).is_ok_and(|found| found == content) {
        return Ok(path);
    }
    let draft = folder.join(format!("{file}.{}", std::process::id()));
    let written = write_new(&draft, content).and_then(|()| fs::rename(&draft, &path));
    if let Err(error) = written {
        // Whatever is left of the draft is of no use to anybody, and the reason to report is the first one.
        let _ = fs::remove_file(&draft);
        return Err(error).context("cannot write it");
    }
    Ok(path)
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(path)?;
    file.write_all(content)
}

/// Makes sure that `folder` exists, is this user's own, and lets nobody else in: whoever can write there decides what
/// the programs run.
fn claim(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    ensure!(found.is_dir() && found.uid() == user, "belongs to somebody else");
    ensure!(found.mode() & 0o077 == 0, "is open to others (chmod 700 it)");
    ensure!(!forbids_code(folder), "is mounted noexec");
    Ok(())
}

/// Whether nothing in `folder` can be loaded as code.
fn forbids_code(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return true };
    // SAFETY: all zeroes is a valid statvfs.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero byte and `found` is ours to write.
    let status = unsafe { libc::statvfs(name.as_ptr(), &mut found) };
    status == 0 && found.f_flag & libc::ST_NOEXEC != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
    fn a_folder_that_the_linker_would_split_is_refused() {
        let home = tempfile::tempdir().unwrap();
        assert!(extract_into(&home.path().join("my folder"), "l.so", b"good").is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_with_programs_may_hold_the_library() {
        assert!(!forbids_code(Path::new("/usr/bin")));
        assert!(forbids_code(Path::new("/usr/bin\0")));
    }

    #[test]
    fn a_folder_open_to_others_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(extract_into(home.path(), "l.so", b"good").is_err());
    }
}
