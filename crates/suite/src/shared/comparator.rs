//! The driver of Boost.Interprocess: a C++ program that is compiled when it is needed. Its source is part of this
//! command.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use heapwright_host::names::Shown;
use heapwright_host::temporary::Folder;

const SOURCE: &str = include_str!("boost.cpp");

/// The options with which Boost's users compile it, without assertions.
const ARGUMENTS: [&str; 5] = ["-std=c++17", "-O2", "-DNDEBUG", "-pthread", "-o"];

/// How to get what is missing.
const REMEDY: &str = "on Debian and Ubuntu: apt-get install g++ libboost-dev";

/// The program, which is removed when this is dropped.
pub struct Comparator {
    /// Its path.
    pub program: PathBuf,
    /// Boost's version, as in 1.74.0.
    pub version: String,
    _folder: Folder,
}

impl Comparator {
    /// Builds it with the compiler that `CXX` names, or with `c++`.
    ///
    /// # Errors
    /// When there is no compiler, or it does not find Boost. The error says how to install them.
    pub fn build() -> Result<Comparator> {
        Self::build_with(&env::var_os("CXX").unwrap_or_else(|| OsString::from("c++")))
    }

    fn build_with(compiler: &OsString) -> Result<Comparator> {
        let folder = Folder::new("bench")?;
        let (source, program) = (folder.path().join("boost.cpp"), folder.path().join("boost"));
        fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.shown()))?;
        let compiled = Command::new(compiler).args(ARGUMENTS).arg(&program).arg(&source).arg("-lrt").output();
        match compiled {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("there is no C++ compiler {} ({REMEDY}; or name one in CXX)", Path::new(compiler).shown())
            }
            Err(error) => return Err(error).context("cannot start the C++ compiler"),
            Ok(output) => ensure_compiled(&output)?,
        }
        let version = Command::new(&program).arg("version").output().context("cannot start the comparator")?;
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        ensure!(!version.is_empty(), "the comparator does not run");
        Ok(Comparator { program, version, _folder: folder })
    }
}

fn ensure_compiled(output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.lines().any(|line| line.contains("boost/") && line.contains("fatal error")) {
        bail!("the C++ compiler does not find Boost's headers ({REMEDY})");
    }
    let first = complaint.lines().find(|line| line.contains("error")).unwrap_or_default();
    bail!("the C++ compiler failed ({}): {first}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named_with_a_way_out() {
        let error = Comparator::build_with(&OsString::from("/nowhere/c++")).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains("/nowhere/c++") && error.contains("apt-get install"), "{error}");
    }

    #[test]
    fn a_compiler_that_fails_is_told() {
        let error = Comparator::build_with(&OsString::from("false")).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("failed")));
    }
}
