//! The allocators that `bench/peers/make` builds from the crate registry.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::{Peer, files_in};

/// The folder in which they are, instead of the one in the project.
const VARIABLE: &str = "HEAPWRIGHT_PEERS";
/// Where they are in the project.
const FOLDER: &str = "bench/peers/build";

/// All that are there, by name.
pub fn find() -> Vec<Peer> {
    folder().map_or_else(Vec::new, |folder| peers_in(&folder))
}

/// What was written beside a library about its version.
pub fn version(library: &Path) -> Option<String> {
    let name = name(library)?;
    let text = fs::read_to_string(library.with_file_name(format!("{name}.version"))).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// What was written beside a library about the environment that it needs: a variable on each line.
pub fn settings(library: &Path) -> Vec<(OsString, OsString)> {
    let file = name(library).map(|name| library.with_file_name(format!("{name}.environment")));
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// The folder that is named, else that of the project in which this command lies or is called.
fn folder() -> Option<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(named));
    }
    let places = [env::current_exe().ok(), env::current_dir().ok()];
    places.iter().flatten().flat_map(|place| place.ancestors()).map(|folder| folder.join(FOLDER)).find(|it| it.is_dir())
}

fn peers_in(folder: &Path) -> Vec<Peer> {
    let peer = |library: PathBuf| Some(Peer { name: name(&library)?.to_owned(), library });
    files_in(folder).into_iter().filter_map(peer).collect()
}

/// `NAME` of `libNAME.so`.
fn name(library: &Path) -> Option<&str> {
    let file = library.file_name().and_then(OsStr::to_str)?;
    file.strip_prefix("lib")?.strip_suffix(".so").filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(version(&peers[0].library).as_deref(), Some("a 1.2"));
        assert_eq!(version(&peers[1].library), None);
        assert_eq!(settings(&peers[0].library), [("X".into(), "1=2".into())]);
        assert_eq!(settings(&peers[1].library), []);
    }
}
