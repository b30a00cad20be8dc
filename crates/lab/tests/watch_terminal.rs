//! `heapwright watch` on a real terminal: what it takes it gives back.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{heapwright, put_on_terminal};

/// What a terminal is told when a program takes the whole screen, and when it gives it back.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// Nothing takes longer than this, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of 80 columns and 24 rows, and the command on it.
struct Session {
    terminal: File,
    child: Child,
    before: libc::termios,
    /// What was written to the terminal.
    shown: String,
    pieces: Receiver<Vec<u8>>,
}

fn attributes(terminal: &impl AsRawFd) -> libc::termios {
    // SAFETY: attributes are plain integers; the call fills them or fails.
    unsafe {
        let mut found = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut found), 0);
        found
    }
}

impl Session {
    fn start(arguments: &[&str]) -> Session {
        let mut command = heapwright();
        command.arg("watch").args(arguments);
        Session::start_command(command)
    }

    fn start_command(mut command: Command) -> Session {
        let terminal = put_on_terminal(command.env("TERM", "xterm-256color"));
        let before = attributes(&terminal);
        let child = command.spawn().unwrap();
        drop(command);
        let (sender, pieces) = channel();
        let mut reader = terminal.try_clone().unwrap();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that no process has open any more cannot be read.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Session { terminal, child, before, shown: String::new(), pieces }
    }

    /// Waits until `text` has been written since the last wait: a word, since only what changes is written.
    fn wait_for(&mut self, text: &str) {
        let start = Instant::now();
        while !self.shown.contains(text) {
            let left =
                PATIENCE.checked_sub(start.elapsed()).unwrap_or_else(|| panic!("no {text:?} in {:?}", self.shown));
            match self.pieces.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("no {text:?} in {:?}", self.shown),
            }
        }
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end, and checks that the terminal is as it was.
    fn end(mut self) -> ExitStatus {
        self.wait_for(GIVEN_BACK);
        let status = self.child.wait().unwrap();
        let after = attributes(&self.terminal);
        assert_eq!(
            (after.c_lflag, after.c_iflag, after.c_oflag),
            (self.before.c_lflag, self.before.c_iflag, self.before.c_oflag)
        );
        status
    }
}

const LOOP: [&str; 4] = ["--", "sh", "-c", "echo begun; while :; do sleep 0.05; done"];

#[test]
fn q_asks_and_then_ends_the_program() {
    let mut session = Session::start(&LOOP);
    session.wait_for(TAKEN);
    session.wait_for("running");
    session.wait_for("begun");
    session.press("q");
    session.wait_for("runs.");
    session.press("e");
    assert_eq!(session.end().signal(), Some(libc::SIGTERM));
}

#[test]
fn a_program_that_ended_is_shown_until_q_and_its_exit_code_passed_on() {
    let mut session = Session::start(&["-p", "worst", "--", "sh", "-c", "exit 7"]);
    session.wait_for(TAKEN);
    session.wait_for("code");
    session.press("q");
    assert_eq!(session.end().code(), Some(7));
}

/// Stopped by Ctrl-Z or a signal, the shell has the terminal as it was; continued, the command takes it again, and the
/// keys work, in any mode in which the shell has left it.
#[test]
fn a_shell_stops_and_continues_it() {
    for signal in [None, Some(libc::SIGTSTP), Some(libc::SIGSTOP)] {
        let hw = heapwright();
        let mut shell = Command::new("sh");
        let script = "set -m; \"$0\" watch \"$@\"; echo stopped with $?; read word; stty sane; fg %1; echo with $?";
        shell.args(["-c", script]).arg(hw.get_program()).args(LOOP);
        let mut session = Session::start_command(shell);
        session.wait_for(TAKEN);
        session.wait_for("begun");
        match signal {
            None => session.press("\x1a"),
            Some(signal) => {
                // SAFETY: an integer is written.
                let group = unsafe { libc::tcgetpgrp(session.terminal.as_raw_fd()) };
                // SAFETY: kill has no preconditions.
                assert_eq!(unsafe { libc::kill(group, signal) }, 0);
            }
        }
        // SIGSTOP is not heard of, and the shell has to repair the terminal.
        if signal != Some(libc::SIGSTOP) {
            session.wait_for(GIVEN_BACK);
            assert_eq!(attributes(&session.terminal).c_lflag, session.before.c_lflag);
        }
        session.wait_for("stopped with 14");
        session.press("on\n");
        session.wait_for(TAKEN);
        session.wait_for("begun");
        session.press("q");
        session.wait_for("runs.");
        session.press("e");
        session.wait_for(GIVEN_BACK);
        session.wait_for("with 143");
        assert!(session.child.wait().unwrap().success());
    }
}

/// As the only program of a container, or that of a script there.
#[test]
fn without_a_shell_that_could_continue_it_ctrl_z_does_nothing() {
    let mut script = Command::new("sh");
    script.args(["-c", "\"$0\" watch \"$@\"; exit $?"]).arg(heapwright().get_program()).args(LOOP);
    for (mut session, status) in [(Session::start(&LOOP), None), (Session::start_command(script), Some(143))] {
        session.wait_for("begun");
        session.press("\x1a");
        session.wait_for(GIVEN_BACK);
        session.wait_for(TAKEN);
        session.press("q");
        session.wait_for("runs.");
        session.press("e");
        assert_eq!(session.end().code(), status);
    }
}

#[test]
fn ctrl_backslash_ends_it_as_on_every_terminal() {
    let mut session = Session::start(&LOOP);
    session.wait_for("begun");
    session.press("\x1c");
    assert_eq!(session.end().signal(), Some(libc::SIGQUIT));
}

#[test]
fn a_signal_restores_the_terminal() {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let mut session = Session::start(&LOOP);
        session.wait_for("begun");
        // SAFETY: kill has no preconditions, and the child has not been waited for.
        unsafe { libc::kill(session.child.id() as libc::pid_t, signal) };
        assert_eq!(session.end().signal(), Some(signal));
    }
}

#[test]
fn a_program_that_cannot_be_started_is_reported_on_the_restored_terminal() {
    let mut session = Session::start(&["--", "no-such-program"]);
    session.wait_for(GIVEN_BACK);
    session.wait_for("no such program");
    assert_eq!(session.child.wait().unwrap().code(), Some(127));
}

#[test]
fn a_quiz_asks_and_judges_the_guess() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/sqlite.hwt");
    let mut session = Session::start(&[trace, "-p", "first", "--quiz"]);
    session.wait_for("first fit take?");
    // The lowest hole that fits is chosen at first.
    session.press("\r");
    session.wait_for("Right.");
    session.press("\r");
    session.wait_for("take?");
    session.press("2\r");
    session.wait_for("Wrong");
    session.press("q");
    assert_eq!(session.end().code(), Some(0));
}

#[test]
fn a_trace_is_played_stepped_and_quit() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/sqlite.hwt");
    let mut session = Session::start(&[trace, "-p", "best", "--at", "99"]);
    session.wait_for("paused");
    session.press("\x1b[C");
    session.wait_for("100");
    session.press("q");
    assert_eq!(session.end().code(), Some(0));
}
