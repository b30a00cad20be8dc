//! What programs notice of `--stop` that wait in a system call meanwhile. The list of calls is that of docs/inspect.md.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use heapwright_inspect::{Meanwhile, Wanted, picture_of};

/// Calls that the kernel restarts or lets wait on: the program does not notice.
const RESTARTED: [&str; 20] = [
    "nanosleep",
    "clock_nanosleep",
    "sleep",
    "read pipe",
    "read eventfd",
    "read timerfd",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "futex with timeout",
    "pthread_cond_timedwait",
    "sem_timedwait",
    "waitpid",
    "flock",
    "accept",
    "recv",
    "pause",
    "msgrcv",
    "mq_timedreceive",
];

/// Calls that return `EINTR` in the program.
const INTERRUPTED: [&str; 7] = [
    "epoll_wait",
    "epoll_pwait",
    "semtimedop",
    "sigtimedwait",
    "io_getevents",
    "accept with SO_RCVTIMEO",
    "recv with SO_RCVTIMEO",
];

/// How long each call waits.
const WAIT: Duration = Duration::from_secs(2);

static PROGRAM: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("waits");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waits.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source).arg("-lrt");
    assert!(compiler.status().unwrap().success());
    (folder, program)
});

struct Waiting {
    call: &'static str,
    child: Child,
    out: BufReader<ChildStdout>,
    began: Instant,
}

impl Waiting {
    fn start(call: &'static str) -> Waiting {
        let mut child = Command::new(&PROGRAM.1).arg(call).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{call}");
        Waiting { call, child, out, began: Instant::now() }
    }

    /// Returns how the call ended, and after how long.
    fn end(mut self) -> (&'static str, String, Duration) {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", self.call);
        (self.call, text.trim_end().to_owned(), self.began.elapsed())
    }
}

/// Starts a program per call, takes a picture of each while it waits, and returns how the calls ended.
fn seen_in(calls: &[&'static str], meanwhile: Meanwhile) -> Vec<(&'static str, String, Duration)> {
    LazyLock::force(&PROGRAM);
    let waiting: Vec<Waiting> = calls.iter().map(|call| Waiting::start(call)).collect();
    // By then they wait.
    sleep(Duration::from_millis(500));
    for one in &waiting {
        picture_of(one.child.id(), meanwhile, Wanted::Totals).unwrap();
    }
    waiting.into_iter().map(Waiting::end).collect()
}

#[test]
fn calls_that_are_restarted_wait_as_long_as_they_would() {
    for (call, text, time) in seen_in(&RESTARTED, Meanwhile::IsStopped) {
        assert_eq!(text, "waited", "{call}");
        // It may have begun before its "ready" was read.
        assert!(time >= WAIT * 9 / 10, "{call}: {time:?}");
    }
}

/// If a call is interrupted no longer, docs/inspect.md need not warn of it.
#[test]
fn calls_that_are_interrupted_return_eintr() {
    for (call, text, _) in seen_in(&INTERRUPTED, Meanwhile::IsStopped) {
        assert_eq!(text, "EINTR", "{call}");
    }
}

#[test]
fn without_stop_no_call_is_interrupted() {
    for (call, text, _) in seen_in(&INTERRUPTED, Meanwhile::Runs) {
        assert_eq!(text, "waited", "{call}");
    }
}
