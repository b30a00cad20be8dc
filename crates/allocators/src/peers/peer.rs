//! An allocator library, and what the files beside it say.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::baselines::is_of_another_row;

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
        version(&self.library).unwrap_or_else(|| path.file_name().unwrap_or_default().display().to_string())
    }

    /// Returns the environment that it needs.
    pub fn settings(&self) -> Vec<(OsString, OsString)> {
        settings(&self.library)
    }

    /// Returns whether it is a version of `other`: its name is the same but for a number at the end.
    pub(super) fn is_version_of(&self, other: &Peer) -> bool {
        let rest = self.name.strip_prefix(&other.name);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// Returns the version that was written next to a library.
fn version(library: &Path) -> Option<String> {
    let name = name(library)?;
    let text = fs::read_to_string(library.with_file_name(format!("{name}.version"))).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the environment that was written next to a library: one variable per line.
fn settings(library: &Path) -> Vec<(OsString, OsString)> {
    let file = name(library).map(|name| library.with_file_name(format!("{name}.environment")));
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// `NAME` of `libNAME.so`.
pub(super) fn name(library: &Path) -> Option<&str> {
    let file = library.file_name().and_then(OsStr::to_str)?;
    file.strip_prefix("lib")?.strip_suffix(".so").filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
