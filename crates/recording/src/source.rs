//! The trace that a command analyses: one that is given, or that of a program which is recorded now.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use heapwright_host::descriptors::described;
use heapwright_host::names::Shown;
use heapwright_host::temporary::Folder;

use super::options::Options;
use super::program::{NoCalls, program as record};
use super::summary;

/// The bytes of a program's name with which that of its trace begins, at most: those of other processes are longer,
/// and a file's name has 255.
const LONGEST_NAME: usize = 200;

/// A trace to analyse.
pub struct Source {
    /// The path of the trace.
    pub trace: PathBuf,
    /// Why every stack of the program leads nowhere, if the system is the reason.
    pub why_no_stacks: Option<&'static str>,
    /// The folder of a trace that is not to be kept.
    _folder: Option<Folder>,
}

impl Source {
    /// Returns the trace that is given, or else that of the program, which is run and recorded with the options that
    /// `choose` changes. The trace of a program is removed with this.
    ///
    /// # Errors
    /// When the program cannot be recorded, or requests no memory.
    pub fn of(trace: Option<&Path>, program: &[OsString], choose: impl FnOnce(&mut Options)) -> Result<Source> {
        match trace {
            Some(trace) => Ok(Source { trace: trace.to_owned(), why_no_stacks: None, _folder: None }),
            None => Source::recorded(program, choose),
        }
    }

    fn recorded(program: &[OsString], choose: impl FnOnce(&mut Options)) -> Result<Source> {
        let folder = Folder::new("trace")?;
        let name = name(None, program);
        let begun = OsStr::from_bytes(&name.as_bytes()[..name.len().min(LONGEST_NAME)]);
        let mut options = Options::usual(folder.path().join(begun).with_extension("hwt"));
        choose(&mut options);
        let recording = match record(program, &options) {
            Err(error) if error.is::<NoCalls>() => return Err(no_requests(program, &options)),
            recording => recording?,
        };
        let main = recording.written()?;
        recording.without_calls().for_each(|remark| heapwright_show::eprintln!("heapwright: {remark}"));
        if let Some(failure) = recording.failure() {
            heapwright_show::eprintln!("heapwright: {failure}");
        }
        summary::cautions(main).iter().for_each(|caution| heapwright_show::eprintln!("heapwright: {caution}"));
        if let Some(error) = &main.error {
            heapwright_show::eprintln!("heapwright: the trace is incomplete: {}", described(error));
        } else if main.figures.events() == 0 {
            return Err(no_requests(program, &options));
        }
        Ok(Source { trace: main.path.clone(), why_no_stacks: summary::why_no_stacks(main), _folder: Some(folder) })
    }
}

/// The error for a program that requests no memory.
fn no_requests(program: &[OsString], options: &Options) -> anyhow::Error {
    let name = program.first().map(|name| name.shown()).unwrap_or_default();
    let place = if options.marked { "in a block that it marked" } else { "by malloc and its family" };
    let next = "give it arguments or input with which it makes some";
    anyhow!("{name} made no request for memory {place}, or has its own malloc: {next}")
}

/// Returns the name of a trace or a program, without folders and extension, with every byte that it has.
pub fn name(trace: Option<&Path>, program: &[OsString]) -> OsString {
    let path = trace.or_else(|| program.first().map(Path::new));
    path.and_then(Path::file_stem).unwrap_or_default().to_owned()
}
