//! The trace files of a recording: one for the program, and one next to it for every other process.

use std::cmp::Reverse;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use heapwright_host::files::path_for_process;
use heapwright_host::names::Shown;
use heapwright_host::temporary;
use tempfile::TempDir;

use super::partial::Partial;
use super::recorded::Recorded;

/// The trace files, while the program runs.
pub struct Traces {
    /// The path that was requested.
    output: PathBuf,
    /// The file that is replaced: the end of a symbolic link.
    destination: PathBuf,
    /// Present if the requested path is a pipe or a device.
    stream: Option<Stream>,
    files: Mutex<Files>,
}

/// A pipe or a device, which receives the complete trace at the end.
struct Stream {
    file: File,
    folder: Mutex<Option<TempDir>>,
}

struct Files {
    /// Where the program's trace will be written; taken by its first call.
    spare: Option<Partial>,
    /// The program of the process, counted by `exec`, whose trace is to have the requested name, and its number.
    last: Option<(u32, usize)>,
    /// The files that were begun, by number.
    begun: Vec<Partial>,
}

/// Whose trace a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The process that the command started.
    Program,
    /// A process that the program started.
    Descendant,
}

/// A trace file that has begun.
pub struct Begun {
    /// The number of the file among those of the recording.
    pub number: usize,
    /// Its path while it is written.
    pub path: PathBuf,
    /// The file, empty.
    pub file: File,
}

impl Traces {
    /// Prepares to write the program's trace to `output`, and changes no file that exists. An unwritable path fails
    /// here, before the program runs.
    pub fn at(output: &Path) -> Result<Traces> {
        Traces::prepare(output).with_context(|| format!("cannot write a trace to {}", output.shown()))
    }

    fn prepare(output: &Path) -> Result<Traces> {
        let stream = open_if_stream(output)?;
        let destination = match &stream {
            Some(stream) => stream.path()?,
            None => end_of_links(output)?,
        };
        let spare = Some(Partial::open(&destination)?);
        let files = Mutex::new(Files { spare, last: None, begun: Vec::new() });
        Ok(Traces { output: output.to_owned(), destination, stream, files })
    }

    /// Returns whether only the program's own trace has a place.
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Begins the trace of a process, or of the next program that it runs (`image`, from 0).
    ///
    /// While it is written, the trace of what the program's process ran last is `T.partial`; that of another process is
    /// `T.PID.hwt.partial`, or `T.PID-2.hwt.partial` for its second program.
    pub fn begin(&self, owner: Owner, pid: u32, image: u32) -> Result<Begun> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = &mut *files;
        let number = files.begun.len();
        let is_last = owner == Owner::Program && files.last.is_none_or(|(last, _)| last < image);
        if !is_last {
            let mut partial = Partial::open(&self.free_path(&files.begun, pid, image))?;
            let (path, file) = (partial.path().to_owned(), partial.begin_once()?);
            files.begun.push(partial);
            return Ok(Begun { number, path, file });
        }
        if let Some((before, number)) = files.last {
            let path = self.free_path(&files.begun, pid, before);
            files.begun[number].move_to(&path)?;
            files.spare = Some(Partial::open(&self.destination)?);
        }
        let partial = files.spare.as_ref().context("its file is in use")?;
        let (path, file) = (partial.path().to_owned(), partial.begin()?);
        files.last = Some((image, number));
        files.begun.extend(files.spare.take());
        Ok(Begun { number, path, file })
    }

    /// Returns a path for a process's trace that no other process of this recording has. The system reuses process ids.
    fn free_path(&self, begun: &[Partial], pid: u32, image: u32) -> PathBuf {
        let mut paths = (image..).map(|image| self.path_of(pid, image));
        let is_free = |path: &PathBuf| begun.iter().all(|other| other.destination() != path);
        paths.find(is_free).unwrap_or_default()
    }

    /// Returns the path of the complete trace of a process: `T.PID.hwt`, or `T.PID-2.hwt` for the second program that
    /// it runs.
    fn path_of(&self, pid: u32, image: u32) -> PathBuf {
        let base = if self.is_stream() { &self.destination } else { &self.output };
        let process = if image == 0 { pid.to_string() } else { format!("{pid}-{}", image + 1) };
        path_for_process(base, &process)
    }

    /// Renames complete traces. That of the program, which is what process `pid` ran last, gets the requested name and
    /// comes first. Sorts the others by descending number of events, and removes complete ones with fewer than `least`.
    /// Traces that are not complete stay as they are, and replace nothing. Returns the traces, and those it removed.
    pub fn settle(&self, pid: u32, mut recorded: Vec<Recorded>, least: u64) -> (Vec<Recorded>, Vec<Recorded>) {
        self.discard();
        let last = recorded.iter_mut().filter(|one| one.is_seen && one.pid == pid).max_by_key(|one| one.image);
        last.into_iter().for_each(|last| last.is_the_program = true);
        recorded.sort_by_key(|one| (Reverse(one.is_the_program), Reverse(one.figures.events()), one.pid, one.image));
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let is_removed = |one: &mut Recorded| {
            let Some(partial) = one.file.map(|number| &files.begun[number]) else { return false };
            let has_place = one.is_the_program || !self.is_stream();
            let is_kept = has_place && (one.is_the_program || one.figures.events() >= least || !one.is_whole());
            match is_kept {
                true => self.settle_one(one, partial),
                false => partial.remove(),
            }
            !is_kept
        };
        let removed = recorded.extract_if(.., is_removed).collect();
        (recorded, removed)
    }

    fn settle_one(&self, one: &mut Recorded, partial: &Partial) {
        partial.path().clone_into(&mut one.path);
        one.length = fs::metadata(&one.path).map_or(0, |found| found.len());
        if let Some(stream) = self.stream.as_ref().filter(|_| one.is_the_program) {
            match stream.receive(partial.path()) {
                Ok(()) => one.path.clone_from(&self.output),
                Err(error) => one.fail(error.context(format!("cannot write {}", self.output.shown()))),
            }
        } else if !one.is_whole() {
            partial.sync();
            partial.remove_if_empty();
        } else if let Err(error) = partial.complete() {
            one.fail(error);
        } else {
            let path = if one.is_the_program { &self.output } else { partial.destination() };
            path.clone_into(&mut one.path);
        }
    }

    /// Removes the file for the program's trace if the program has made no call.
    pub fn discard(&self) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unused) = files.spare.take() {
            unused.remove_if_empty();
        }
    }

    /// Returns the path of the program's trace while it is not complete, if the program has made a call.
    pub fn partial(&self) -> Option<PathBuf> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.last.map(|(_, number)| files.begun[number].path().to_owned())
    }
}

impl Stream {
    /// Returns the path of the trace until it is copied.
    fn path(&self) -> Result<PathBuf> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(folder.as_ref().context("there is no directory for it")?.path().join("trace.hwt"))
    }

    /// Copies the trace. If that fails, it stays where it is.
    fn receive(&self, path: &Path) -> Result<()> {
        let mut trace = File::open(path)?;
        let Err(error) = io::copy(&mut trace, &mut &self.file) else { return Ok(()) };
        if let Some(folder) = self.folder.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _kept = folder.keep();
        }
        Err(error.into())
    }
}

/// Opens a pipe or a device for writing; waits until a named pipe has a reader.
fn open_if_stream(output: &Path) -> Result<Option<Stream>> {
    let Ok(found) = fs::metadata(output) else { return Ok(None) };
    let kind = found.file_type();
    ensure!(!kind.is_dir(), "it is a directory");
    ensure!(kind.is_file() || kind.is_fifo() || kind.is_char_device(), "it is not a file, a pipe or a device");
    if !kind.is_char_device()
        && let Some(own) = own_output(&found)
    {
        bail!("the program's {own} goes there");
    }
    if kind.is_file() {
        let writable = OpenOptions::new().write(true).open(output).map(drop);
        return writable.map(|()| None).map_err(|error| anyhow!(error));
    }
    let file = OpenOptions::new().write(true).open(output)?;
    ensure!(!file.is_terminal(), "it is a terminal");
    // Kept if the trace cannot be copied; no business of other users.
    let private = Permissions::from_mode(0o700);
    let folder =
        tempfile::Builder::new().prefix("heapwright-trace-").permissions(private).tempdir_in(temporary::place()?)?;
    Ok(Some(Stream { file, folder: Mutex::new(Some(folder)) }))
}

/// Returns which of the outputs that the program inherits is this file.
fn own_output(found: &Metadata) -> Option<&'static str> {
    let is_it = |descriptor: io::Result<std::os::fd::OwnedFd>| {
        let other = descriptor.and_then(|descriptor| File::from(descriptor).metadata());
        other.is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
    };
    if is_it(io::stdout().as_fd().try_clone_to_owned()) {
        return Some("standard output");
    }
    is_it(io::stderr().as_fd().try_clone_to_owned()).then_some("standard error")
}

/// Follows symbolic links to the file that is to be replaced, which need not exist.
fn end_of_links(output: &Path) -> Result<PathBuf> {
    /// The most links that are followed, as in the kernel.
    const MOST: usize = 40;
    let mut path = output.to_owned();
    for _ in 0..MOST {
        let Ok(target) = fs::read_link(&path) else {
            let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
            ensure!(identity(&path) == identity(output), "its file has no name");
            return Ok(path);
        };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    bail!("too many symbolic links")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_names_beside_the_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let traces = Traces::at(&path("t.x.hwt")).unwrap();
        assert_eq!(traces.path_of(7, 0), path("t.x.7.hwt"));
        assert_eq!(traces.path_of(7, 1), path("t.x.7-2.hwt"));
        assert_eq!(Traces::at(&path("t")).unwrap().path_of(7, 0), path("t.7"));
        let names = [Owner::Descendant; 2].map(|owner| traces.begin(owner, 7, 0).unwrap().path);
        assert_eq!(names, [path("t.x.7.hwt.partial"), path("t.x.7-2.hwt.partial")], "a process id was used again");
    }

    #[test]
    fn what_the_program_ran_last_is_written_to_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let traces = Traces::at(&path("t.hwt")).unwrap();
        let write = |begun: Begun, text: &str| {
            fs::write(&begun.path, text).unwrap();
            (begun.number, begun.path)
        };
        let first = write(traces.begin(Owner::Program, 7, 0).unwrap(), "first");
        let third = write(traces.begin(Owner::Program, 7, 2).unwrap(), "third");
        let second = write(traces.begin(Owner::Program, 7, 1).unwrap(), "second");
        assert_eq!([first.0, third.0, second.0], [0, 1, 2]);
        assert_eq!([&first.1, &third.1], [&path("t.hwt.partial"); 2]);
        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        let names = ["t.7.hwt.partial", "t.7-2.hwt.partial", "t.hwt.partial"];
        assert_eq!(names.map(read), ["first", "second", "third"]);
        assert_eq!(traces.partial(), Some(path("t.hwt.partial")));
    }

    #[test]
    fn unwritable_paths_are_refused_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| format!("{:#}", Traces::at(path).err().unwrap());
        assert!(refused(folder.path()).contains("it is a directory"));
        assert!(refused(Path::new("/nowhere/at/all")).contains("No such file"));
        assert!(Traces::at(Path::new("/dev/null")).unwrap().is_stream());
        Traces::at(&folder.path().join("t.hwt")).unwrap().discard();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_leads_to_the_file_that_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("data/t.hwt", path("link")).unwrap();
        fs::create_dir(path("data")).unwrap();
        let traces = Traces::at(&path("link")).unwrap();
        assert_eq!(traces.begin(Owner::Program, 7, 0).unwrap().path, path("data/t.hwt.partial"));
        assert_eq!(traces.path_of(7, 0), path("link.7"));
        std::os::unix::fs::symlink("loop", path("loop")).unwrap();
        assert!(Traces::at(&path("loop")).is_err());
    }
}
