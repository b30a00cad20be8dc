//! The programs that are measured: a fixed list, with inputs that are the same on every machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, iter};

use anyhow::{Context, Result, ensure};

/// What a program was chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// A program as it is used.
    Real,
    /// A program built to mislead a replay.
    Misleading,
}

impl Group {
    /// Returns the heading of the group's tables.
    pub fn title(self) -> &'static str {
        match self {
            Group::Real => "Real programs",
            Group::Misleading => "Programs built to mislead",
        }
    }
}

/// Where a program's executable is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executable {
    /// A program of the system, and the Debian package that has it.
    Installed(&'static str, &'static str),
    /// The compiler proper that g++ starts.
    CompilerProper,
    /// The program that this C source is compiled to.
    Compiled(&'static str),
}

/// A program, its input and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name in tables.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What it was chosen for.
    pub group: Group,
    /// Where its executable is found.
    pub executable: Executable,
    /// Its arguments; paths are relative to its folder, which is its working directory.
    pub arguments: &'static [&'static str],
    /// Its environment besides the inherited one.
    pub settings: &'static [(&'static str, &'static str)],
    /// Files in its folder: names and contents.
    pub files: &'static [(&'static str, &'static str)],
    /// A shell command that makes the rest of its input from these files.
    pub prepare: &'static str,
}

/// A program that can be started.
pub struct Prepared {
    /// Its path and its arguments.
    pub command: Vec<OsString>,
    /// Its working directory.
    pub folder: PathBuf,
    /// Its environment besides the inherited one.
    pub settings: Vec<(&'static str, OsString)>,
}

impl Program {
    /// Makes the program's input in `folder`, an empty one. Installs the program's package if it is missing, if
    /// apt-get can.
    ///
    /// # Errors
    /// When the program is not there and cannot be installed, or its input cannot be made.
    pub fn prepare(&self, folder: &Path) -> Result<Prepared> {
        let executable = self.executable(folder)?;
        for (name, content) in self.files {
            fs::write(folder.join(name), content).with_context(|| format!("cannot write {name}"))?;
        }
        if !self.prepare.is_empty() {
            run(Command::new("sh").args(["-e", "-c", self.prepare]).current_dir(folder))?;
        }
        let arguments = self.arguments.iter().map(OsString::from);
        Ok(Prepared {
            command: iter::once(executable.into_os_string()).chain(arguments).collect(),
            folder: folder.to_owned(),
            settings: self.settings.iter().map(|(name, value)| (*name, OsString::from(value))).collect(),
        })
    }

    fn executable(&self, folder: &Path) -> Result<PathBuf> {
        match self.executable {
            Executable::Installed(name, package) => installed(name, package),
            Executable::CompilerProper => {
                let driver = installed("g++", "g++")?;
                let answer = Command::new(driver).arg("-print-prog-name=cc1plus").output().context("cannot run g++")?;
                let path = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
                ensure!(path.is_absolute(), "g++ does not say where cc1plus is");
                Ok(path)
            }
            Executable::Compiled(source) => compile(source, self.name, folder),
        }
    }
}

/// Returns the path of a program of the system; installs `package` if it is missing.
fn installed(name: &str, package: &str) -> Result<PathBuf> {
    if let Some(path) = find(name) {
        return Ok(path);
    }
    heapwright_show::eprintln!("installing {package}, which has {name}");
    // Whether that worked, the next line shows.
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends", package]).env("DEBIAN_FRONTEND", "noninteractive");
    drop(install.output());
    find(name).with_context(|| format!("there is no {name}: install the package {package}"))
}

/// Returns the path of a program. Prefers the system's folders to others in `PATH`, which may contain wrapper scripts.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/bin"].map(PathBuf::from).into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Compiles a C program and returns its path.
fn compile(source: &str, name: &str, folder: &Path) -> Result<PathBuf> {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
    // Otherwise the compiler leaves out a pair of malloc and free, or makes one calloc of malloc and memset.
    let options = ["-O1", "-g", "-Wall", "-fno-builtin", "-pthread", "-o"];
    run(Command::new("cc").args(options).arg(&program).arg(&file))?;
    Ok(program)
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::list;
    use super::*;

    #[test]
    fn every_program_built_to_mislead_compiles_without_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        for program in list::all() {
            if let Executable::Compiled(source) = program.executable {
                compile(&format!("#pragma GCC diagnostic error \"-Wall\"\n{source}"), program.name, folder.path())
                    .unwrap_or_else(|error| panic!("{}: {error}", program.name));
            }
        }
    }
}
