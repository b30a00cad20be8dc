//! Where the trace of a report comes from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use heapwright_host::temporary::Folder;
use heapwright_recording as record;
use heapwright_recording::Options;

/// The trace of a report.
pub struct Source {
    pub trace: PathBuf,
    /// Where the trace lies if it is not to be kept.
    _folder: Option<Folder>,
}

impl Source {
    /// The trace that is given, or that of a program which is run now.
    pub fn of(trace: Option<&Path>, program: &[OsString]) -> Result<Source> {
        match trace {
            Some(trace) => Ok(Source { trace: trace.to_owned(), _folder: None }),
            None => Source::record(program),
        }
    }

    fn record(program: &[OsString]) -> Result<Source> {
        let folder = Folder::new("report")?;
        let options = Options::usual(folder.path().join(name(None, program)).with_extension("hwt"));
        let recording = record::program(program, &options)?;
        let main = recording.main();
        if let Some(error) = &main.error {
            heapwright_show::eprintln!("heapwright: the trace is incomplete: {error:#}");
        }
        Ok(Source { trace: main.path.clone(), _folder: Some(folder) })
    }
}

/// What the report of a trace or a program is called.
pub fn name(trace: Option<&Path>, program: &[OsString]) -> String {
    trace.or_else(|| program.first().map(Path::new)).map_or_else(String::new, stem)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
