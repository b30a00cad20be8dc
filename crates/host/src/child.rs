//! Child processes that do one job each: a fresh process per measurement, under any allocator.
//!
//! A child is this same executable, started for one of the [`Job`]s that its `main` passes to [`serve`], or another
//! program that follows the same protocol. The task is one JSON argument. Requests and replies are one line of JSON
//! each, on the child's standard input and output.
//!
//! The allocator is chosen by the caller, who sets the environment of the [`Command`] before the child is started.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{self, ChildStderr, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::own_memory::OwnMemory;

/// The first argument of a child of this executable.
const ENTRY: &str = "child";

/// How long a child may take to end after it has closed its standard output.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// Time between two looks at whether a child has ended: seldom enough not to disturb what it measures.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The most bytes of a child's standard error that are kept.
const MOST_ERROR_OUTPUT: u64 = 1 << 14;

/// What failed when the system has no room for a thread.
const NO_THREAD: &str = "cannot start a thread that reads from a child process";

/// A job that this executable does in a child process.
pub struct Job {
    /// The name under which a child is started for it.
    pub name: &'static str,
    /// The child's side. The argument is the task as JSON, empty when the parent passed none.
    pub perform: fn(task: &str) -> Result<()>,
}

impl Job {
    /// Returns a command that starts this executable for the job, without a task.
    ///
    /// # Errors
    /// When the path of this executable is not available.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(env::current_exe().context("cannot find this executable's own file")?);
        command.arg(ENTRY).arg(self.name);
        Ok(command)
    }

    /// Returns a command that starts this executable for the job with this task.
    ///
    /// # Errors
    /// As [`Job::command`].
    pub fn command_for(&self, task: &impl Serialize) -> Result<Command> {
        let mut command = self.command()?;
        command.arg(to_json(task)?);
        Ok(command)
    }
}

/// Returns `value` as one line of JSON.
///
/// # Errors
/// When the value has no form in JSON.
pub fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).context("cannot write the message for a child process")
}

/// Does the job that this process was started for, or returns `None` when this process is not a child.
///
/// `main` calls this before it parses arguments, so that a job under test starts with a heap that is almost unused.
pub fn serve(jobs: &[Job]) -> Option<ExitCode> {
    let (name, task) = called()?;
    let job = jobs.iter().find(|job| name == job.name);
    drop(name);
    let unknown = || format!("`{ENTRY}` is reserved for this command's own child processes");
    let is_done = job.with_context(unknown).and_then(|job| perform(job, &task)).map_err(report).is_ok();
    Some(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Does the job that this process was started for, if it is `job`, and ends the process.
///
/// To be called by a constructor of the program, which runs before Rust prepares `main` and allocates for that. All
/// that the job needs for itself is in `own`, from which the program's global allocator takes it, so that malloc's heap
/// is unused when it begins.
pub fn serve_before_main(job: &Job, own: &OwnMemory) {
    own.begin();
    if let Some((name, task)) = called()
        && name == job.name
    {
        process::exit(perform(job, &task).map_err(report).map_or(1, |()| 0));
    }
    own.end();
}

/// Returns the name of the job and the task of a child.
fn called() -> Option<(OsString, OsString)> {
    let mut arguments = env::args_os().skip(1);
    (arguments.next()? == ENTRY).then(|| (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default()))
}

fn perform(job: &Job, task: &OsString) -> Result<()> {
    (job.perform)(task.to_str().context("the task is not UTF-8")?)
}

fn report(error: anyhow::Error) {
    // The parent may have stopped reading.
    let _ = writeln!(io::stderr(), "{error:#}");
}

/// The child's side: returns the task that the parent passed.
///
/// # Errors
/// When the argument is not such a task.
pub fn parse_task<T: DeserializeOwned>(task: &str) -> Result<T> {
    serde_json::from_str(task).with_context(|| format!("invalid task: {task:?}"))
}

/// The child's side: the parent's requests, until it closes the connection.
pub fn requests<T: DeserializeOwned>() -> impl Iterator<Item = Result<T>> {
    let parse = |line: String| serde_json::from_str(&line).with_context(|| format!("invalid request: {line:?}"));
    io::stdin().lines().map(move |line| parse(line?))
}

/// The child's side: sends a reply.
///
/// # Errors
/// When the parent does not read any more.
pub fn reply(reply: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", to_json(reply)?)?;
    out.flush().context("the parent process has stopped reading")
}

/// How a child ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// The beginning of its standard error, trimmed.
    pub errors: String,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed ({})", self.status)?;
        match self.errors.lines().next() {
            Some(line) => write!(f, ": {line}"),
            None => Ok(()),
        }
    }
}

/// A child process. It is killed when this is dropped.
pub struct Child {
    process: process::Child,
    errors: Option<JoinHandle<String>>,
}

impl Child {
    /// Starts `command`, whose standard input and output the caller has set. Standard error is collected.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(mut command: Command) -> Result<Child> {
        let mut process = command.stderr(Stdio::piped()).spawn().context("cannot start a child process")?;
        let stderr = process.stderr.take();
        let mut child = Child { process, errors: None };
        let collect = |stderr| thread::Builder::new().spawn(move || collect(stderr)).context(NO_THREAD);
        child.errors = stderr.map(collect).transpose()?;
        Ok(child)
    }

    /// Waits until the child ends. Returns `None` when `progress` has returned the same value for the time `limit`; the
    /// child still runs then.
    ///
    /// # Errors
    /// When the operating system cannot wait for it.
    pub fn wait<P: PartialEq>(&mut self, limit: Duration, progress: impl Fn() -> P) -> Result<Option<End>> {
        let (mut last, mut since) = (progress(), Instant::now());
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(Some(self.end_with(status)));
            }
            let now = progress();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > limit {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns how the child ended, once it has closed its standard output. One that runs on is killed.
    fn end(&mut self) -> Result<End> {
        if let Some(end) = self.wait(CLOSING_TIME, || ())? {
            return Ok(end);
        }
        self.process.kill()?;
        let status = self.process.wait()?;
        Ok(self.end_with(status))
    }

    fn end_with(&mut self, status: ExitStatus) -> End {
        let errors = self.errors.take().and_then(|errors| errors.join().ok());
        End { status, errors: errors.unwrap_or_default() }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Fails only when the child has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the beginning of what a child writes to standard error, and discards the rest so that the child never
/// blocks.
fn collect(stderr: ChildStderr) -> String {
    let mut beginning = Vec::new();
    let mut stderr = stderr.take(MOST_ERROR_OUTPUT);
    // An unreadable message is left out of the report; the exit status remains.
    let _ = stderr.read_to_end(&mut beginning);
    let _ = io::copy(&mut stderr.into_inner(), &mut io::sink());
    String::from_utf8_lossy(&beginning).trim().to_owned()
}

/// A child that answers requests. It is killed when this is dropped.
pub struct Dialogue {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
}

impl Dialogue {
    /// Starts `command` with its standard input and output connected to this process.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(mut command: Command) -> Result<Dialogue> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Child::start(command)?;
        let requests = child.process.stdin.take().context("no standard input")?;
        let output = child.process.stdout.take().context("no standard output")?;
        let (sender, replies) = mpsc::channel();
        let pass_on = move || {
            // Sending fails once the receiver is dropped: then the replies are of no interest any more.
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        };
        thread::Builder::new().spawn(pass_on).context(NO_THREAD)?;
        Ok(Dialogue { child, requests, replies })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When the request has no form in JSON. A child that has ended is reported by [`Dialogue::receive`].
    pub fn send(&mut self, request: &impl Serialize) -> Result<()> {
        // Fails when the child has ended; receive() then reports how.
        let _ = writeln!(self.requests, "{}", to_json(request)?);
        Ok(())
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// When the child does not reply within `limit`, ends before it replies, or replies something else than a `T`.
    pub fn receive<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<T> {
        match self.replies.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).with_context(|| format!("an unexpected reply: {line:?}")),
            Err(RecvTimeoutError::Timeout) => bail!("did not answer within {} s", limit.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("{}", self.child.end()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn a_child_answers_line_by_line() {
        let mut dialogue = Dialogue::start(shell("while read line; do echo \"[$line, 1]\"; done")).unwrap();
        for request in [1, 2] {
            dialogue.send(&request).unwrap();
            assert_eq!(dialogue.receive::<[u64; 2]>(LIMIT).unwrap(), [request, 1]);
        }
    }

    #[test]
    fn a_child_that_fails_is_reported_with_its_status_and_first_line() {
        let mut dialogue = Dialogue::start(shell("echo lost >&2; echo more >&2; exit 3")).unwrap();
        let error = dialogue.receive::<u64>(LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "failed (exit status: 3): lost");
    }

    #[test]
    fn a_reply_of_another_type_and_a_late_one_are_errors() {
        let mut dialogue = Dialogue::start(shell("echo word; sleep 60")).unwrap();
        assert!(dialogue.receive::<u64>(LIMIT).unwrap_err().to_string().contains("word"));
        let late = dialogue.receive::<u64>(Duration::ZERO).unwrap_err();
        assert!(late.to_string().contains("did not answer"), "{late}");
    }

    #[test]
    fn a_child_without_progress_is_given_up_and_killed_on_drop() {
        let mut command = shell("exec sleep 60");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = Child::start(command).unwrap();
        assert!(child.wait(Duration::from_millis(20), || 0).unwrap().is_none());
        let id = child.process.id();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn much_error_output_does_not_block_a_child() {
        let mut command = shell("head -c 1000000 /dev/zero | tr '\\0' x >&2");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let end = Child::start(command).unwrap().wait(LIMIT, || ()).unwrap().unwrap();
        assert!(end.status.success());
        assert_eq!(end.errors.len() as u64, MOST_ERROR_OUTPUT);
    }
}
