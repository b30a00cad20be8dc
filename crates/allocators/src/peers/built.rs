//! Allocators that `bench/peers/make` builds from the crate registry.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use heapwright_host::files::files_in;
use heapwright_host::process::effective_user;

use super::peer::{Peer, name};

/// Overrides the directory that contains them.
const VARIABLE: &str = "HEAPWRIGHT_PEERS";
/// Their directory in an installation, from the directory of the command.
const INSTALLED: &str = "../lib/heapwright/peers";
/// Their directory in the project.
const BUILT: &str = "bench/peers/build";
/// The directory of the project in which cargo puts the command.
const TARGET: &str = "target";

/// Returns all that are there, by name.
pub fn find() -> Vec<Peer> {
    folder().map_or_else(Vec::new, |folder| peers_in(&folder))
}

/// Returns the directory from the environment, otherwise that of the installation or of the project in which this
/// command was built. The current directory does not matter: what lies there may be another user's.
fn folder() -> Option<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(named));
    }
    candidates(&env::current_exe().ok()?).into_iter().find(|folder| is_trusted(folder, effective_user()))
}

/// Returns the directories that belong to the command at `executable`.
fn candidates(executable: &Path) -> Vec<PathBuf> {
    let installed = executable.parent().map(|folder| folder.join(INSTALLED));
    let target = executable.ancestors().find(|folder| folder.file_name() == Some(OsStr::new(TARGET)));
    let built = target.and_then(Path::parent).map(|project| project.join(BUILT));
    installed.into_iter().chain(built).collect()
}

/// Returns whether the directory and its files belong to root or `user`, and are not writable by others.
fn is_trusted(folder: &Path, user: u32) -> bool {
    const WRITABLE_BY_ALL: u32 = 0o002;
    let belongs = |path: &Path| {
        fs::metadata(path).is_ok_and(|it| [0, user].contains(&it.uid()) && it.mode() & WRITABLE_BY_ALL == 0)
    };
    folder.is_dir() && belongs(folder) && files_in(folder).iter().all(|file| belongs(file))
}

fn peers_in(folder: &Path) -> Vec<Peer> {
    let peer = |library: PathBuf| Some(Peer { name: name(&library)?.to_owned(), library });
    files_in(folder).into_iter().filter_map(peer).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn libraries_lie_in_the_installation_or_in_the_project() {
        let places = |executable| candidates(Path::new(executable));
        assert_eq!(places("/usr/bin/heapwright"), [Path::new("/usr/bin/../lib/heapwright/peers")]);
        let project = Path::new("/home/p/bench/peers/build");
        for executable in ["/home/p/target/debug/heapwright", "/home/p/target/x86_64/release/deps/test-1"] {
            assert_eq!(places(executable)[1..], [project]);
        }
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let user = effective_user();
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("liba.so");
        fs::write(&library, "").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(is_trusted(folder.path(), user));
        for (path, open, closed) in [(folder.path(), 0o777, 0o755), (&library, 0o666, 0o644)] {
            set(path, open);
            assert!(!is_trusted(folder.path(), user));
            set(path, closed);
        }
        assert!(is_trusted(folder.path(), user));
        assert!(user == 0 || !is_trusted(folder.path(), user + 1));
        assert!(!is_trusted(&folder.path().join("none"), user));
    }

    #[test]
    fn libraries_have_the_names_of_their_files_and_the_versions_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("libb.so", ""),
            ("liba.so", ""),
            ("a.version", "a 1.2\n"),
            ("a.environment", "X=1=2\nnothing\n"),
            ("b.log", ""),
            ("lib.so", ""),
        ];
        for (file, content) in files {
            fs::write(folder.path().join(file), content).unwrap();
        }
        let peers = peers_in(folder.path());
        assert_eq!(peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(peers[0].version(), "a 1.2");
        assert_eq!(peers[1].version(), "libb.so");
        assert_eq!(peers[0].settings(), [("X".into(), "1=2".into())]);
        assert_eq!(peers[1].settings(), []);
    }
}
