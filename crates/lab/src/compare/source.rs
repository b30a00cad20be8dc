//! The trace that is compared: a file, what was just recorded, or the one that the command carries inside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::number;
use crate::record::{self, Options, Recording};
use crate::run::program;

/// Recorded by `corpus/record`: a C++ compiler at work.
pub static BUNDLED: &[u8] = include_bytes!("../../../../corpus/default.hwt");

/// The name that the bundled trace has in tables.
const BUNDLED_NAME: &str = "bundled.hwt";

/// A trace that can be read for as long as this lives.
pub struct Source {
    path: PathBuf,
    _folder: Option<TempDir>,
}

impl Source {
    /// Somebody's file.
    ///
    /// # Errors
    /// When it cannot be opened; with a hint, if it is a program.
    pub fn file(path: &Path) -> Result<Source> {
        match File::open(path) {
            Ok(_) => Ok(Source { path: path.to_owned(), _folder: None }),
            Err(_) if program::find(path.as_os_str()).is_some() => {
                let name = path.display();
                bail!("there is no trace {name}; to record the program {name} and compare, type -- before it")
            }
            Err(error) => Err(error).with_context(|| format!("{} cannot be opened", path.display())),
        }
    }

    /// The trace that the command carries inside.
    pub fn bundled() -> Result<Source> {
        let folder = folder()?;
        let path = folder.path().join(BUNDLED_NAME);
        fs::write(&path, BUNDLED).context("cannot write the bundled trace to a temporary file")?;
        Ok(Source { path, _folder: Some(folder) })
    }

    /// Runs a program and records it; of its processes, those that run `process` if that is said. The trace is also
    /// kept at `keep`.
    pub fn recorded(command: &[OsString], process: Option<&str>, keep: Option<&Path>) -> Result<Source> {
        let folder = folder()?;
        let only = process.map(str::to_owned).into_iter().collect();
        let options = Options { only, ..Options::usual(folder.path().join("recorded.hwt")) };
        let recording = record::program(command, &options)?;
        tell(&recording);
        let path = recording.main().path.clone();
        if let Some(keep) = keep {
            fs::copy(&path, keep).with_context(|| format!("cannot keep the trace at {}", keep.display()))?;
        }
        Ok(Source { path, _folder: Some(folder) })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn folder() -> Result<TempDir> {
    tempfile::Builder::new().prefix("heapwright-compare-").tempdir().context("no room for a trace")
}

/// Says whose trace is taken, and what must be known of it.
fn tell(recording: &Recording) {
    let main = recording.main();
    let events = number::grouped(main.figures.events());
    let time = number::seconds(recording.elapsed.as_secs_f64());
    anstream::eprintln!("heapwright: recorded {} [{}], {events} events, in {time}", main.program, main.pid);
    let others: Vec<String> = recording
        .traces
        .iter()
        .filter(|other| other.pid != main.pid || other.image != main.image)
        .map(|other| format!("{} ({} events)", other.program, number::grouped(other.figures.events())))
        .collect();
    if !others.is_empty() {
        const LISTED: usize = 5;
        let more = if others.len() > LISTED { ", ..." } else { "" };
        let listed = others.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
        anstream::eprintln!("heapwright: not {listed}{more}: --process NAME takes another");
    }
    if !main.is_whole() {
        anstream::eprintln!(
            "heapwright: the recording is not complete: {} calls are missing",
            number::grouped(main.lost)
        );
    }
    if !recording.status.success() {
        anstream::eprintln!(
            "heapwright: the program ended with {}; what it did until then is compared",
            recording.status
        );
    }
}
