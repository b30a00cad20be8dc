//! The trace that is compared: a file, a recording made now, or the one that is part of the command.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use heapwright_host::descriptors::described;
use heapwright_host::destination::Destination;
use heapwright_host::files::{self, ensure_rereadable};
use heapwright_host::names::Shown;
use heapwright_host::temporary::Folder;
use heapwright_recording as record;
use heapwright_recording::{Options, Recorded, Recording};
use heapwright_run::program;
use heapwright_show::number;

/// The name that the bundled trace has in tables.
const BUNDLED_NAME: &str = "bundled.hwt";

/// The run of a program that was recorded now.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How long it took.
    pub elapsed: Duration,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether the process whose trace is taken was still running then.
    pub continued: bool,
}

impl Run {
    /// Returns how the program failed, as in "exit status: 4"; `None` if it did not.
    pub fn failure(self) -> Option<String> {
        (!self.status.success()).then(|| self.status.to_string())
    }
}

/// A trace that can be read for as long as this lives.
pub struct Source {
    path: PathBuf,
    run: Option<Run>,
    asked_to_end: Option<i32>,
    _folder: Option<Folder>,
}

impl Source {
    /// Returns the source that reads an existing trace.
    ///
    /// # Errors
    /// When it cannot be opened; with a hint, if it is a program.
    pub fn file(path: &Path) -> Result<Source> {
        ensure_rereadable(path)?;
        match files::open(path) {
            Ok(_) => Ok(Source { path: path.to_owned(), run: None, asked_to_end: None, _folder: None }),
            Err(_) if program::find(path.as_os_str()).is_some() => {
                let name = path.shown();
                bail!("there is no trace {name}; to record the program {name} and compare, type -- before it")
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the trace that the command carries inside.
    pub fn bundled() -> Result<Source> {
        let folder = Folder::new("compare")?;
        let path = folder.path().join(BUNDLED_NAME);
        fs::write(&path, heapwright_carried::BUNDLED).context("cannot write the bundled trace to a temporary file")?;
        Ok(Source { path, run: None, asked_to_end: None, _folder: Some(folder) })
    }

    /// Runs a program and records it; of its processes, those that run `process` if that is said. The trace is also
    /// kept at `keep`.
    pub fn recorded(command: &[OsString], process: Option<&str>, keep: Option<&Destination>) -> Result<Source> {
        let folder = Folder::new("compare")?;
        let only: Vec<String> = process.map(str::to_owned).into_iter().collect();
        let least_events = Options::usual_least(&only);
        let options = Options { only, least_events, ..Options::usual(folder.path().join("recorded.hwt")) };
        let recording = record::program(command, &options)?;
        let main = recording.written()?;
        tell(&recording, main);
        let (path, continued) = (main.path.clone(), main.continued);
        if let Some(keep) = keep {
            let mut draft = keep.draft()?;
            let copied = File::open(&path).and_then(|mut trace| io::copy(&mut trace, &mut draft));
            copied.context("the trace cannot be kept")?;
            draft.keep()?;
        }
        let Recording { elapsed, asked_to_end, status, .. } = recording;
        if asked_to_end.is_some() {
            let kept = match keep {
                Some(keep) => format!("{} keeps what was recorded", keep.path().shown()),
                None => "the recording is not kept (--keep-trace FILE keeps it)".to_owned(),
            };
            heapwright_show::eprintln!(
                "heapwright: interrupted while the program ran: nothing is compared, and {kept}"
            );
        }
        let run = Some(Run { elapsed, status, continued });
        Ok(Source { path, run, asked_to_end, _folder: Some(folder) })
    }

    /// Returns the signal by which another process asked this command to end while it recorded the program.
    pub fn asked_to_end(&self) -> Option<i32> {
        self.asked_to_end
    }

    /// Returns the program's run, if it was recorded now.
    pub fn run(&self) -> Option<Run> {
        self.run
    }

    /// Returns the path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Says whose trace is taken, and what must be known of it.
fn tell(recording: &Recording, main: &Recorded) {
    let events = number::counted(main.figures.events(), "event");
    let time = number::seconds(recording.elapsed.as_secs_f64());
    heapwright_show::eprintln!("heapwright: recorded {} [{}], {events}, in {time}", main.program.shown(), main.pid);
    let others: Vec<String> = recording
        .traces
        .iter()
        .filter(|other| other.pid != main.pid || other.image != main.image)
        .map(|other| format!("{} ({})", other.program.shown(), number::counted(other.figures.events(), "event")))
        .collect();
    if !others.is_empty() {
        const LISTED: usize = 5;
        let more = if others.len() > LISTED { ", ..." } else { "" };
        let listed = others.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
        heapwright_show::eprintln!("heapwright: not {listed}{more}: --process NAME takes another");
    }
    let of_main = [main.hidden_objects(), main.unrecorded_successor(), main.calls_after_the_end()];
    for remark in recording.without_calls().chain(of_main.into_iter().flatten()) {
        heapwright_show::eprintln!("heapwright: {remark}");
    }
    if let Some(error) = &main.error {
        heapwright_show::eprintln!("heapwright: the trace is incomplete: {}", described(error));
    } else if !main.is_whole() {
        heapwright_show::eprintln!(
            "heapwright: the recording is not complete, without {} that followed",
            number::counted(main.lost, "call")
        );
    }
    if let Some(failure) = recording.failure() {
        heapwright_show::eprintln!("heapwright: {failure}");
    }
}
