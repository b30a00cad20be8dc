//! Starts and measures a program, from a process that is too small to affect its figures. Uses `fork`, not `vfork`: the
//! peak of resident memory of the child then begins with the few pages copied by `fork` instead of all pages of the
//! parent.

use std::ffi::{CString, OsString, c_char};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Instant;
use std::{env, fs, io, ptr};

/// The first argument of this program for [`launch()`].
pub const LAUNCH: &str = "launch";

/// The resources that a program used from its start to its end, including the children that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Processor time, user and system, in microseconds.
    pub cpu_us: u64,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// The peak of resident memory of any of its processes, in KiB.
    pub peak_kib: u64,
    /// The exit status as returned by `wait`.
    pub status: i32,
}

impl Spent {
    /// Parses a line of [`launch()`]; returns `None` if it is invalid.
    pub fn parse(line: &str) -> Option<Spent> {
        let mut numbers = line.split(' ');
        let spent = Spent {
            cpu_us: numbers.next()?.parse().ok()?,
            elapsed_ns: numbers.next()?.parse().ok()?,
            peak_kib: numbers.next()?.parse().ok()?,
            status: numbers.next()?.parse().ok()?,
        };
        numbers.next().is_none().then_some(spent)
    }

    fn line(&self) -> String {
        format!("{} {} {} {}", self.cpu_us, self.elapsed_ns, self.peak_kib, self.status)
    }
}

/// Runs a program `TIMES` times in sequence and writes a line of [`Spent`] per run to the file `REPORT`. The arguments
/// are `REPORT TIMES SECONDS [NAME=VALUE…] -- PROGRAM [ARGUMENT…]`. SIGALRM ends a run after `SECONDS` seconds. The
/// program inherits the standard streams of this process; standard input is rewound before each run.
///
/// # Errors
/// A description of invalid arguments, or of the failure to start the program.
pub fn launch(arguments: &[OsString]) -> Result<(), String> {
    let usage = || format!("{LAUNCH} REPORT TIMES SECONDS [NAME=VALUE…] -- PROGRAM [ARGUMENT…]");
    let [report, times, seconds, rest @ ..] = arguments else { return Err(usage()) };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u32>().ok()).ok_or_else(usage);
    let (times, seconds) = (number(times)?, number(seconds)?);
    let end = rest.iter().position(|argument| argument == "--").ok_or_else(usage)?;
    let (settings, command) = (&rest[..end], &rest[end + 1..]);
    if command.is_empty() {
        return Err(usage());
    }
    let launch = LaunchCommand::new(settings, command, seconds)?;
    let mut lines = String::new();
    for _ in 0..times {
        writeln!(lines, "{}", launch.run()?.line()).map_err(|error| error.to_string())?;
    }
    fs::write(report, lines).map_err(|error| format!("cannot write {}: {error}", report.display()))
}

/// The arguments of `execve`, allocated before the fork.
struct LaunchCommand {
    words: Vec<CString>,
    environment: Vec<CString>,
    seconds: u32,
}

impl LaunchCommand {
    /// Returns a command with the inherited environment, in which `settings` replace variables of the same name.
    fn new(settings: &[OsString], command: &[OsString], seconds: u32) -> Result<LaunchCommand, String> {
        let is_set = |name: &OsString| {
            let mut names = settings.iter().filter_map(|setting| setting.as_bytes().split(|&byte| byte == b'=').next());
            names.any(|other| other == name.as_bytes())
        };
        let inherited = env::vars_os().filter(|(name, _)| !is_set(name)).map(|(name, value)| {
            let mut setting = name;
            setting.push("=");
            setting.push(value);
            setting
        });
        let environment = settings.iter().cloned().chain(inherited);
        Ok(LaunchCommand {
            words: command.iter().cloned().map(text).collect::<Result<_, _>>()?,
            environment: environment.map(text).collect::<Result<_, _>>()?,
            seconds,
        })
    }

    fn run(&self) -> Result<Spent, String> {
        let (words, environment) = (pointers(&self.words), pointers(&self.environment));
        let start = Instant::now();
        // SAFETY: this process has a single thread, so that in the child no other thread can hold a lock.
        match unsafe { libc::fork() } {
            -1 => Err(format!("cannot start a process: {}", io::Error::last_os_error())),
            0 => self.exec(&words, &environment),
            child => wait_for(child, start),
        }
    }

    /// Replaces the child process by the program; exits with 127, as a shell does, if that fails.
    fn exec(&self, words: &[*const c_char], environment: &[*const c_char]) -> ! {
        // SAFETY: both lists end with null and contain pointers to live C strings; the other calls have no
        // preconditions.
        unsafe {
            libc::lseek(0, 0, libc::SEEK_SET);
            libc::alarm(self.seconds);
            libc::execve(words[0], words.as_ptr(), environment.as_ptr());
            libc::_exit(127)
        }
    }
}

fn text(text: OsString) -> Result<CString, String> {
    CString::new(text.into_vec()).map_err(|_| "an argument contains a zero byte".to_owned())
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

fn wait_for(child: libc::pid_t, start: Instant) -> Result<Spent, String> {
    // SAFETY: `rusage` has integers only, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: `status` and `usage` are valid for writes during the call.
    while unsafe { libc::wait4(child, &mut status, 0, &mut usage) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(format!("cannot wait for a process: {error}"));
        }
    }
    let elapsed = start.elapsed();
    let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Ok(Spent {
        cpu_us: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
        elapsed_ns: elapsed.as_nanos() as u64,
        peak_kib: usage.ru_maxrss as u64,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_replaces_an_inherited_variable() {
        let launch = LaunchCommand::new(&["PATH=/nowhere".into()], &["/bin/true".into()], 1).unwrap();
        let paths: Vec<_> = launch.environment.iter().filter(|text| text.as_bytes().starts_with(b"PATH=")).collect();
        assert_eq!(paths, [c"PATH=/nowhere"]);
    }

    #[test]
    fn lines_round_trip() {
        let spent = Spent { cpu_us: 1, elapsed_ns: 2, peak_kib: 3, status: 256 };
        assert_eq!(Spent::parse(&spent.line()), Some(spent));
        assert_eq!(Spent::parse("1 2 3"), None);
        assert_eq!(Spent::parse("1 2 3 4 5"), None);
    }
}
