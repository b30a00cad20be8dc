//! Real programs, if they are installed, with inputs that are the same on every run.
//!
//! From the bottom up: `history` (a text, a repository), `redis` (a client), `recipes` (how programs are called).

mod history;
mod recipes;
mod redis;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};

use self::recipes::{Extra, RECIPES, Recipe};
use super::figures::{Figures, Kept};
use super::process::{Base, Start};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::preload::LD_PRELOAD;
use heapwright_host::names::Shown;

/// A program with its input.
pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    command: Vec<OsString>,
    settings: Vec<(&'static str, OsString)>,
    input: PathBuf,
    times: u32,
    company: Company,
}

/// What runs beside a program.
enum Company {
    /// Nothing.
    Nothing,
    /// A client of the server whose socket is in this folder.
    RedisClient(PathBuf),
    /// A client that deletes what it has set, and samples the server's memory.
    RedisDeletion(PathBuf),
}

/// What a client does with the server in a folder until that has ended. Returns the server's memory if it samples it.
type Client = fn(&Path, &dyn Fn() -> bool) -> Result<Option<Kept>>;

/// An entry of `--list`.
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// Returns the entries of all programs.
pub fn entries() -> impl Iterator<Item = Entry> {
    RECIPES.iter().map(|recipe| Entry { name: recipe.name, about: recipe.about })
}

/// Returns whether the program of a name has its memory sampled.
pub fn samples_memory(name: &str) -> bool {
    RECIPES.iter().any(|recipe| recipe.name == name && matches!(recipe.extra, Extra::RedisDeletion))
}

/// Returns the program of a name with its input in `folder`, or `None` if it is not installed.
///
/// # Errors
/// When the input cannot be created.
pub fn find(name: &str, folder: &Path) -> Result<Option<Program>> {
    let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name == name) else { return Ok(None) };
    let Some(executable) = executable(recipe.executable) else { return Ok(None) };
    recipe.prepared(&executable, folder).with_context(|| format!("cannot make the input of {name}")).map(Some)
}

/// Returns the path of a program. Prefers the system's folders to others in `PATH`, which may contain wrapper scripts.
pub fn executable(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/bin"].map(PathBuf::from).into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Program {
    /// Runs it as often as a measurement requires.
    ///
    /// # Errors
    /// When it cannot be started or does not succeed.
    pub fn run(&self, base: &Base, allocator: &Allocator) -> Result<Figures> {
        let start =
            Start { command: self.command.clone(), settings: &self.settings, input: &self.input, times: self.times };
        let (folder, client): (&Path, Client) = match &self.company {
            Company::Nothing => return Ok(base.start(&start, allocator)?.figures),
            Company::RedisClient(folder) => (folder, |folder, is_over| redis::load(folder, is_over).map(|()| None)),
            Company::RedisDeletion(folder) => (folder, |folder, is_over| redis::delete_most(folder, is_over).map(Some)),
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let client = || client(folder, &|| is_over.load(Ordering::Relaxed));
            let client = thread::Builder::new().spawn_scoped(scope, client);
            let client = client.context("cannot start a thread for the client")?;
            let ended = base.start(&start, allocator);
            is_over.store(true, Ordering::Relaxed);
            let loaded = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // The server's own error says more than the client's failure to connect.
            let figures = ended?.figures;
            loaded.map(|kept| Figures { kept, ..figures })
        })
    }
}

impl Recipe {
    fn prepared(&self, executable: &Path, folder: &Path) -> Result<Program> {
        let write = |name: &str, content: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.shown()))?;
            Ok(path)
        };
        let mut program = Program {
            name: self.name,
            command: vec![executable.as_os_str().to_owned()],
            settings: self.settings.iter().map(|(name, value)| (*name, OsString::from(value))).collect(),
            input: PathBuf::from("/dev/null"),
            times: self.times,
            company: Company::Nothing,
        };
        if let Extra::Repository = self.extra {
            program.command.extend(["-C".into(), history::repository(executable, folder)?.into()]);
        }
        program.command.extend(self.arguments.iter().map(OsString::from));
        if let Extra::File(name, content) | Extra::FileAndText(name, content) = self.extra {
            program.command.push(write(name, content)?.into());
        }
        let input = format!("{}.input", self.executable);
        match self.extra {
            Extra::Input(content) => program.input = write(&input, content)?,
            Extra::FileAndText(..) => program.input = write(&input, &history::text())?,
            Extra::RedisClient | Extra::RedisDeletion => {
                program.company = match self.extra {
                    Extra::RedisDeletion => Company::RedisDeletion(folder.to_owned()),
                    _ => Company::RedisClient(folder.to_owned()),
                };
                // Some are linked with a malloc library of their own, which would take precedence over the system's.
                program.settings.push((LD_PRELOAD, heapwright_host::identity::origin_of_malloc().into_os_string()));
            }
            Extra::Nothing | Extra::File(..) | Extra::Repository => {}
        }
        Ok(program)
    }
}
