//! What the tests of the command share.

use std::fs::{self, File};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use heapwright_trace::{About, Kind, Writer};

/// The command, with nothing in the environment that would change what it does, and no signals ignored, as they are for
/// tests that run under `nohup`, in the background of a script, or by Python (SIGPIPE and SIGXFSZ).
pub fn heapwright() -> Command {
    let mut command = Command::new(cargo_bin!("heapwright"));
    for variable in
        ["LD_PRELOAD", "HEAPWRIGHT_POLICY", "HEAPWRIGHT_RULES", "HEAPWRIGHT_STATS", "HEAPWRIGHT_LIBRARY", "NO_COLOR"]
    {
        command.env_remove(variable);
    }
    // SAFETY: between fork and exec only signal is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let ignored = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE, libc::SIGXFSZ];
            ignored.iter().for_each(|&signal| _ = libc::signal(signal, libc::SIG_DFL));
            Ok(())
        });
    }
    command
}

#[allow(unused_imports, reason = "each test file is a program of its own, and not all of them need this")]
pub use heapwright_testkit::library::{compiled, place_program};

/// A trace of `program` in which blocks of two call sites live and die.
#[allow(dead_code, reason = "each test file is a program of its own, and not all of them need this")]
pub fn trace_with_sites(path: &Path, program: &str) {
    let mut writer = Writer::new(fs::File::create(path).unwrap(), &About::of_program(program)).unwrap();
    let stacks = [&["a_function_with_quite_a_long_name", "main"][..], &["short", "a_caller_of_it", "main"]];
    let sites = stacks.map(|stack| writer.define_site(stack).unwrap());
    for size in 1..200 {
        writer.from_site(sites[size as usize % 2]).unwrap();
        let block = writer.allocate(Kind::Malloc, size * 16, 16).unwrap();
        if size % 3 == 0 {
            writer.free(block).unwrap();
        }
    }
    writer.finish().unwrap();
}

/// Makes a command start as the leader of a session on a new terminal, whose other side is returned.
#[allow(dead_code, reason = "each test file is a program of its own, and not all of them need this")]
pub fn put_on_terminal(command: &mut Command) -> File {
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both descriptors are written, and they are ours from then on.
    let (terminal, theirs) = unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut ours, &mut theirs, null, std::ptr::null(), &size), 0);
        // The terminal hangs up when no process has our side open.
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    // SAFETY: both calls are safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    terminal
}

/// Returns the interpreter that `python3` is, if its frames can be recorded.
#[allow(dead_code, reason = "each test file is a program of its own, and not all of them need this")]
pub fn python() -> Option<String> {
    let text = "import sys; print(sys.executable if (3, 11) <= sys.version_info < (3, 15) else '')";
    let output = Command::new("python3").args(["-c", text]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!path.is_empty()).then_some(path)
}
