//! Real programs, when they are on this machine, with inputs that are always the same.

mod history;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::case::Entry;
use super::figures::Figures;
use super::process::{Base, Start};
use crate::allocator::Allocator;

/// A program with all that it needs.
pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    command: Vec<OsString>,
    settings: &'static [(&'static str, &'static str)],
    input: PathBuf,
    times: u32,
}

impl Program {
    /// Runs it once, or as often as it takes to see something.
    ///
    /// # Errors
    /// Why it could not be run to its end.
    pub fn run(&self, base: &Base, allocator: &Allocator) -> Result<Figures> {
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
        let start = Start { command: self.command.clone(), settings: &settings, input: &self.input, times: self.times };
        Ok(base.start(&start, allocator)?.figures)
    }
}

/// How a program is called.
struct Recipe {
    name: &'static str,
    about: &'static str,
    executable: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// How often in a measurement, when once is too short to be seen.
    times: u32,
    needs: Needs,
}

/// What a program is given.
enum Needs {
    /// These arguments.
    Arguments(&'static [&'static str]),
    /// These arguments, and behind them a file with that name and content.
    File(&'static [&'static str], &'static str, &'static str),
    /// That on its standard input, and these arguments.
    Input(&'static [&'static str], &'static str),
    /// As for `File`, and a generated text on standard input.
    FileAndText(&'static [&'static str], &'static str, &'static str),
    /// These arguments, in a repository with a history.
    Repository(&'static [&'static str]),
}

/// How often tiny programs are started.
const TINY: u32 = 20;

const RECIPES: [Recipe; 12] = [
    Recipe {
        name: "start/true",
        about: "a program that does nothing",
        executable: "true",
        settings: &[],
        times: TINY,
        needs: Needs::Arguments(&[]),
    },
    Recipe {
        name: "start/ls",
        about: "a list of /",
        executable: "ls",
        settings: &[],
        times: TINY,
        needs: Needs::Arguments(&["-l", "/"]),
    },
    Recipe {
        name: "start/git",
        about: "git's version",
        executable: "git",
        settings: &[],
        times: TINY,
        needs: Needs::Arguments(&["--version"]),
    },
    Recipe {
        name: "python3",
        about: "Python, without its own allocator: dictionaries, JSON, regular expressions",
        executable: "python3",
        settings: &[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "1")],
        times: 1,
        needs: Needs::File(&["-s", "-B"], "work.py", include_str!("inputs/work.py")),
    },
    Recipe {
        name: "perl",
        about: "Perl: hashes, lists, strings",
        executable: "perl",
        settings: &[("PERL_HASH_SEED", "1")],
        times: 1,
        needs: Needs::File(&[], "work.pl", include_str!("inputs/work.pl")),
    },
    Recipe {
        name: "lua",
        about: "Lua: tables and strings",
        executable: "lua",
        settings: &[],
        times: 1,
        needs: Needs::File(&[], "work.lua", include_str!("inputs/work.lua")),
    },
    Recipe {
        name: "ruby",
        about: "Ruby: hashes and strings",
        executable: "ruby",
        settings: &[],
        times: 1,
        needs: Needs::File(&[], "work.rb", include_str!("inputs/work.rb")),
    },
    Recipe {
        name: "gawk",
        about: "awk: where each word of a text is",
        executable: "gawk",
        settings: &[],
        times: 1,
        needs: Needs::FileAndText(&["-f"], "work.awk", include_str!("inputs/work.awk")),
    },
    Recipe {
        name: "sqlite3",
        about: "SQLite: a table in memory, indexed, joined, changed",
        executable: "sqlite3",
        settings: &[],
        times: 1,
        needs: Needs::Input(&[":memory:"], include_str!("inputs/work.sql")),
    },
    Recipe {
        name: "git",
        about: "git: every change of a history",
        executable: "git",
        settings: &[("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")],
        times: 1,
        needs: Needs::Repository(&["--no-pager", "log", "-p", "--stat"]),
    },
    Recipe {
        name: "g++",
        about: "a C++ compiler: containers and templates",
        executable: "g++",
        settings: &[],
        times: 1,
        needs: Needs::File(
            &["-std=c++17", "-O1", "-S", "-o", "/dev/null"],
            "work.cpp",
            include_str!("inputs/work.cpp"),
        ),
    },
    Recipe {
        name: "z3",
        about: "a solver: linear equations of integers",
        executable: "z3",
        settings: &[],
        times: 1,
        needs: Needs::File(&[], "work.smt2", include_str!("inputs/work.smt2")),
    },
];

/// All names.
pub fn entries() -> impl Iterator<Item = Entry> {
    RECIPES.iter().map(|recipe| Entry { name: recipe.name, about: recipe.about })
}

/// The program of that name with its input in `folder`, or `None` if it is not on this machine.
///
/// # Errors
/// When the input cannot be made.
pub fn find(name: &str, folder: &Path) -> Result<Option<Program>> {
    let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name == name) else { return Ok(None) };
    let Some(executable) = executable(recipe.executable) else { return Ok(None) };
    recipe.prepared(executable, folder).with_context(|| format!("cannot make the input of {name}")).map(Some)
}

/// Where a program is: the system's own before what a user put before it, which may be a script that starts others.
fn executable(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/bin"].map(PathBuf::from).into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Recipe {
    fn prepared(&self, executable: PathBuf, folder: &Path) -> Result<Program> {
        let mut command = vec![executable.clone().into_os_string()];
        let mut input = PathBuf::from("/dev/null");
        let written = |name: &str, content: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        match self.needs {
            Needs::Arguments(arguments) => command.extend(arguments.iter().map(OsString::from)),
            Needs::File(arguments, name, content) => {
                command.extend(arguments.iter().map(OsString::from));
                command.push(written(name, content)?.into());
            }
            Needs::Input(arguments, content) => {
                command.extend(arguments.iter().map(OsString::from));
                input = written(&format!("{}.input", self.executable), content)?;
            }
            Needs::FileAndText(arguments, name, content) => {
                command.extend(arguments.iter().map(OsString::from));
                command.push(written(name, content)?.into());
                input = written(&format!("{}.input", self.executable), &history::text())?;
            }
            Needs::Repository(arguments) => {
                let repository = history::repository(&executable, folder)?;
                command.extend([OsString::from("-C"), repository.into()]);
                command.extend(arguments.iter().map(OsString::from));
            }
        }
        Ok(Program { name: self.name, command, settings: self.settings, input, times: self.times })
    }
}
