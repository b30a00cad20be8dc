//! Where the trace of a report comes from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::record::{self, Options};

/// A trace, and what its report is called.
pub struct Source {
    pub trace: PathBuf,
    pub name: String,
    /// Where the trace lies if it is not to be kept.
    _folder: Option<TempDir>,
}

impl Source {
    /// The trace that is given, or that of a program which is run now.
    pub fn of(trace: Option<&Path>, program: &[OsString]) -> Result<Source> {
        match trace {
            Some(trace) => Ok(Source { trace: trace.to_owned(), name: stem(trace), _folder: None }),
            None => Source::record(program),
        }
    }

    fn record(program: &[OsString]) -> Result<Source> {
        let folder = tempfile::tempdir().context("no folder for the trace")?;
        let name = program.first().map_or_else(String::new, |program| stem(Path::new(program)));
        let options = Options::usual(folder.path().join(&name).with_extension("hwt"));
        let recording = record::program(program, &options)?;
        let main = recording.main();
        if let Some(error) = &main.error {
            anstream::eprintln!("heapwright: the trace is incomplete: {error:#}");
        }
        Ok(Source { trace: main.path.clone(), name, _folder: Some(folder) })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
