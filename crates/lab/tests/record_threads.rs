//! `heapwright record` of programs with many threads, and with threads that have little.

mod common;

use std::collections::HashSet;
use std::fs::{self, File};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader, Totals};

/// The requests of a thread of `threads.c`.
const REQUESTS: usize = 10;

/// Records `threads HOW NUMBER`, and checks that all requests of its threads are in the trace, and all frees.
/// Returns the number of traces.
fn check_threads(options: &[&str], how: &str, number: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-w", "-pthread", "-fno-builtin"];
    let program = compiled(folder.path(), "threads", include_str!("programs/threads.c"), &flags);
    let trace = folder.path().join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--min-events", "0"]).args(options).arg("-o").arg(&trace).arg("--");
    let output = command.arg(program).args([how, &number.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{options:?}: {said}");
    assert!(!said.contains("not recorded") && !said.contains("chosen for their sites"), "{options:?}: {said}");
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
    let (mut requests, mut live) = (0, HashSet::new());
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Allocate { block, size: 1001, .. } => {
                requests += 1;
                live.insert(block);
            }
            Event::Free { block } => {
                live.remove(&block);
            }
            _ => {}
        }
    }
    assert_eq!((requests, live.len()), (number * REQUESTS, 0), "{options:?}: {said}");
    let traces = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    traces.filter(|path| path.extension().is_some_and(|extension| extension == "hwt")).count()
}

#[test]
fn a_thread_that_gets_the_rest_of_a_buffer_loses_no_call() {
    for options in [&[][..], &["--sites=1"], &["--sites=1", "--times"]] {
        check_threads(options, "brief", 2000);
    }
}

#[test]
fn every_one_of_very_many_threads_has_its_sites() {
    check_threads(&["--sites=1"], "brief", 12_000);
}

#[test]
fn threads_with_the_shortest_stack_are_recorded() {
    for options in [&[][..], &["--sites=1"]] {
        check_threads(options, "short", 3);
    }
}

/// The child begins a stream of its own, on the stack of the thread that forked it.
#[test]
fn children_of_threads_with_the_shortest_stack_are_recorded() {
    for options in [&[][..], &["--sites=1"]] {
        assert_eq!(check_threads(options, "fork", 3), 4);
    }
}

/// Records `children HOW`; returns the events of the trace, if there is one, and what the command said.
fn record_children(how: &str) -> (Option<usize>, String) {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-w", "-pthread", "-fno-builtin"];
    let program = compiled(folder.path(), "children", include_str!("programs/children.c"), &flags);
    let trace = folder.path().join("t.hwt");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60"]).arg(cargo_bin("heapwright")).args(["record", "--sites=1", "--min-events", "0"]);
    let output = command.arg("-o").arg(&trace).arg("--").arg(program).arg(how).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(125) && said.contains("damaged") {
        return (None, said);
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
    let mut events = 0;
    while reader.next_event().unwrap().is_some() {
        events += 1;
    }
    (Some(events), said)
}

/// They write into their parent's stream, which may be damaged by that, and a thread that they do not have may hold the
/// recorder's lock. Neither they nor the command waits for ever.
#[test]
fn children_made_by_the_bare_system_call_end() {
    record_children("bare");
}

/// The stream of a program that was replaced is read, and given back, while such a child still writes to it.
#[test]
fn children_made_by_the_bare_system_call_outlive_the_program_that_made_them() {
    record_children("outlive");
}

/// Such a child begins buffers for the thread that has made it, which are not left when it ends.
#[test]
fn what_children_of_vfork_allocate_is_recorded_in_the_buffer_of_their_thread() {
    for _ in 0..3 {
        let (events, said) = record_children("vfork");
        assert!(events.unwrap_or(0) >= 20 * 2 * (20_000 + 2 * 1000 + 3 * 1000), "{events:?}: {said}");
        assert!(!said.contains("was not recorded") && !said.contains("damaged"), "{said}");
    }
}

#[test]
fn calls_for_long_blocks_are_in_the_order_in_which_they_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-w", "-pthread", "-fno-builtin"];
    let program = compiled(folder.path(), "long_calls", include_str!("programs/long_calls.c"), &flags);
    for options in [&[][..], &["--sites=1"]] {
        let trace = folder.path().join("t.hwt");
        let mut command = heapwright();
        command.args(["record", "--min-events", "0"]).args(options).arg("-o").arg(&trace).arg("--").arg(&program);
        assert!(command.output().unwrap().status.success(), "{options:?}");
        let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
        // The blocks of the present round: of the first thread, and whether there is one of the second.
        let (mut first, mut round, mut second, mut ended) = (None, 0, false, 0);
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                Event::Allocate { block, size: size @ 100_000..100_200, .. } => {
                    (first, round, second) = (Some(block), size - 100_000, false);
                }
                Event::Allocate { size: size @ 200_000..200_200, .. } => {
                    assert_eq!(size - 200_000, round, "{options:?}");
                    second = true;
                }
                Event::Free { block } | Event::Resize { block, .. } if Some(block) == first => {
                    assert!(second, "round {round} ended before the other thread's call, {options:?}");
                    ended += 1;
                }
                _ => {}
            }
        }
        assert_eq!(ended, 200, "{options:?}");
    }
}

#[test]
fn a_program_whose_first_thread_has_ended_has_sites_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-w", "-pthread", "-fno-builtin"];
    let program = compiled(folder.path(), "main_ended", include_str!("programs/main_ended.c"), &flags);
    let trace = folder.path().join("t.hwt");
    let output = heapwright().args(["record", "--sites=1", "-o"]).arg(&trace).arg("--").arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("leads nowhere"), "{said}");
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
    while reader.next_event().unwrap().is_some() {}
    let peak = Totals::of(reader.about()).peak_anonymous;
    // What the program has without a call is seen from outside.
    assert!(peak >= Some((64 + 128) << 20), "{peak:?}: {said}");
}
