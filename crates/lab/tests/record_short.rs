//! `heapwright record` where the system is short of what the command or the program needs: descriptors, address space,
//! files.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader};
use tempfile::TempDir;

/// Records a program under a limit: a command of the shell, such as `ulimit -n 40`.
fn record(limit: &str, folder: &TempDir, program: &[&str]) -> Output {
    let script = format!("{limit}; trace=$1; shift; exec \"$0\" record --min-events 0 -o \"$trace\" -- \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(heapwright().get_program()).arg(folder.path().join("t.hwt")).args(program);
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The number of blocks of 1001 bytes in each trace of a folder.
fn counts(folder: &Path) -> Vec<usize> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces = paths.filter(|path| path.extension().is_some_and(|extension| extension == "hwt"));
    traces.map(|path| count(&path)).collect()
}

fn count(path: &Path) -> usize {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let events = std::iter::from_fn(|| reader.next_event().unwrap());
    events.filter(|event| matches!(event, Event::Allocate { size: 1001, .. })).count()
}

/// A hundred processes at a time need more than the command may have open at first, and then at all.
#[test]
fn processes_are_recorded_whatever_the_limit_on_descriptors() {
    for (limit, own) in [("ulimit -Sn 80", "80\n"), ("ulimit -n 80", "80\n")] {
        let folder = tempfile::tempdir().unwrap();
        let alive = compiled(folder.path(), "alive", include_str!("programs/alive.c"), &["-O1", "-w", "-fno-builtin"]);
        let output = record(limit, &folder, &[alive.to_str().unwrap(), "100"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{limit}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), own, "the limit of the program is as it was");
        assert!(!said.contains("recorded:") && !said.contains("not complete"), "{limit}: {said}");
        let counts = counts(folder.path());
        assert_eq!((counts.len(), counts.iter().sum::<usize>()), (101, 50 + 100 * 100), "{limit}: {said}");
    }
}

#[test]
fn address_space_that_is_short_is_the_only_reason_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // What the command needs for itself differs from build to build: it runs out of it before the program starts, while
    // the program runs, or has enough for itself and not for the recording.
    let mut unrecorded = 0;
    for step in 1..40 {
        let output = record(&format!("ulimit -v {}", step * 10_000), &folder, &["pwd"]);
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{said}");
        if output.stdout.is_empty() || said.is_empty() {
            continue;
        }
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("`ulimit -v`") && !said.contains("LD_PRELOAD"), "{said}");
        unrecorded += usize::from(said.starts_with("heapwright: nothing was recorded: "));
    }
    assert!(unrecorded > 0, "there is a limit under which the program runs and is not recorded");
}

/// A resize has two records, and a long block notes of its pages; each is one call.
#[test]
fn every_call_is_recorded_or_counted_as_missing_once() {
    const RESIZES: u64 = 50_000;
    const LONG: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let source = format!(
        "#include <stdlib.h>\nint main(void) {{\n char *volatile block = malloc(1);\n \
         for (int at = 0; at < {RESIZES}; at++) block = realloc(block, at % 50 + 1);\n \
         for (int at = 0; at < {LONG}; at++) {{ char *volatile longer = malloc(100000); free(longer); }}\n \
         return 0; }}\n"
    );
    let program = compiled(folder.path(), "calls", &source, &["-O1", "-w"]);
    let script = format!("ulimit -f 256; exec {}", program.display());
    let output = record(":", &folder, &["bash", "-c", &script]);
    let said = stderr(&output);
    let (before, _) = said.split_once(" calls are missing").unwrap_or_else(|| panic!("{said}"));
    let missing: u64 = before.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap();
    let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let traces = paths.filter(|path| path.to_str().unwrap().contains(".hwt"));
    let readers = traces.map(|path| Reader::new(File::open(path).unwrap()).unwrap());
    let of_calls = readers.filter(|reader| reader.about().get("program") == Some("calls"));
    let calls = of_calls.map(|reader| reader.map(Result::unwrap).count() as u64).sum::<u64>();
    assert!(calls > 1000 && missing > 5000, "{said}");
    assert_eq!(calls + missing, 1 + RESIZES + 2 * LONG, "{said}");
}

#[test]
fn descriptors_that_are_short_are_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let all = ["record -o t.hwt", "sites", "compare -p first --policies-only", "report -p first --no-real -o t.html"];
    for words in all {
        for limit in 6..9 {
            let script = format!("ulimit -n {limit}; exec \"$0\" {words} -- ls");
            let mut command = Command::new("bash");
            command.args(["-c", &script]).arg(heapwright().get_program()).current_dir(&folder);
            let output = command.output().unwrap();
            let said = stderr(&output);
            // Eight are enough if the directory of streams is not being listed while the trace is opened.
            if limit == 8 && output.status.success() {
                assert!(!said.contains("Too many open files"), "{words}: {said}");
                continue;
            }
            assert!(!output.status.success(), "{limit}, {words}: {said}");
            let last = said.lines().last().unwrap();
            assert!(last.ends_with(": raise the limit on descriptors (`ulimit -n`)"), "{limit}, {words}: {said}");
            assert_eq!(said.matches("Too many open files").count(), 1, "{limit}, {words}: {said}");
            let left = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
            let empty: Vec<_> = left.filter(|entry| entry.metadata().unwrap().len() == 0).collect();
            assert!(empty.is_empty(), "{limit}, {words}: {empty:?}");
        }
    }
}

/// The streams are longer with call sites: the limit is long enough for the calls alone.
#[test]
fn the_reason_that_the_recorder_has_is_the_one_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -f 100; exec \"$0\" record --sites -o t.hwt -- sh -c :";
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(heapwright().get_program()).current_dir(&folder);
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("heapwright: nothing was recorded: no stream could be made"), "{said}");
    assert!(last.contains("`ulimit -f`") && !said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn the_reason_is_named_where_another_program_goes_on_without_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let output = record("true", &folder, &["bash", "-c", "ulimit -f 1; exec sh -c :"]);
    let said = stderr(&output);
    let expected = "went on as sh, of which nothing was recorded: no stream could be made for its calls: longer than";
    assert!(said.contains(expected) && !said.contains("LD_PRELOAD"), "{said}");
}

/// The description of the error is not the C library's, which translates it once the program has set a locale: that
/// allocates, in the recorder's hands.
#[test]
fn a_child_without_a_stream_goes_on_whatever_the_error_is() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("programs/no_more_files.c");
    let program = compiled(folder.path(), "no_more_files", source, &["-O1", "-fno-builtin"]);
    let output = record("true", &folder, &[program.to_str().unwrap()]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let why = "no stream can be made: input or output failed (EIO, error 5 of the system)\n";
    assert_eq!(said.matches(why).count(), 1, "{said}");
}
