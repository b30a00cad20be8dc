//! `heapwright import` and `export`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/samples").join(name)
}

fn heapwright(arguments: &[&str], folder: &Path) -> Output {
    common::heapwright().current_dir(folder).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn import(name: &str, more: &[&str], folder: &Path) -> Output {
    let source = sample(name);
    heapwright(&[&["import", source.to_str().unwrap(), "-o", "t.hwt"], more].concat(), folder)
}

#[test]
fn an_imported_trace_is_known_as_that() {
    let folder = tempfile::tempdir().unwrap();
    import("short.rep", &[], folder.path());
    let output = heapwright(&["watch", "--once", "t.hwt"], folder.path());
    assert!(stdout(&output).starts_with("t.hwt after 5 of 5 events"), "{}", stdout(&output));
    let output = heapwright(&["sites", "t.hwt"], folder.path());
    let expected = "heapwright: t.hwt was imported from rep, and its source tells no call sites\n";
    assert_eq!((output.status.code(), &stderr(&output)[..]), (Some(1), expected));
}

#[test]
fn formats_of_samples_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    for (name, format, events) in [
        ("heaptrack.zst", "heaptrack", 52),
        ("heaptrack.raw.zst", "heaptrack", 52),
        ("memray.csv", "memray", 34),
        ("jemalloc.heap", "jemalloc", 40),
        ("mtrace.log", "mtrace", 23),
        ("memory-replay.zip", "memory-replay", 7),
        ("short.rep", "rep", 5),
    ] {
        let output = import(name, &[], folder.path());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stdout(&output);
        assert!(said.contains(&format!("{name} is read as {format}\n")), "{said}");
        assert!(said.contains(&format!("{events} events from")), "{said}");
    }
}

#[test]
fn a_snapshot_shows_what_is_held_and_says_what_it_cannot_show() {
    let folder = tempfile::tempdir().unwrap();
    let said = stdout(&import("memray.csv", &[], folder.path()));
    assert!(said.contains("it is a snapshot"), "{said}");
    let sites = heapwright(&["sites", "t.hwt"], folder.path());
    let table = stdout(&sites);
    assert!(table.contains("peaked held.py:11") && table.contains("leaked held.py:7"), "{table}");
    assert!(table.contains("A snapshot: what is held is known"), "{table}");
    assert!(!table.contains("may still be reachable"), "{table}");
}

#[test]
fn each_process_of_a_log_becomes_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let log = "7 7 malloc(1)=#1\n8 8 malloc(2)=#1\n7 7 free(#1)\n8 8 malloc(3)=#2\n8 8 free(#1)\n";
    fs::write(folder.path().join("two.log"), log).unwrap();
    let output = heapwright(&["import", "--from", "logalloc", "two.log", "-o", "t.hwt"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("t.8.hwt: process 8, 3 events"), "{}", stdout(&output));
    for (trace, lines) in [("t.hwt", 2), ("t.8.hwt", 3)] {
        let csv = heapwright(&["export", "--to", "csv", trace, "-o", "-"], folder.path());
        let is_event = |line: &&str| line.starts_with("malloc") || line.starts_with("free");
        assert_eq!(stdout(&csv).lines().filter(is_event).count(), lines, "{}", stdout(&csv));
    }
}

#[test]
fn a_device_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let said = stdout(&import("pytorch.pickle", &["--device", "1"], folder.path()));
    assert!(said.contains("live before the trace, and allocated first: 2 blocks"), "{said}");
    let output = import("pytorch.pickle", &["--device", "2"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("2 devices") && stderr(&output).contains("--device"), "{}", stderr(&output));
}

#[test]
fn an_ambiguous_source_is_an_error_that_names_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let output = import("README.md", &[], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--from: csv, rep, memory-replay"), "{}", stderr(&output));
    // Told what it is, it is read, and what is not understood is shown.
    let output = import("README.md", &["--from", "csv"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("lines not understood, such as\n  line 3: | sample"), "{}", stdout(&output));
}

#[test]
fn a_trace_need_not_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/git.hwt");
    let output = heapwright(&["import", trace, "-o", "t.hwt"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("git.hwt is a trace of Heapwright already") && !said.contains("--from"), "{said}");
}

#[test]
fn a_source_of_which_nothing_is_understood_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    for (format, text) in [("csv", "nothing\nof\nthis\n"), ("rep", "\n"), ("mtrace", "= Start\n")] {
        fs::write(folder.path().join("source"), text).unwrap();
        let output = heapwright(&["import", "--from", format, "source", "-o", "t.hwt"], folder.path());
        assert_eq!(output.status.code(), Some(1), "{format}: {}", stdout(&output));
        assert!(stderr(&output).contains("source: nothing"), "{}", stderr(&output));
        assert!(!folder.path().join("t.hwt").exists());
    }
}

#[test]
fn a_source_of_which_a_part_is_understood_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("source"), "malloc,1,100\nnothing\nfree,1\n").unwrap();
    let output = heapwright(&["import", "--from", "csv", "source", "-o", "t.hwt"], folder.path());
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("a part of source was not understood"), "{}", stderr(&output));
    assert!(stdout(&output).contains("line 2: nothing"), "{}", stdout(&output));
    assert!(heapwright(&["replay", "t.hwt", "-p", "first"], folder.path()).status.success());
}

#[test]
fn exports_can_be_imported_again() {
    let folder = tempfile::tempdir().unwrap();
    import("plain.csv", &[], folder.path());
    let output = heapwright(&["export", "--to", "csv", "t.hwt"], folder.path());
    assert_eq!(stdout(&output), fs::read_to_string(sample("plain.csv")).unwrap());
    assert!(stderr(&output).contains("6 operations as csv"), "{}", stderr(&output));

    let output = heapwright(&["export", "--to", "rep", "t.hwt", "-o", "t.rep"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rep = fs::read_to_string(folder.path().join("t.rep")).unwrap();
    assert!(rep.starts_with("304\n3\n6\n1\na 0 100\n"), "{rep}");
    for lost in ["2 changes of the thread", "1 alignments", "1 blocks that are zeroed", "1 requests that were refused"]
    {
        assert!(stderr(&output).contains(lost), "{lost} is not in {}", stderr(&output));
    }
}

#[test]
fn a_file_that_is_not_a_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let readme = sample("README.md");
    let output = heapwright(&["export", "--to", "csv", readme.to_str().unwrap()], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("this is not a trace"), "{}", stderr(&output));
}

#[test]
fn a_failed_import_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    assert!(import("short.rep", &[], folder.path()).status.success());
    let before = fs::read(&trace).unwrap();
    fs::write(folder.path().join("no"), [0; 100]).unwrap();
    assert!(!heapwright(&["import", "no", "-o", "t.hwt"], folder.path()).status.success());
    assert!(!heapwright(&["export", "no", "--to", "csv", "-o", "t.hwt"], folder.path()).status.success());
    assert_eq!(fs::read(&trace).unwrap(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}
