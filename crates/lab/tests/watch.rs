//! `heapwright watch` sees the heap of a process as the process itself does.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use common::{compiled, heapwright};
use serde_json::Value;

/// Makes holes, says what its heap is like, waits for its input to end, and exits with 3.
const HOLDER: &str = r#"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *blocks[3000];
int main(void) {
    char line[200];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    for (int i = 0; i < 3000; i++) blocks[i] = malloc(100 + i % 700);
    for (int i = 0; i < 3000; i += 3) free(blocks[i]);
    struct mallinfo2 found = mallinfo2();
    snprintf(line, sizeof line, "%d %zu %zu %zu %zu\n", getpid(), found.arena + found.hblkhd,
             found.uordblks + found.hblkhd, found.fordblks, found.ordblks);
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
    hole_bytes: u64,
    holes: u64,
}

impl Holder {
    fn start(mut command: Command) -> Holder {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [pid, heap_size, live, hole_bytes, holes] = told[..] else { panic!("{line}") };
        Holder { child, pid, heap_size, live, hole_bytes, holes }
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
fn a_process_is_seen_as_it_sees_itself_under_every_policy() {
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
        assert_eq!(row["hole_bytes"], holder.hole_bytes, "{policy}");
        assert_eq!(row["holes"], holder.holes, "{policy}");
        assert_eq!(row["mallocs"].as_u64().unwrap() - row["frees"].as_u64().unwrap(), used(&row), "{policy}");
    }
}

/// How many blocks are used.
fn used(row: &Value) -> u64 {
    row["blocks"].as_u64().unwrap() - row["holes"].as_u64().unwrap()
}

#[test]
fn a_program_that_ends_at_once_is_seen_as_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    let output = watch(&["--once", "--json", "--after", "1000", "-p", "worst", "--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    // What it printed has gone to standard error.
    let told = text(&output.stderr);
    let told: Vec<&str> = told.split_whitespace().collect();
    let row = row(&output);
    assert_eq!(row["policy"], "worst");
    assert_eq!([&row["pid"], &row["heap_size"], &row["live"]].map(Value::to_string), told[..3]);
}

#[test]
fn the_text_has_the_figures_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let program = holder(folder.path());
    let output = watch(&["--once", "--", program.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(said.starts_with("holder ["), "{said}");
    assert!(said.contains("under best") && said.contains("mallocs") && said.contains("peak heap bytes"), "{said}");
    let picture: Vec<&str> = said.lines().filter(|line| line.starts_with("  0x")).collect();
    assert!(picture.len() > 4 && picture[0].contains('▓') | picture[0].contains('▒'), "{said}");
    assert!(picture.iter().all(|line| line.chars().count() <= 78));
}

#[test]
fn what_cannot_be_watched_is_said_with_the_way_out() {
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
    assert!(said(&[], 1).contains("heapwright watch -- PROGRAM"));
    assert!(said(&["--detach", "--", "true"], 2).contains("--output"));
}
