//! A program, started by a process too small to be seen in its figures. It is forked, not started by `vfork`: then the kernel's high water for it
//! begins with the few pages that were copied, and not with all of its parent's.

use std::ffi::{CString, OsString, c_char};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Instant;
use std::{env, fs, io, ptr};

/// The argument with which this program starts another.
pub const LAUNCH: &str = "launch";

/// What a program took, from its start until it was waited for, with all the children that it waited for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Processor time, user and system, in microseconds.
    pub cpu_us: u64,
    /// Time that passed, in nanoseconds.
    pub elapsed_ns: u64,
    /// The most resident memory of any of its processes, in KiB.
    pub peak_kib: u64,
    /// How it ended, as `wait` says it.
    pub status: i32,
}

impl Spent {
    /// What [`launch`] wrote in a line, or `None` if it did not.
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

/// Starts a program so many times, one after the other, and writes a line of [`Spent`] for each to the file `REPORT`:
/// `REPORT TIMES SECONDS [NAME=VALUE…] -- PROGRAM [ARGUMENT…]`. What runs longer than so many seconds is ended by SIGALRM. The program has this
/// process' standard streams, its input from the beginning every time.
///
/// # Errors
/// What is wrong with the arguments, or why nothing can be started.
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
    let program = Program::new(settings, command, seconds)?;
    let mut lines = String::new();
    for _ in 0..times {
        writeln!(lines, "{}", program.run()?.line()).map_err(|error| error.to_string())?;
    }
    fs::write(report, lines).map_err(|error| format!("cannot write {}: {error}", report.display()))
}

/// All that `execve` needs, made before the fork.
struct Program {
    words: Vec<CString>,
    environment: Vec<CString>,
    seconds: u32,
}

impl Program {
    /// A setting takes the place of what is inherited under its name.
    fn new(settings: &[OsString], command: &[OsString], seconds: u32) -> Result<Program, String> {
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
        Ok(Program {
            words: command.iter().cloned().map(text).collect::<Result<_, _>>()?,
            environment: environment.map(text).collect::<Result<_, _>>()?,
            seconds,
        })
    }

    fn run(&self) -> Result<Spent, String> {
        let (words, environment) = (pointers(&self.words), pointers(&self.environment));
        let start = Instant::now();
        // SAFETY: this process has one thread, so that the child may do whatever the parent may.
        match unsafe { libc::fork() } {
            -1 => Err(format!("cannot start a process: {}", io::Error::last_os_error())),
            0 => self.become_it(&words, &environment),
            child => wait_for(child, start),
        }
    }

    /// In the child: becomes the program, or ends as a shell does that cannot find one.
    fn become_it(&self, words: &[*const c_char], environment: &[*const c_char]) -> ! {
        // SAFETY: the lists end with null and hold strings that end with zero; the other calls have no preconditions.
        unsafe {
            libc::lseek(0, 0, libc::SEEK_SET);
            libc::alarm(self.seconds);
            libc::execve(words[0], words.as_ptr(), environment.as_ptr());
            libc::_exit(127)
        }
    }
}

fn text(text: OsString) -> Result<CString, String> {
    CString::new(text.into_vec()).map_err(|_| "an argument has a zero byte".to_owned())
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

fn wait_for(child: libc::pid_t, start: Instant) -> Result<Spent, String> {
    // SAFETY: all zeroes is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both are ours to write, and nobody else waits for this child.
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
    fn a_setting_takes_the_place_of_what_is_inherited() {
        let program = Program::new(&["PATH=/nowhere".into()], &["/bin/true".into()], 1).unwrap();
        let paths: Vec<_> = program.environment.iter().filter(|text| text.as_bytes().starts_with(b"PATH=")).collect();
        assert_eq!(paths, [c"PATH=/nowhere"]);
    }

    #[test]
    fn what_is_written_is_read() {
        let spent = Spent { cpu_us: 1, elapsed_ns: 2, peak_kib: 3, status: 256 };
        assert_eq!(Spent::parse(&spent.line()), Some(spent));
        assert_eq!(Spent::parse("1 2 3"), None);
        assert_eq!(Spent::parse("1 2 3 4 5"), None);
    }
}
