//! The watched program: starts it, reads its output and waits for its end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use heapwright_host::destination::Destination;
use heapwright_host::dispositions::start_with_inherited_signals;
use heapwright_host::interruption::PassedOn;
use heapwright_host::names::Shown;
use heapwright_host::process::{send_signal, send_signal_to_group, start_in_own_session};
use heapwright_host::temporary::Folder;
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::log::Log;
use heapwright_allocators::preload;
use heapwright_rules::RuleSet;
use heapwright_run::{NotStarted, in_front};

/// How long a program may take to end after SIGTERM before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval between reads of a growing file.
const PAUSE: Duration = Duration::from_millis(50);

/// Where the program's output goes.
#[derive(Clone, Copy)]
pub enum Output<'p> {
    /// To this command only, which shows the last lines.
    Shown,
    /// To a file, whose last lines are shown.
    File(&'p Destination),
    /// To this command's standard error.
    PassedOn,
}

/// The session of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// A session of its own: the program cannot reach the terminal.
    Own,
    /// This command's session: the terminal's keys reach the program too.
    Ours,
}

/// What to start, and how.
pub struct Plan<'p> {
    /// The policy's name.
    pub policy: &'p str,
    /// The rules of its heap; `None` for the usual ones.
    pub rules: Option<RuleSet>,
    /// The seed of random fit.
    pub seed: Option<u64>,
    /// Where its output goes.
    pub output: Output<'p>,
    /// Its session.
    pub session: Session,
    /// The program and its arguments.
    pub command: &'p [OsString],
}

/// A program under the drop-in library. Dropping this ends the program, unless it has ended or was released.
pub struct Program {
    child: Child,
    name: String,
    session: Session,
    ended: Option<ExitStatus>,
    /// Directory in which its processes leave the last states of their heaps.
    states: Folder,
    log: Arc<Mutex<Log>>,
    /// Whether its output still goes somewhere when this command no longer reads it.
    can_be_left: bool,
    is_let_go: bool,
    /// Signals are passed on by the terminal's reader or by what prints a picture, and end this command after the
    /// program.
    _passed_on: PassedOn,
}

impl Program {
    /// Starts the program.
    pub fn start(plan: &Plan) -> Result<Program> {
        let passed_on = PassedOn::begin();
        let states = Folder::new("watch")?;
        let mut command = Command::new(&plan.command[0]);
        command.args(&plan.command[1..]);
        command.env(preload::LD_PRELOAD, in_front(&preload::library(None)?));
        command.env(preload::POLICY, plan.policy).env(preload::WATCH, states.path());
        if let Some(rules) = &plan.rules {
            command.env(preload::RULES, rules.to_string());
        }
        if let Some(seed) = plan.seed {
            command.env(preload::SEED, seed.to_string());
        }
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        let log = Arc::new(Mutex::new(Log::default()));
        let source = Source::connect(&mut command, plan.output)?;
        if plan.session == Session::Own {
            start_in_own_session(&mut command);
        }
        start_with_inherited_signals(&mut command);
        source.listen(log.clone()).context("cannot start a thread that reads the program's output")?;
        let child = command.spawn().map_err(|error| NotStarted::because(&plan.command[0], &error))?;
        // The command holds the pipe's write end; the reader gets no end of file while it is open.
        drop(command);
        let can_be_left = matches!(plan.output, Output::File(_));
        let name = name_of(Path::new(&plan.command[0]));
        let (session, ended, is_let_go) = (plan.session, None, false);
        Ok(Program { child, name, session, ended, states, log, can_be_left, is_let_go, _passed_on: passed_on })
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its name in the system's process list once it has replaced the forked copy of this command.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file in which process `pid` leaves the last state of its heap.
    pub fn state_of(&self, pid: u32) -> PathBuf {
        self.states.path().join(pid.to_string())
    }

    /// Removes the states of processes that `keep` rejects.
    pub fn forget(&self, keep: impl Fn(u32) -> bool) {
        for entry in fs::read_dir(self.states.path()).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if number.is_some_and(|pid: u32| !keep(pid)) {
                // A file that cannot be removed now is removed with the directory.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Returns its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Returns the last lines that it printed.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).last(count)
    }

    /// Returns whether it can be left running: its output goes to a file.
    pub fn can_be_left(&self) -> bool {
        self.can_be_left
    }

    /// Sends a signal to the program and, if it has its own session, to every process in its group.
    pub fn signal(&mut self, signal: i32) {
        if self.ended().is_some() {
            return;
        }
        match self.session {
            Session::Own => send_signal_to_group(&self.child, signal),
            _ => send_signal(&self.child, signal),
        }
    }

    /// Releases the program: it keeps running when this is dropped.
    pub fn let_go(&mut self) {
        self.is_let_go = true;
    }

    /// Ends the program: sends SIGTERM, and kills it if that does not suffice.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            thread::sleep(PAUSE / 5);
        }
        self.signal(SIGKILL);
        self.child.wait()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.is_let_go {
            self.signal(SIGTERM);
        }
    }
}

/// Returns the name that the system gives to a process that executes `file`: the first 15 bytes of the file's name.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    String::from_utf8_lossy(&name[..name.len().min(15)]).into_owned()
}

/// Source of the program's output.
enum Source {
    Pipe(io::PipeReader),
    File(File),
    /// The output goes to a place that cannot be read.
    Nothing,
}

impl Source {
    /// Connects the output of `command` to `output`.
    fn connect(command: &mut Command, output: Output) -> Result<Source> {
        let place = match output {
            Output::File(place) => place,
            Output::PassedOn => {
                command.stdout(io::stderr());
                return Ok(Source::Nothing);
            }
            Output::Shown => {
                let (reader, writer) = io::pipe().context("no pipe for the program's output")?;
                command.stdout(writer.try_clone()?).stderr(writer);
                return Ok(Source::Pipe(reader));
            }
        };
        let path = place.path();
        let describe = || format!("{} cannot be read", path.shown());
        let file = place.open()?;
        let is_regular = file.metadata().is_ok_and(|found| found.is_file());
        command.stdout(file.try_clone()?).stderr(file);
        Ok(if is_regular { Source::File(File::open(path).with_context(describe)?) } else { Source::Nothing })
    }

    /// Starts a thread that fills the log until this command ends.
    fn listen(self, log: Arc<Mutex<Log>>) -> io::Result<()> {
        let goes_on = || {
            thread::sleep(PAUSE);
            true
        };
        let thread = thread::Builder::new();
        match self {
            Source::Pipe(reader) => thread.spawn(move || copy(reader, &log, || false)).map(drop),
            Source::File(file) => thread.spawn(move || copy(file, &log, goes_on)).map(drop),
            Source::Nothing => Ok(()),
        }
    }
}

/// Copies what `reader` returns to the log until its end, and until `goes_on` returns `false`.
fn copy(mut reader: impl Read, log: &Mutex<Log>, goes_on: impl Fn() -> bool) {
    let mut bytes = [0; 4096];
    loop {
        match reader.read(&mut bytes) {
            Ok(0) if goes_on() => {}
            Ok(0) => return,
            Ok(count) => log.lock().unwrap_or_else(PoisonError::into_inner).add(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
