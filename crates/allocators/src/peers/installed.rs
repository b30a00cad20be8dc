//! Allocators that are installed on this machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapwright_host::files::files_in;

use super::peer::Peer;

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
    fn a_longer_name_is_another_library() {
        assert!(is_version_of("libjemalloc.so.2", "libjemalloc.so"));
        assert!(!is_version_of("libtbbmalloc_proxy_debug.so.2", "libtbbmalloc_proxy.so"));
        assert!(!is_version_of("libjemalloc.so_old", "libjemalloc.so"));
    }
}
