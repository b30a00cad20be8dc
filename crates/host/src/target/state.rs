//! Whether a process can be read at all, and why not.

use std::fs;
use std::io;

use anyhow::{Error, Result, anyhow, bail};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

use crate::names::printable;
use crate::process::why_unlisted;

/// Bit of a process's flags: it is a thread of the kernel.
const OF_KERNEL: u64 = 0x0020_0000;

/// A process or a thread, as the kernel describes it.
struct Task {
    /// Its state: `R`, `S`, `Z`...
    state: char,
    /// The number of the process that started it.
    parent: u32,
    flags: u64,
}

impl Task {
    /// Reads a `stat`; `None` when there is none.
    fn read(path: &str) -> Option<Task> {
        let stat = fs::read(path).ok()?;
        // The name in front may contain anything.
        let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let fields = String::from_utf8_lossy(&stat[behind_name..]).into_owned();
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        Some(Task { state, parent: fields.get(1)?.parse().ok()?, flags: fields.get(6)?.parse().ok()? })
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Returns the thread by which the memory of process `pid` can be reached: the main thread, or another if that has
/// ended.
///
/// # Errors
/// When there is no such process, or it has no memory.
pub(super) fn reader_of(pid: u32) -> Result<u32> {
    let Some(task) = Task::read(&format!("/proc/{pid}/stat")) else { return Err(not_listed(pid)) };
    let process = process_of(pid).unwrap_or(pid);
    if process != pid {
        bail!("{pid} is a thread of process {}: give the number of the process", named(process));
    }
    if task.flags & OF_KERNEL != 0 {
        bail!("process {} is a thread of the kernel: it has no memory of its own", named(pid));
    }
    if !task.has_ended() {
        return Ok(pid);
    }
    let mut others = threads(pid).unwrap_or_default().into_iter();
    others.find(|thread| is_alive(pid, *thread)).ok_or_else(|| ended(pid))
}

/// Returns why /proc does not have process `pid`.
fn not_listed(pid: u32) -> Error {
    if let Some(reason) = why_unlisted() {
        return Error::msg(reason);
    }
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match raw.map(test_kill_process) {
        Some(Ok(()) | Err(Errno::PERM)) => {
            anyhow!(
                "process {pid} is hidden from this user (/proc is mounted with hidepid): ask as its user, or as root"
            )
        }
        _ => anyhow!("there is no process {pid}"),
    }
}

/// Returns the numbers of the threads of process `pid`.
pub(super) fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the state of a thread.
pub(super) fn state_of(pid: u32, thread: u32) -> Option<char> {
    Task::read(&format!("/proc/{pid}/task/{thread}/stat")).map(|task| task.state)
}

/// Returns whether a thread exists and has not ended.
pub(super) fn is_alive(pid: u32, thread: u32) -> bool {
    Task::read(&format!("/proc/{pid}/task/{thread}/stat")).is_some_and(|task| !task.has_ended())
}

/// Returns why the process has no memory to read.
pub(super) fn ended(pid: u32) -> Error {
    match Task::read(&format!("/proc/{pid}/stat")) {
        Some(task) if task.has_ended() => anyhow!(
            "process {} has ended: it has no memory any more, and stays listed until its parent, process {}, asks for \
             its exit code",
            named(pid),
            named(task.parent)
        ),
        _ => anyhow!("process {pid} has ended"),
    }
}

/// Returns what an error of reading process `pid` means.
pub(super) fn denied(pid: u32, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::msg(remedy(pid)),
        io::ErrorKind::NotFound => ended(pid),
        _ if error.raw_os_error() == Some(libc::ESRCH) => ended(pid),
        _ => anyhow!("process {pid} cannot be read: {error}"),
    }
}

/// Returns why a thread of process `pid` cannot be stopped.
pub(super) fn not_stopped(pid: u32, thread: u32, error: &io::Error) -> Error {
    let tracer = number(&format!("/proc/{pid}/task/{thread}/status"), "TracerPid:").filter(|tracer| *tracer != 0);
    // One of the tracer's threads.
    let tracer = tracer.map(|tracer| process_of(tracer).unwrap_or(tracer));
    match tracer {
        Some(tracer) if error.kind() == io::ErrorKind::PermissionDenied => anyhow!(
            "process {} cannot be stopped: process {} traces it, and the system permits one tracer. Let that detach or \
             end it, or leave out --stop",
            named(pid),
            named(tracer)
        ),
        _ => denied(pid, error),
    }
}

/// Returns how to be permitted to read process `pid`.
pub(super) fn remedy(pid: u32) -> String {
    let advice = if is_capable_of_tracing() {
        "it is in a user namespace that is not below this command's, or a security module such as Yama forbids it, \
         although this command has CAP_SYS_PTRACE"
    } else if geteuid().is_root() {
        "root, too, needs CAP_SYS_PTRACE for it; a container has that when it is started with --cap-add=SYS_PTRACE"
    } else {
        "run this command as root or with CAP_SYS_PTRACE; as the same user it works where \
         /proc/sys/kernel/yama/ptrace_scope is 0"
    };
    format!("the system does not permit reading process {}: {advice}", named(pid))
}

/// Returns whether this process has CAP_SYS_PTRACE. Root is often without it in a container.
fn is_capable_of_tracing() -> bool {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|capabilities| capabilities & CAP_SYS_PTRACE != 0)
}

/// Returns a process's number and its name.
fn named(pid: u32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{pid} ({})", printable(&name)),
        Err(_) => pid.to_string(),
    }
}

/// Returns the process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    number(&format!("/proc/{thread}/status"), "Tgid:")
}

/// Returns a number from a `status`.
fn number(path: &str, key: &str) -> Option<u32> {
    let status = fs::read(path).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}
