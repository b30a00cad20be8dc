//! The allocator libraries found on this machine, for comparisons.

mod built;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::allocator::{Allocator, SYSTEM_AGAIN};
use crate::policy;

/// An allocator library that can be preloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The allocator's name, as in tables.
    pub name: String,
    /// Its shared library.
    pub library: PathBuf,
}

impl Peer {
    /// Returns the allocator as it is typed on the command line: `NAME=PATH`.
    pub fn typed(&self) -> OsString {
        let mut typed = OsString::from(format!("{}=", self.name));
        typed.push(&self.library);
        typed
    }

    /// Parses an allocator from the command line: `NAME=PATH`.
    ///
    /// # Errors
    /// Describes the expected form, or that tables have another row of this name.
    pub fn parse(text: &str) -> Result<Peer, String> {
        match text.split_once('=') {
            Some((name, _)) if is_of_another_row(name) => {
                Err(format!("{name} is the name of another row: choose another, as in my-{text}"))
            }
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Peer { name: name.to_owned(), library: PathBuf::from(path) })
            }
            _ => Err("expected the allocator's name and library, as in mine=./libmine.so".to_owned()),
        }
    }

    /// Returns its version: the one written by its build, otherwise its file's name after all links are followed.
    pub fn version(&self) -> String {
        let path = self.library.canonicalize().unwrap_or_else(|_| self.library.clone());
        built::version(&self.library).unwrap_or_else(|| path.file_name().unwrap_or_default().display().to_string())
    }

    /// Returns the environment that it needs.
    pub fn settings(&self) -> Vec<(OsString, OsString)> {
        built::settings(&self.library)
    }

    /// Returns whether it is a version of `other`: its name is the same but for a number at the end.
    fn is_version_of(&self, other: &Peer) -> bool {
        let rest = self.name.strip_prefix(&other.name);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// Returns whether tables have a row of this name in any case.
fn is_of_another_row(name: &str) -> bool {
    let others = [Allocator::System.name(), SYSTEM_AGAIN, Allocator::NoOp.name(), policy::CACHED];
    others.contains(&name) || policy::names().any(|policy| policy == name)
}

/// Allocators and the start of their libraries' file names; of several flavours of one allocator the first is taken.
const KNOWN: [(&str, &str); 14] = [
    ("mimalloc", "libmimalloc.so"),
    ("mimalloc-secure", "libmimalloc-secure.so"),
    ("jemalloc", "libjemalloc.so"),
    ("tcmalloc", "libtcmalloc_minimal.so"),
    ("tcmalloc", "libtcmalloc.so"),
    ("tbbmalloc", "libtbbmalloc_proxy.so"),
    ("snmalloc", "libsnmallocshim.so"),
    ("rpmalloc", "librpmallocwrap.so"),
    ("rpmalloc", "librpmalloc.so"),
    ("scudo", "libclang_rt.scudo_standalone-x86_64.so"),
    ("scudo", "libscudo.so"),
    ("hoard", "libhoard.so"),
    ("mesh", "libmesh.so"),
    ("hardened_malloc", "libhardened_malloc.so"),
];

/// Directories in which allocators are installed without an entry in the dynamic linker's cache.
const FOLDERS: [&str; 6] = ["/usr/local/lib", "/usr/local/lib64", "/usr/lib64", "/usr/lib", "/lib64", "/lib"];

/// Returns all allocator libraries that were built for this project, and those installed on this machine whose
/// allocator was not built.
pub fn find() -> Vec<Peer> {
    let mut peers = built::find();
    let is_new = |peer: &Peer| peers.iter().all(|other| !other.is_version_of(peer));
    let others: Vec<Peer> = installed().into_iter().filter(is_new).collect();
    peers.extend(others);
    peers
}

/// Returns the libraries in the dynamic linker's cache or in the usual directories.
pub fn installed() -> Vec<Peer> {
    choose(linker_cache().into_iter().chain(FOLDERS.into_iter().flat_map(|folder| files_in(Path::new(folder)))))
}

/// Chooses one library per allocator: the first flavour in [`KNOWN`], the first of its files in `candidates`.
fn choose(candidates: impl Iterator<Item = PathBuf>) -> Vec<Peer> {
    let mut by_prefix: BTreeMap<usize, PathBuf> = BTreeMap::new();
    for path in candidates {
        let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let known = KNOWN.iter().position(|(_, prefix)| is_version_of(file, prefix));
        if let Some(rank) = known {
            by_prefix.entry(rank).or_insert(path);
        }
    }
    let mut peers: Vec<Peer> = Vec::new();
    for (rank, library) in by_prefix {
        let name = KNOWN[rank].0;
        if peers.iter().all(|peer| peer.name != name) {
            peers.push(Peer { name: name.to_owned(), library });
        }
    }
    peers
}

/// Returns whether `file` is `prefix` itself or `prefix.VERSION`.
fn is_version_of(file: &str, prefix: &str) -> bool {
    file.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the paths in the dynamic linker's cache, as `ldconfig -p` lists them; none if there is no such command.
fn linker_cache() -> Vec<PathBuf> {
    let listing = ["/sbin/ldconfig", "ldconfig"].into_iter().find_map(|command| {
        let output = Command::new(command).arg("-p").output().ok()?;
        output.status.success().then_some(output.stdout)
    });
    let listing = listing.unwrap_or_default();
    let lines = String::from_utf8_lossy(&listing);
    lines
        .lines()
        .filter(|line| line.contains(ABI))
        .filter_map(|line| line.split(" => ").nth(1))
        .map(PathBuf::from)
        .collect()
}

/// Mark of the libraries in the linker's cache that this process could load.
#[cfg(target_arch = "x86_64")]
const ABI: &str = "x86-64";
#[cfg(not(target_arch = "x86_64"))]
const ABI: &str = "libc6";

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_flavours_the_preferred_one_is_chosen_once() {
        let paths = ["/l/libtcmalloc.so.4", "/l/libtcmalloc_minimal.so.4", "/m/libtcmalloc_minimal.so", "/l/libm.so.6"];
        let peers = choose(paths.into_iter().map(PathBuf::from));
        assert_eq!(
            peers,
            [Peer { name: "tcmalloc".to_owned(), library: PathBuf::from("/l/libtcmalloc_minimal.so.4") }]
        );
    }

    #[test]
    fn a_number_behind_a_name_is_a_version() {
        let peer = |name: &str| Peer { name: name.to_owned(), library: PathBuf::from("/l.so") };
        assert!(peer("mimalloc3").is_version_of(&peer("mimalloc")));
        assert!(peer("jemalloc").is_version_of(&peer("jemalloc")));
        assert!(!peer("tcmalloc-google").is_version_of(&peer("tcmalloc")));
        assert!(!peer("mimalloc").is_version_of(&peer("mimalloc3")));
    }

    #[test]
    fn an_allocator_is_given_by_name_and_path() {
        let mine = Peer { name: "mine".to_owned(), library: PathBuf::from("./a=b.so") };
        assert_eq!(Peer::parse("mine=./a=b.so"), Ok(mine));
        for text in ["", "mine", "=./a.so", "mine="] {
            assert!(Peer::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_longer_name_is_another_library() {
        assert!(is_version_of("libjemalloc.so.2", "libjemalloc.so"));
        assert!(!is_version_of("libtbbmalloc_proxy_debug.so.2", "libtbbmalloc_proxy.so"));
        assert!(!is_version_of("libjemalloc.so_old", "libjemalloc.so"));
    }
}
