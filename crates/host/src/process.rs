//! Processes, their users and their signals.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use signal_hook::low_level;

use crate::cleanup;
use crate::dispositions::was_ignored;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, geteuid, getpid, getrlimit, getsid, kill_process, kill_process_group, setrlimit,
    setsid,
};

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    geteuid().as_raw()
}

/// Sends `signal` to a child that has not been waited for. A child that has already ended is not an error.
pub fn send_signal(child: &Child, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // Fails only for a child that has ended.
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

/// Sends `signal` to a child that has not been waited for and to every process of its group.
pub fn send_signal_to_group(child: &Child, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // Fails only for a group whose processes have all ended.
        let _ = kill_process_group(Pid::from_child(child), signal);
    }
}

/// Returns the name that the system gives a process: that of the file that it executed last, or the one that the
/// process gave itself; the first [`LONGEST_NAME`] bytes. Processes that have ended and were not waited for still have
/// it.
pub fn name_of(pid: u32) -> Option<OsString> {
    let mut name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    name.pop_if(|last| *last == b'\n');
    Some(OsString::from_vec(name))
}

/// Returns why this process cannot read of any process, itself included, and what to do; `None` where it can.
pub fn why_unlisted() -> Option<&'static str> {
    const REASON: &str = "processes are read by /proc, and it is not mounted here: `mount -t proc proc /proc`";
    (!Path::new("/proc/self/stat").exists()).then_some(REASON)
}

/// The length to which the system cuts the names of processes, in bytes.
pub const LONGEST_NAME: usize = 15;

/// Makes `command` start in a session of its own, without a terminal.
pub fn start_in_own_session(command: &mut Command) {
    // SAFETY: between fork and exec only setsid is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            // A new process leads no group, so that setsid cannot fail.
            let _ = setsid();
            Ok(())
        });
    }
}

/// Makes `command` start with transparent huge pages turned off for its process.
pub fn start_without_huge_pages(command: &mut Command) {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Makes writes to closed pipes, and beyond the limit on the size of files, fail instead of ending this process by a
/// signal, so that it can remove its temporary files. Programs that it starts have the default actions.
///
/// # Errors
/// When the system refuses the handlers.
pub fn let_writes_fail() -> io::Result<()> {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: the handler does nothing.
        unsafe { low_level::register(signal, || ()) }?;
    }
    Ok(())
}

/// Returns `signals` without SIGHUP where that is ignored, as under `nohup`: it stays so, in this process and in the
/// programs that it starts. (SIGINT is different: shells have it ignored in all commands that scripts start in the
/// background.)
pub fn without_ignored_hangup(signals: &[i32]) -> Vec<i32> {
    let is_ignored = was_ignored(libc::SIGHUP);
    signals.iter().copied().filter(|&signal| signal != libc::SIGHUP || !is_ignored).collect()
}

/// Returns whether this process leads its session: of the processes of a terminal, it alone is told when that hangs up.
pub fn leads_its_session() -> bool {
    getsid(None).is_ok_and(|session| session == getpid())
}

/// Returns why an output cannot be written. If that is a closed pipe, this process ends by SIGPIPE instead, as any
/// other program does, without its temporary files.
pub fn reason_of_failed_write(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe => {
            cleanup::remove_all();
            end_by_signal(libc::SIGPIPE);
            error.to_string()
        }
        // As `let_output_without_a_place_fail` has it.
        io::ErrorKind::NotConnected => "it is closed".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns whether the system refused to execute a file because it knows no such format (`ENOEXEC`).
pub fn is_of_no_known_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOEXEC)
}

/// Returns the length to which files of this process and those that it starts are limited, in bytes.
pub fn longest_file() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Ends this process by `signal`, without a core file. Returns only if the signal does not end it.
pub fn end_by_signal(signal: i32) {
    // If the limit cannot be set, the only effect is a core file.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: the default action runs no code of this process, and raise has no preconditions.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Runs `start` with all signals blocked in this thread. Threads that `start` creates inherit the mask, so that signals
/// reach the threads that wait for them. A write beyond the limit on file sizes then fails in such a thread instead of
/// ending the process.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets are plain integers, for which zeroes are valid, and are filled before use; a thread's mask is
    // its own.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

/// Page faults of this process since it began.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Those that found their page in memory.
    pub minor: u64,
    /// Those that waited for a disk.
    pub major: u64,
}

impl Faults {
    /// Returns the page faults so far.
    pub fn so_far() -> Faults {
        // SAFETY: rusage consists of integers, so all zeroes is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: getrusage writes one rusage to the pointer, which is valid for that.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        Faults { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
    }
}

/// Returns the number of threads of this process, without allocating; `None` when /proc does not contain it.
pub fn thread_count() -> Option<usize> {
    let file = File::open("/proc/self/stat").ok()?;
    let mut buffer = [0; 1024];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let text = &buffer[..length];
    // The second field is the command's name in parentheses, which may hold anything.
    let behind_name = &text[text.iter().rposition(|&byte| byte == b')')? + 1..];
    let count = behind_name.trim_ascii_start().split(|&byte| byte == b' ').nth(17)?;
    std::str::from_utf8(count).ok()?.parse().ok()
}

/// Whether `signal` is SIGALRM.
pub fn is_alarm(signal: i32) -> bool {
    signal == libc::SIGALRM
}

/// Returns whether `code` is the error of a wait that timed out.
pub fn is_timeout(code: i32) -> bool {
    io::Error::from_raw_os_error(code).kind() == io::ErrorKind::TimedOut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receiver.recv());
        assert!(thread_count().unwrap() >= 2);
        drop(sender);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn huge_pages_are_off_in_a_command_that_is_started_without() {
        let mut command = Command::new("grep");
        command.args(["THP_enabled", "/proc/self/status"]);
        start_without_huge_pages(&mut command);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        // Older kernels do not report it.
        assert!(text.is_empty() || text.trim().ends_with('0'), "{text}");
    }
}
