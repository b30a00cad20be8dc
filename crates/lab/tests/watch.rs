//! `heapwright watch` sees the heap of a process as the process itself does.

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{compiled, heapwright};
use serde_json::Value;

/// Makes holes, allocates a block of each number of MiB in its arguments and frees the first of them, prints the
/// figures of its heap, waits for its input to end, and exits with 3. The argument `phases` makes it allocate two kinds
/// of blocks one after the other, and keep one in 25 of the first.
const HOLDER: &str = r#"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *blocks[3000];
static void *longer[10];
static void *phase[300000];
static void allocate_in_phases(void) {
    for (int i = 0; i < 300000; i++) phase[i] = malloc(40);
    for (int i = 0; i < 300000; i++) if (i % 25) free(phase[i]);
    for (int i = 0; i < 20000; i++) if (i % 25) phase[i] = malloc(400);
}
int main(int argc, char **argv) {
    char line[200];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    for (int i = 0; i < 3000; i++) blocks[i] = malloc(100 + i % 700);
    for (int i = 0; i < 3000; i += 3) free(blocks[i]);
    if (argc == 2 && !strcmp(argv[1], "phases")) {
        allocate_in_phases();
        argc = 1;
    }
    for (int i = 1; i < argc; i++) {
        size_t bytes = (size_t)atol(argv[i]) << 20;
        longer[i] = realloc(malloc(bytes), 2 * bytes);
    }
    free(longer[1]);
    struct mallinfo2 found = mallinfo2();
    snprintf(line, sizeof line, "%d %zu %zu %zu %zu %zu\n", getpid(), found.arena + found.hblkhd,
             found.uordblks + found.hblkhd, found.fordblks, found.ordblks, found.fsmblks);
    write(1, line, strlen(line));
    while (read(0, line, 1) > 0) {}
    return 3;
}
"#;

/// A program that has said what its heap is like.
struct Holder {
    child: Child,
    pid: u64,
    heap_size: u64,
    live: u64,
    /// In holes and, of the cached heap, in slabs.
    free_bytes: u64,
    holes: u64,
    /// In threads' lists.
    listed_bytes: u64,
}

impl Holder {
    fn start(mut command: Command) -> Holder {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [pid, heap_size, live, free_bytes, holes, listed_bytes] = told[..] else { panic!("{line}") };
        Holder { child, pid, heap_size, live, free_bytes, holes, listed_bytes }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn holder(folder: &Path) -> std::path::PathBuf {
    compiled(folder, "holder", HOLDER, &["-O0", "-w"])
}

fn watch(arguments: &[&str]) -> Output {
    heapwright().arg("watch").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn row(output: &Output) -> Value {
    let parsed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    parsed["results"][0].clone()
}

#[test]
fn samples_agree_with_the_process_under_every_policy() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    for policy in ["first", "next", "best", "worst", "random", "buddy", "good", "mapped"] {
        let mut command = heapwright();
        command.args(["run", "-p", policy, "--"]).arg(&program);
        let holder = Holder::start(command);
        let output = watch(&["--once", "--json", "--pid", &holder.pid.to_string()]);
        let row = row(&output);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!((&row["policy"], &row["program"], &row["sharp"]), (&policy.into(), &"holder".into(), &true.into()));
        assert_eq!(row["pid"], holder.pid);
        assert_eq!(row["heap_size"], holder.heap_size, "{policy}");
        assert_eq!(row["live"], holder.live, "{policy}");
        assert_eq!(row["hole_bytes"], holder.free_bytes, "{policy}");
        assert_eq!(row["holes"], holder.holes, "{policy}");
        assert_eq!(row["mallocs"].as_u64().unwrap() - row["frees"].as_u64().unwrap(), used(&row), "{policy}");
    }
}

#[test]
fn samples_of_the_cached_heap_agree_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = heapwright();
    command.args(["run", "-p", "cached", "--"]).arg(holder(folder.path()));
    let holder = Holder::start(command);
    let row = row(&watch(&["--once", "--json", "--pid", &holder.pid.to_string()]));
    assert_eq!((&row["policy"], &row["sharp"], &row["mallocs"]), (&"cached".into(), &true.into(), &Value::Null));
    assert_eq!((&row["heap_size"], &row["live"]), (&holder.heap_size.into(), &holder.live.into()));
    let slabs = &row["slabs"];
    assert_eq!((&slabs["listed_bytes"], &slabs["heaps"]), (&holder.listed_bytes.into(), &1.into()));
    let classes = slabs["classes"].as_array().unwrap();
    let sum = |read: &dyn Fn(&Value) -> u64| classes.iter().map(read).sum::<u64>();
    let figure = |class: &Value, name: &str| class[name].as_u64().unwrap();
    let used = sum(&|class| figure(class, "used") * figure(class, "size"));
    assert_eq!(used + slabs["long_bytes"].as_u64().unwrap(), holder.live);
    assert_eq!(sum(&|class| figure(class, "slabs")), slabs["count"]);
    for class in classes {
        let [size, slabs, blocks, used, listed] =
            ["size", "slabs", "blocks", "used", "listed"].map(|name| figure(class, name));
        assert_eq!(blocks, slabs * (65_536 / size), "{class}");
        assert!(used + listed <= blocks && figure(class, "free_bytes") == (blocks - used) * size, "{class}");
        let [resident, idle] = ["resident_bytes", "idle_bytes"].map(|name| figure(class, name));
        assert!(idle <= resident && used * size <= resident && resident <= 65_536 * slabs, "{class}");
    }
    let rest = sum(&|class| 65_536 * figure(class, "slabs")) - used + row["hole_bytes"].as_u64().unwrap();
    assert_eq!(rest, holder.free_bytes);
}

#[test]
fn dissolved_slabs_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = heapwright();
    command.args(["run", "-p", "cached", "--"]).arg(holder(folder.path())).arg("phases");
    let holder = Holder::start(command);
    let pid = holder.pid.to_string();
    let row = row(&watch(&["--once", "--json", "--pid", &pid]));
    let dissolved = &row["slabs"]["dissolved"];
    let figure = |name: &str| dissolved[name].as_u64().unwrap();
    assert!(figure("slabs") > 10 && figure("blocks") > 1000, "{dissolved}");
    assert!(figure("block_bytes") <= figure("resident_bytes"), "{dissolved}");
    assert!(figure("resident_bytes") <= 65_536 * figure("slabs"), "{dissolved}");
    assert_eq!(row["heap_size"], holder.heap_size);
    // Blocks of dissolved slabs that are in thread caches are not told from live ones.
    let live = row["live"].as_u64().unwrap();
    assert!((holder.live..=holder.live + holder.listed_bytes).contains(&live), "{live} of {}", holder.live);
    let classes = row["slabs"]["classes"].as_array().unwrap();
    let slabs: u64 = classes.iter().map(|class| class["slabs"].as_u64().unwrap()).sum();
    assert_eq!(slabs + figure("slabs"), row["slabs"]["count"]);
    let said = text(&watch(&["--once", "--pid", &pid]).stdout);
    let line = format!("  dissolved slabs {:>18}\n", figure("slabs"));
    assert!(said.contains(&line), "{line}{said}");
}

#[test]
fn blocks_with_mappings_of_their_own_are_shown_while_the_process_runs_and_when_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    let check = |row: &Value, heap_size: u64, live: u64| {
        let bytes: u64 = (2 * (40 + 100)) << 20;
        assert_eq!(row["live"], live);
        // They are not in the heap, which the map shows.
        assert_eq!(row["heap_size"], heap_size - bytes);
        let slabs = &row["slabs"];
        assert_eq!((&slabs["mapped_blocks"], &slabs["mapped_bytes"]), (&2.into(), &bytes.into()), "{row}");
    };
    let mut command = heapwright();
    command.args(["run", "-p", "cached", "--"]).arg(&program).args(["33", "40", "100"]);
    let holder = Holder::start(command);
    let shown = row(&watch(&["--once", "--json", "--pid", &holder.pid.to_string()]));
    assert_eq!(shown["sharp"], true);
    check(&shown, holder.heap_size, holder.live);
    let said = text(&watch(&["--once", "--pid", &holder.pid.to_string()]).stdout);
    assert!(said.contains("  mapped blocks                    2\n"), "{said}");

    let words = ["--once", "--json", "--after", "1000", "--", program.to_str().unwrap(), "33", "40", "100"];
    let output = watch(&words);
    let told = text(&output.stderr);
    let told: Vec<u64> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
    check(&row(&output), told[1], told[2]);
}

/// What is known of it lies elsewhere: no figure is made up.
#[test]
fn a_hardened_heap_shows_only_its_pages() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = heapwright();
    command.args(["run", "-p", "cached", "--"]).arg(holder(folder.path())).env("HEAPWRIGHT_HARDEN", "1");
    let holder = Holder::start(command);
    let row = row(&watch(&["--once", "--json", "--pid", &holder.pid.to_string()]));
    assert_eq!(row["policy"], "cached, hardened");
    // Guards are no part of what the process says it has.
    assert!(row["heap_size"].as_u64().unwrap() > holder.heap_size, "{row}");
    for missing in ["mallocs", "live", "slabs"] {
        assert_eq!(row[missing], Value::Null, "{missing}");
    }
}

/// Four threads with 1000 blocks of 1000 bytes each, of which each frees 123 of its own, and then the first 200 of the
/// second.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *blocks[4][1000];
static pthread_barrier_t barrier;
static void *work(void *number) {
    int me = (int)(long)number;
    for (int i = 0; i < 1000; i++) blocks[me][i] = malloc(1000);
    for (int i = 0; i < 123; i++) free(blocks[me][i]);
    pthread_barrier_wait(&barrier);
    if (me == 0) {
        for (int i = 200; i < 210; i++) free(blocks[1][i]);
    }
    pthread_barrier_wait(&barrier);
    pause();
    return NULL;
}
int main(void) {
    pthread_t thread;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pthread_barrier_init(&barrier, NULL, 5);
    for (long i = 0; i < 4; i++) pthread_create(&thread, NULL, work, (void *)i);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    dprintf(1, "%d 0 0 0 0 0\n", getpid());
    char end;
    while (read(0, &end, 1) > 0) {}
    return 0;
}
"#;

#[test]
fn blocks_in_thread_caches_are_not_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "threads", THREADS, &["-O0", "-w", "-pthread"]);
    let mut command = heapwright();
    command.args(["run", "-p", "cached", "--"]).arg(program);
    let holder = Holder::start(command);
    let row = row(&watch(&["--once", "--json", "--pid", &holder.pid.to_string()]));
    let slabs = &row["slabs"];
    // The first few of a class lie in slabs of a longer one.
    let classes = slabs["classes"].as_array().unwrap().iter();
    let theirs = classes.filter(|class| (1000..1200).contains(&class["size"].as_u64().unwrap()));
    let used: u64 = theirs.map(|class| class["used"].as_u64().unwrap()).sum();
    // What one thread has freed of another's counts as in use until it is sent.
    assert_eq!((used, &slabs["outgoing"]), (4 * (1000 - 123), &10.into()), "{slabs}");
    assert_eq!(slabs["heaps"], 5);
}

/// How many blocks are used.
fn used(row: &Value) -> u64 {
    row["blocks"].as_u64().unwrap() - row["holes"].as_u64().unwrap()
}

#[test]
fn a_program_that_ends_at_once_shows_its_last_state() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    for policy in ["worst", "cached"] {
        let output = watch(&["--once", "--json", "--after", "1000", "-p", policy, "--", program.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(3));
        // What it printed has gone to standard error.
        let told = text(&output.stderr);
        let told: Vec<&str> = told.split_whitespace().collect();
        let row = row(&output);
        assert_eq!(row["policy"], policy);
        assert_eq!([&row["pid"], &row["heap_size"], &row["live"]].map(Value::to_string), told[..3]);
    }
}

#[test]
fn the_text_has_the_figures_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    let output = watch(&["--once", "-p", "best", "--", program.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(said.starts_with("holder ["), "{said}");
    assert!(said.contains("under best") && said.contains("mallocs") && said.contains("peak heap bytes"), "{said}");
    let picture: Vec<&str> = said.lines().filter(|line| line.starts_with("  0x")).collect();
    assert!(picture.len() > 4 && picture[0].contains('▓') | picture[0].contains('▒'), "{said}");
    assert!(picture.iter().all(|line| line.chars().count() <= 78));
}

#[test]
fn the_text_of_the_cached_heap_has_a_line_per_class() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    let said = text(&watch(&["--once", "--", program.to_str().unwrap()]).stdout);
    assert!(said.contains("under cached") && said.contains("live bytes") && !said.contains("mallocs"), "{said}");
    let classes: Vec<&str> = said.lines().skip_while(|line| !line.contains("class")).skip(1).collect();
    let classes: Vec<&str> = classes.into_iter().take_while(|line| !line.is_empty()).collect();
    // 100 to 799 bytes are 44 sizes, of which there are slabs; "all" is the last.
    assert!(classes.len() > 44 && classes.last().unwrap().trim_start().starts_with("all "), "{said}");
    let used = |line: &str| line.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap();
    let (all, each) = classes.split_last().unwrap();
    assert_eq!(each.iter().map(|line| used(line)).sum::<u64>(), used(all), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("  0x")).count() > 2, "{said}");
}

#[test]
fn a_picture_that_is_requested_at_once_is_the_first_that_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    for (program, code) in [(program.to_str().unwrap(), 3), ("ls", 0)] {
        let output = watch(&["--once", "--after", "0", "--", program]);
        let (said, why) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{program}: {why}");
        assert!(said.contains("under cached") && said.contains("live bytes"), "{program}: {said}{why}");
    }
    // It cannot be seen what a process leaves that ends at once, by a signal.
    let output = watch(&["--once", "--after", "0", "--", "sh", "-c", "kill -9 $$"]);
    let seen = text(&output.stdout).contains("live bytes");
    assert!(seen || text(&output.stderr).contains("it ended before its heap was seen"), "{}", text(&output.stderr));
}

#[test]
fn a_program_that_ends_before_its_heap_is_seen_gives_its_exit_code() {
    for _ in 0..5 {
        // A shell may end without exit handlers: it leaves no state then.
        let output = watch(&["--once", "--json", "--", "sh", "-c", "exit 7"]);
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{why}");
        assert!(!output.stdout.is_empty() || why.contains("it ended before its heap was seen"), "{why}");
    }
}

#[test]
fn a_program_that_cannot_be_watched_gives_its_exit_code_and_the_reason_once() {
    let folder = tempfile::tempdir().unwrap();
    let fixed = compiled(folder.path(), "fixed", "int main(void) { return 3; }", &["-static"]);
    let fixed = fixed.to_str().unwrap();
    // `env` itself has a heap for a moment.
    let long = ["env", "-i", "sh", "-c", "sleep 2; exit 4"];
    let without = "no heap to show of env: it was started without LD_PRELOAD (env -i and sudo do this)";
    for (program, code, reason) in
        [(&[fixed][..], 3, "no heap to show: "), (&[fixed], 3, "is statically linked"), (&long, 4, without)]
    {
        for form in [&["--once", "--after", "0.5", "--"][..], &["--once", "--after", "0.5", "--json", "--"]] {
            let output = watch(&[form, program].concat());
            let why = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{program:?}: {why}");
            assert!(output.stdout.is_empty() && why.contains(reason), "{program:?}: {why}");
            assert_eq!(why.lines().count(), 1, "{program:?}: {why}");
        }
    }
}

#[test]
fn a_reader_that_ends_first_leaves_no_program_behind() {
    for json in [&[][..], &["--json"]] {
        let words = [&["watch", "--once", "--after", "0"], json, &["--", "sleep", "0.7"]].concat();
        let start = Instant::now();
        // Not its standard error, which the program has, too.
        let mut child = heapwright().args(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGPIPE));
        assert!(start.elapsed() >= Duration::from_millis(700), "it ended before the program");
    }
}

#[test]
fn a_program_is_left_after_its_picture_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, done) = (folder.path().join("printed"), folder.path().join("done"));
    let script = format!("sleep 1; echo > '{}'", done.display());
    let output = ["--output", printed.to_str().unwrap(), "--detach"];
    let words = [&["--once", "--after", "0"], &output[..], &["--", "sh", "-c", &script]].concat();
    let output = watch(&words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("live bytes") && !done.exists(), "{}", text(&output.stdout));
    let start = Instant::now();
    while !done.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the program was not left running");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn unwatchable_processes_are_reported_with_a_remedy() {
    let said = |arguments: &[&str], code| {
        let output = watch(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    // Not the test's own process: other tests start programs that could be seen.
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let number = other.id().to_string();
    assert!(said(&["--once", "--pid", &number], 1).contains("heapwright run"));
    assert!(said(&["--once", "--pid", "1073741808"], 1).contains("no such process"));
    assert!(said(&["--pid", &number], 1).contains("does not run under libheapwright.so"));
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(said(&["--", "true"], 125).contains("heapwright run --stats"));
    assert!(said(&["--once", "--", "no-such-program"], 127).contains("no such program"));
    assert!(said(&[], 2).contains("give `-- PROGRAM`"));
    assert!(said(&["--detach", "--", "true"], 2).contains("--output"));
}

#[test]
fn a_quiz_that_cannot_be_asked_is_an_error_that_says_why() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/sqlite.hwt");
    let said = |arguments: &[&str]| {
        let output = watch(&[&[trace, "--quiz"], arguments].concat());
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        text(&output.stderr)
    };
    assert!(said(&[]).contains("asks on a terminal"));
    assert!(said(&["--once"]).contains("--once"));
    assert!(said(&["-p", "random"]).contains("cannot be guessed"));
    assert!(said(&["-p", "first", "-p", "best"]).contains("one policy"));
    assert!(said(&["--split", "high"]).contains("reference engine"));
    for of_traces in [&["--quiz", "--", "true"][..], &["--at", "5", "--", "true"], &["--at", "5", "--pid", "1"]] {
        let output = watch(of_traces);
        assert!(!output.status.success() && text(&output.stderr).contains("TRACE"), "{of_traces:?}");
    }
}
