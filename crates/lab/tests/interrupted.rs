//! A signal keeps what was written before, removes temporary files, and is the exit code.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use heapwright_trace::{About, Kind, Writer};
use tempfile::TempDir;

mod common;

fn start(folder: &Path, words: &[&str]) -> Child {
    let mut command = common::heapwright();
    command.args(words).current_dir(folder).env("TMPDIR", folder.join("tmp"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn under_nohup_neither_the_command_nor_its_program_ends_by_a_hangup() {
    let folder = folder();
    let ready = folder.path().join("ready");
    let program = "grep SigIgn /proc/self/status > signals; echo > ready; sleep 1; echo done";
    for words in [&["run"][..], &["record", "-o", "n.hwt"]] {
        let mut command = common::heapwright();
        command.args(words).args(["--", "sh", "-c", program]).current_dir(folder.path());
        ignore(&mut command, &[libc::SIGHUP]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| ready.exists());
        kill(&child, libc::SIGHUP);
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(output.status), output.stdout.as_slice()), (0, &b"done\n"[..]), "{words:?}");
        let ignored = fs::read_to_string(folder.path().join("signals")).unwrap();
        assert_eq!(u64::from_str_radix(ignored.split_whitespace().nth(1).unwrap(), 16).unwrap() & 1, 1);
        fs::remove_file(&ready).unwrap();
    }
}

/// Makes a command start with signals ignored, as a script has it for what runs in the background.
fn ignore(command: &mut Command, signals: &'static [i32]) {
    // SAFETY: between fork and exec only signal is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            signals.iter().for_each(|&signal| _ = libc::signal(signal, libc::SIG_IGN));
            Ok(())
        });
    }
}

/// A program finds the signals ignored that it would find ignored without the command. A command whose children are
/// not told of (SIGCHLD is ignored) waits for them all the same.
#[test]
fn what_is_ignored_when_a_command_begins_is_ignored_in_its_program() {
    const IGNORED: [i32; 5] = [libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGPIPE, libc::SIGCHLD];
    let folder = folder();
    let mask = |status: &str| {
        let line = status.lines().find(|line| line.starts_with("SigIgn")).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    let bits = IGNORED.iter().fold(0, |all, signal| all | 1 << (signal - 1));
    for words in [&["run"][..], &["record", "-o", "i.hwt"], &["watch", "--once"]] {
        let mut command = common::heapwright();
        command
            .args(words)
            .args(["--", "cp", "/proc/self/status", "signals"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ignore(command.current_dir(folder.path()), &IGNORED);
        let mut child = command.spawn().unwrap();
        wait_until(|| child.try_wait().unwrap().is_some());
        assert_eq!(code(child.wait().unwrap()), 0, "{words:?}");
        let found = mask(&fs::read_to_string(folder.path().join("signals")).unwrap());
        assert_eq!(found & bits, bits, "{words:?}: {found:x}");
        fs::remove_file(folder.path().join("signals")).unwrap();
    }
}

/// The terminal tells the leader of its session only.
#[test]
fn a_terminal_that_hangs_up_ends_the_command_and_its_program() {
    let folder = folder();
    let ready = folder.path().join("ready");
    for words in [&["run"][..], &["record", "-o", "h.hwt"]] {
        let mut command = common::heapwright();
        command.args(words).args(["--", "sh", "-c", "echo $$ > ready.new; mv ready.new ready; exec sleep 60"]);
        let terminal = common::put_on_terminal(command.current_dir(folder.path()));
        let mut child = command.spawn().unwrap();
        drop(command);
        wait_until(|| ready.exists());
        drop(terminal);
        let status = child.wait().unwrap();
        // Nothing can be written to the terminal any more.
        assert!(!status.success(), "{words:?}: {status}");
        let program: libc::pid_t = fs::read_to_string(&ready).unwrap().trim().parse().unwrap();
        // SAFETY: the system only checks whether there is such a process.
        assert_eq!(unsafe { libc::kill(program, 0) }, -1, "{words:?}");
        fs::remove_file(&ready).unwrap();
    }
}

fn kill(child: &Child, signal: i32) {
    // SAFETY: kill has no preconditions, and the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "it took too long");
        sleep(Duration::from_millis(10));
    }
}

/// As a shell sees it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    let file = fs::File::create(folder.path().join("t")).unwrap();
    let mut writer = Writer::new(file, &About::of_program("small")).unwrap();
    for size in 1..5000 {
        writer.allocate(Kind::Malloc, size, 16).unwrap();
    }
    writer.finish().unwrap();
    folder
}

#[test]
fn an_output_in_progress_is_removed_and_the_older_file_stays() {
    for (signal, expected) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let folder = folder();
        let before = fs::read(folder.path().join("t")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
        let child = start(folder.path(), &["import", "--from", "csv", "pipe", "-o", "t"]);
        // Held open, so that the source does not end.
        let source = fs::File::options().write(true).open(folder.path().join("pipe")).unwrap();
        wait_until(|| names(folder.path()).iter().any(|name| name.starts_with(".heapwright-")));
        sleep(Duration::from_millis(100));
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        drop(source);
        assert_eq!(code(output.status), expected);
        assert_eq!(names(folder.path()), ["pipe", "t", "tmp"]);
        assert_eq!(fs::read(folder.path().join("t")).unwrap(), before);
    }
}

#[test]
fn a_minimization_keeps_the_smallest_trace_so_far() {
    let folder = folder();
    let tried = TempDir::new().unwrap();
    let tries = tried.path().join("tries");
    let test = format!("echo >> {}; sleep 0.02; test $(wc -c < {{}}) -lt 3000", tries.display());
    let child = start(folder.path(), &["minimize", "t", "-o", "small.hwt", "--command", &test]);
    wait_until(|| fs::read(&tries).is_ok_and(|tries| tries.len() >= 20));
    kill(&child, libc::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(code(output.status), 143, "{out}{error}");
    assert!(out.contains("the search was interrupted"), "{out}");
    assert_eq!(names(folder.path()), ["small.hwt", "t", "tmp"]);
    assert_eq!(names(&folder.path().join("tmp")), Vec::<String>::new());
    assert!(fs::read(folder.path().join("small.hwt")).unwrap().starts_with(b"hwtrace"));
}

#[test]
fn a_signal_that_is_sent_twice_in_a_moment_is_one_request() {
    for pause in [Duration::from_micros(200), Duration::from_millis(5), Duration::from_millis(50)] {
        let folder = folder();
        let tries = folder.path().join("tries");
        let test = format!("echo >> {}; sleep 0.1; test $(wc -c < {{}}) -lt 3000", tries.display());
        let child = start(folder.path(), &["minimize", "t", "-o", "small.hwt", "--command", &test]);
        wait_until(|| fs::read(&tries).is_ok_and(|tries| tries.len() >= 5));
        kill(&child, libc::SIGTERM);
        sleep(pause);
        kill(&child, libc::SIGTERM);
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(code(output.status), 143, "{pause:?}: {out}{}", String::from_utf8_lossy(&output.stderr));
        assert!(out.contains("the search was interrupted"), "{pause:?}: {out}");
        assert_eq!(names(folder.path()), ["small.hwt", "t", "tmp", "tries"]);
    }
}

#[test]
fn a_second_signal_ends_the_command_at_once_and_leaves_no_temporary_files() {
    let folder = folder();
    let words = ["minimize", "t", "-o", "small.hwt", "--command", "sleep 20; test ! -s {}"];
    let mut child = start(folder.path(), &words);
    wait_until(|| !names(&folder.path().join("tmp")).is_empty());
    sleep(Duration::from_millis(300));
    let start = Instant::now();
    // A signal that is not delivered yet is lost when it is sent again. One signal alone would wait for the command.
    while child.try_wait().unwrap().is_none() {
        kill(&child, libc::SIGINT);
        sleep(Duration::from_millis(200));
    }
    assert_eq!(code(child.wait().unwrap()), 130);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(names(&folder.path().join("tmp")), Vec::<String>::new());
}

#[test]
fn a_signal_to_a_watcher_that_prints_one_picture_ends_its_program() {
    for (signal, expected) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let folder = folder();
        let began = folder.path().join("began");
        let program = format!("echo > '{}'; exec sleep 60", began.display());
        let child = start(folder.path(), &["watch", "--once", "--after", "50", "--", "sh", "-c", &program]);
        wait_until(|| began.exists());
        sleep(Duration::from_millis(500));
        let asked = Instant::now();
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(output.status), expected, "{}", String::from_utf8_lossy(&output.stderr));
        assert!(asked.elapsed() < Duration::from_secs(30));
        // The libraries stay for the next command.
        let left = names(&folder.path().join("tmp"));
        assert!(left.iter().all(|name| !name.contains("watch")), "{left:?}");
    }
}

#[test]
fn a_signal_to_a_comparison_that_records_ends_it_and_keeps_the_recording() {
    for (signal, expected) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        for (keep, kept) in [
            (&["--keep-trace", "kept.hwt"][..], "nothing is compared, and kept.hwt keeps what was recorded"),
            (&[], "nothing is compared, and the recording is not kept (--keep-trace FILE keeps it)"),
        ] {
            let folder = folder();
            let began = folder.path().join("began");
            let words = [&["compare", "--policies-only", "-p", "first"], keep, &["--", "sh", "-c"]].concat();
            let child = start(folder.path(), &[&words[..], &["echo > began; exec sleep 60"]].concat());
            wait_until(|| began.exists());
            sleep(Duration::from_millis(300));
            kill(&child, signal);
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!((code(output.status), output.stdout.len()), (expected, 0), "{said}");
            let interrupted = format!("heapwright: interrupted while the program ran: {kept}");
            assert_eq!(said.lines().last(), Some(interrupted.as_str()), "{said}");
            assert_eq!(folder.path().join("kept.hwt").exists(), !keep.is_empty());
            let left = names(&folder.path().join("tmp"));
            assert!(left.iter().all(|name| !name.contains("compare")), "{left:?}");
        }
    }
}
