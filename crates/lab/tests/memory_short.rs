//! The command where the system is short of memory: it ends with one line and the exit code of a failure, and leaves no
//! temporary files.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use common::heapwright;
use tempfile::TempDir;

/// Runs words of a command line under a limit, in KiB: `ulimit -d 20000`. A backtrace must not get in the way.
fn run(folder: &Path, limit: &str, kib: u32, words: &str) -> Output {
    let script = format!("ulimit {limit} {kib}; exec timeout 60 \"$0\" {words}");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(heapwright().get_program()).current_dir(folder).env("RUST_BACKTRACE", "1");
    command.env("TMPDIR", folder.join("temporary")).env("HEAPWRIGHT_PEERS", folder).output().unwrap()
}

fn in_a_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("temporary")).unwrap();
    common::trace_with_sites(&folder.path().join("t.hwt"), "program");
    folder
}

/// Tables of workloads, which run in other processes, take no part of it.
#[test]
fn the_command_starts_with_little_data() {
    let output = run(in_a_folder().path(), "-d", 12_000, "--version");
    assert!(output.status.success(), "{output:?}");
}

/// Whether a failure is one line, which says what is short, and has the right exit code.
#[track_caller]
fn ended_in_good_order(output: &Output, code: i32, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return;
    }
    assert_eq!((output.status.code(), output.status.signal()), (Some(code), None), "{what}: {said}");
    assert_eq!(said.lines().count(), 1, "{what}: {said}");
    let names_it = said.starts_with("heapwright: ") && ["ulimit", "memory", "room"].iter().any(|it| said.contains(it));
    assert!(names_it, "{what}: {said}");
}

/// The least limit under which the command starts, which differs from build to build.
fn least(folder: &Path, limit: &str) -> u32 {
    let starts = |kib: &u32| run(folder, limit, *kib, "--version").status.success();
    (1..).map(|step| step * 4000).find(starts).unwrap()
}

/// Whether it is the folder of the libraries that the command carries: `heapwright-` and the number of the user.
fn is_of_libraries(name: &OsStr) -> bool {
    let user = name.to_str().and_then(|name| name.strip_prefix("heapwright-"));
    user.is_some_and(|user| user.bytes().all(|byte| byte.is_ascii_digit()))
}

#[test]
fn a_command_without_memory_ends_with_one_line_and_the_exit_code_of_a_failure() {
    let folder = in_a_folder();
    for limit in ["-d", "-v"] {
        let least = least(folder.path(), limit);
        for (words, code) in [
            ("compare --policies-only t.hwt", 1),
            ("compare --rounds 1 --no-latencies -p first t.hwt", 1),
            ("report --no-real -o t.html t.hwt", 1),
            ("fit t.hwt", 1),
            ("record --min-events 0 -o new.hwt -- ls", 125),
            ("run -p first -- true", 125),
            ("sites t.hwt", 1),
        ] {
            for step in 1..20 {
                let kib = least + step * 700;
                let output = run(folder.path(), limit, kib, words);
                let what = format!("ulimit {limit} {kib}; {words}");
                ended_in_good_order(&output, code, &what);
                let left: Vec<_> = fs::read_dir(folder.path().join("temporary")).unwrap().map(Result::unwrap).collect();
                assert!(left.iter().all(|entry| is_of_libraries(&entry.file_name())), "{what}: {left:?}");
            }
        }
    }
}

#[test]
fn memory_that_is_refused_before_the_arguments_are_parsed_ends_a_command_with_its_own_exit_code() {
    let folder = in_a_folder();
    let least = least(folder.path(), "-v");
    let outputs = (least - 4000..least).step_by(40).map(|kib| run(folder.path(), "-v", kib, "run -p first -- true"));
    // Others ended before this command began, or after it has parsed its arguments.
    let refused: Vec<Output> =
        outputs.filter(|output| output.stderr.starts_with(b"heapwright: out of memory: ")).collect();
    assert!(!refused.is_empty());
    refused.iter().for_each(|output| ended_in_good_order(output, 125, "run"));
}

/// No thread has room for a stack of this length, in bytes.
const ENDLESS: &str = "4611686018427387904";

#[test]
fn threads_that_the_system_refuses_are_done_without_or_named() {
    let folder = in_a_folder();
    for words in [
        "compare --policies-only t.hwt",
        "compare --rounds 1 --no-latencies -p first t.hwt",
        "report --no-real -o t.html t.hwt",
        "replay -p first -p best t.hwt",
        "fit t.hwt",
        "sweep t.hwt -o rows.csv --policy first --granule 8,16",
        "record --min-events 0 -o new.hwt -- ls",
        "watch --once -- true",
    ] {
        let mut command = heapwright();
        command.args(words.split(' ')).current_dir(&folder).env("RUST_MIN_STACK", ENDLESS);
        let output = command.env("TMPDIR", folder.path().join("temporary")).output().unwrap();
        ended_in_good_order(&output, if words.contains(" -- ") { 125 } else { 1 }, words);
    }
}

#[test]
fn allocators_are_measured_on_a_short_stack() {
    let folder = in_a_folder();
    let output = run(folder.path(), "-s", 80, "compare --rounds 1 --no-latencies -p first t.hwt");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !shown.contains("signal 11"), "{shown}");
}

/// glibc aborts a program that has no memory to note what a thread does at its end. The library that is loaded here
/// refuses threads the memory that the command asks for before such a note.
#[test]
fn a_thread_without_memory_to_begin_with_ends_the_command_as_other_failures_do() {
    const LIBRARY: &str = "#define _GNU_SOURCE\n#include <stddef.h>\n#include <unistd.h>\n\
        extern void *__libc_malloc(size_t);\nstatic int refusing;\n\
        void *malloc(size_t size) {\n\
        if (size == 4096 && gettid() != getpid()) refusing = 1;\n\
        return refusing && gettid() != getpid() ? NULL : __libc_malloc(size); }\n";
    let folder = in_a_folder();
    let (source, library) = (folder.path().join("l.c"), folder.path().join("l.so"));
    fs::write(&source, LIBRARY).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success());
    for (words, code) in [("compare --policies-only t.hwt", 1), ("record --min-events 0 -o new.hwt -- ls", 125)] {
        let mut command = heapwright();
        command.args(words.split(' ')).current_dir(&folder).env("LD_PRELOAD", &library);
        let output = command.env("TMPDIR", folder.path().join("temporary")).output().unwrap();
        assert!(!output.status.success(), "{words}: {output:?}");
        ended_in_good_order(&output, code, words);
        assert!(String::from_utf8_lossy(&output.stderr).contains("4096 bytes could not be allocated"), "{output:?}");
    }
}
