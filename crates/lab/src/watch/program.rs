//! The program that is watched: started, listened to and, in the end, waited for.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::log::Log;
use crate::preload;
use crate::run::{NotStarted, in_front};

/// How long a program that was asked to end may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a file is looked at for more.
const PAUSE: Duration = Duration::from_millis(50);

/// Where the program's output goes.
#[derive(Clone, Copy)]
pub enum Output<'p> {
    /// To us alone, who show its last lines.
    Shown,
    /// To a file, whose last lines we show.
    File(&'p Path),
    /// To our standard error.
    PassedOn,
}

/// Whose session the program belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// One of its own: whatever it does, the terminal is not its.
    Own,
    /// Ours: the terminal's keys are for it, too.
    Ours,
}

/// What is started, and how.
pub struct Plan<'p> {
    /// The policy's name.
    pub policy: &'p str,
    /// The seed of random fit.
    pub seed: Option<u64>,
    /// Where its output goes.
    pub output: Output<'p>,
    /// Where it runs.
    pub session: Session,
    /// The program and its arguments.
    pub command: &'p [OsString],
}

/// A program under the drop-in library; asked to end when this is dropped, unless it ended or was let go.
pub struct Program {
    child: Child,
    name: String,
    session: Session,
    ended: Option<ExitStatus>,
    /// Where its processes leave their heaps' last states.
    states: TempDir,
    log: Arc<Mutex<Log>>,
    /// Whether its output goes on when nobody reads it any more.
    can_be_left: bool,
    is_let_go: bool,
}

impl Program {
    /// Starts the program.
    pub fn start(plan: &Plan) -> Result<Program> {
        let states =
            tempfile::Builder::new().prefix("heapwright-watch-").tempdir().context("no room for what is watched")?;
        let mut command = Command::new(&plan.command[0]);
        command.args(&plan.command[1..]);
        command.env(preload::LD_PRELOAD, in_front(&preload::library(None)?));
        command.env(preload::POLICY, plan.policy).env(preload::WATCH, states.path());
        if let Some(seed) = plan.seed {
            command.env(preload::SEED, seed.to_string());
        }
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        let log = Arc::new(Mutex::new(Log::default()));
        let source = Source::connect(&mut command, plan.output)?;
        if plan.session == Session::Own {
            leave_session(&mut command);
        }
        let child = command.spawn().map_err(|error| NotStarted::because(&plan.command[0], &error))?;
        // The command holds the pipe's other end: as long as it is open, nobody hears of the end.
        drop(command);
        source.listen(log.clone());
        let can_be_left = matches!(plan.output, Output::File(_));
        let name = name_of(Path::new(&plan.command[0]));
        Ok(Program { child, name, session: plan.session, ended: None, states, log, can_be_left, is_let_go: false })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the system calls it once it is the program and no copy of ours any more.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where process `pid` leaves its heap's last state.
    pub fn state_of(&self, pid: u32) -> PathBuf {
        self.states.path().join(pid.to_string())
    }

    /// Removes what processes have left that are not to be kept in mind.
    pub fn forget(&self, keep: impl Fn(u32) -> bool) {
        for entry in fs::read_dir(self.states.path()).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if number.is_some_and(|pid: u32| !keep(pid)) {
                // One that cannot be removed now goes with the directory.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// The last lines that it printed.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).last(count)
    }

    /// Whether it can be left alone: its output goes to a file.
    pub fn can_be_left(&self) -> bool {
        self.can_be_left
    }

    /// Sends a signal to the program and, when it has a session of its own, to all that it started and that stayed there.
    pub fn signal(&mut self, signal: i32) {
        let number = self.child.id() as libc::pid_t;
        let target = if self.session == Session::Own { -number } else { number };
        if self.ended().is_none() {
            // SAFETY: kill has no preconditions; the child was not waited for, so that the number is still its own.
            unsafe { libc::kill(target, signal) };
        }
    }

    /// The program goes on, whatever becomes of us.
    pub fn let_go(&mut self) {
        self.is_let_go = true;
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        match self.ended() {
            Some(status) => Ok(status),
            None => self.child.wait(),
        }
    }

    /// Ends the program: asks first, and kills it when that does not help.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(libc::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            thread::sleep(PAUSE / 5);
        }
        self.signal(libc::SIGKILL);
        self.child.wait()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.is_let_go {
            self.signal(libc::SIGTERM);
        }
    }
}

/// The name that the system gives to a process that executes `file`: 15 bytes of the file's.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    String::from_utf8_lossy(&name[..name.len().min(15)]).into_owned()
}

/// Has `command` start in a session of its own.
fn leave_session(command: &mut Command) {
    // SAFETY: between fork and exec, setsid is called and nothing else; it is safe there.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
}

/// Where the program's output comes from.
enum Source {
    Pipe(io::PipeReader),
    File(File),
    /// It goes to where it cannot be read again.
    Nothing,
}

impl Source {
    /// Has the output of `command` go to `output`, or to us.
    fn connect(command: &mut Command, output: Output) -> Result<Source> {
        let path = match output {
            Output::File(path) => path,
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
        let describe = || format!("cannot write the program's output to {}", path.display());
        let file = File::create(path).with_context(describe)?;
        let is_regular = file.metadata().is_ok_and(|found| found.is_file());
        command.stdout(file.try_clone()?).stderr(file);
        Ok(if is_regular { Source::File(File::open(path).with_context(describe)?) } else { Source::Nothing })
    }

    /// Has a thread of its own fill the log, which goes with the process.
    fn listen(self, log: Arc<Mutex<Log>>) {
        match self {
            Source::Pipe(reader) => drop(thread::spawn(move || copy(reader, &log, || false))),
            Source::File(file) => drop(thread::spawn(move || {
                copy(file, &log, || {
                    thread::sleep(PAUSE);
                    true
                });
            })),
            Source::Nothing => {}
        }
    }
}

/// Puts what `reader` has into the log until it ends and `goes_on` says that nothing more will come.
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
