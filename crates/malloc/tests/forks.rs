//! Forks in hard places: handlers that allocate, signals, streams, a bad free; cancellation; used-up thread-specific
//! keys. Each with the default heap, the hardened one and a policy. `HEAPWRIGHT_STREAMS_SECONDS` and
//! `HEAPWRIGHT_STORM_FORKS` prolong the longest ones.

mod support;

use std::env;
use std::path::PathBuf;
use std::process::Output;

use support::{code, compile, complaints, is_emulated, library, run_for};

/// Far more than any of the programs needs, besides a tenth of a second for each repetition: one that runs for longer
/// hangs.
const SECONDS: u32 = 120;

const HEAPS: [(&str, &str); 3] =
    [("HEAPWRIGHT_POLICY", "cached"), ("HEAPWRIGHT_HARDEN", "1"), ("HEAPWRIGHT_POLICY", "best")];

/// The code of a program that returned from `main`.
const ENDED_WELL: i32 = 0;
/// The code of a program whose handler of `SIGABRT` forked and ended it.
const HANDLED_ABORT: i32 = 42;

fn program() -> PathBuf {
    compile("forks.c", &["-Wno-deprecated-declarations"])
}

fn assert_code(expected: i32, output: &Output, what: &str) {
    assert_eq!(code(output), expected, "{what}: {}", complaints(output));
}

/// Runs the part `what` of the program under each heap.
fn runs(expected: i32, what: &str, count: u32) {
    for heap in HEAPS {
        let output = run_for(SECONDS + count / 10, &program(), &[what, &count.to_string()], &[heap]);
        assert_code(expected, &output, &format!("{what} with {}={}", heap.0, heap.1));
    }
}

/// Returns the number in an environment variable.
fn number(name: &str, default: u32) -> u32 {
    env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn handlers_that_are_registered_before_the_first_malloc_allocate() {
    runs(ENDED_WELL, "handlers", 20);
    runs(ENDED_WELL, "handlers-threads", 20);
}

/// The constructor of a library that is loaded later runs earlier.
#[test]
fn handlers_that_are_registered_before_the_library_s_own_allocate() {
    if is_emulated() {
        return;
    }
    let early = compile("early.c", &["-shared", "-fPIC"]);
    let preloaded = format!("{}:{}", library().path().display(), early.display());
    for heap in HEAPS {
        for what in ["handlers", "handlers-threads"] {
            let output = run_for(SECONDS, &program(), &[what, "10"], &[("LD_PRELOAD", &preloaded), heap]);
            assert_code(ENDED_WELL, &output, &format!("{what} with {}={}", heap.0, heap.1));
        }
    }
}

#[test]
fn a_signal_handler_forks_wherever_it_has_interrupted_the_only_thread() {
    runs(ENDED_WELL, "storm", number("HEAPWRIGHT_STORM_FORKS", 1000));
}

#[test]
fn a_signal_handler_forks_where_it_has_interrupted_malloc_beside_other_threads() {
    runs(ENDED_WELL, "storm-threads-exit", 40);
}

/// The default heap and the policies have one lock that matters, so that even malloc works in these children.
#[test]
fn children_of_a_signal_handler_go_on_with_malloc() {
    for heap in [HEAPS[0], HEAPS[2]] {
        let output = run_for(SECONDS, &program(), &["storm-threads", "200"], &[heap]);
        assert_code(ENDED_WELL, &output, &format!("{}={}", heap.0, heap.1));
    }
}

#[test]
fn threads_use_streams_while_another_forks() {
    runs(ENDED_WELL, "streams", number("HEAPWRIGHT_STREAMS_SECONDS", 3));
}

#[test]
fn a_handler_of_sigabrt_forks_after_a_bad_free() {
    runs(HANDLED_ABORT, "abort", 1);
    runs(HANDLED_ABORT, "abort-threads", 1);
}

#[test]
fn statistics_are_written_without_a_lock() {
    runs(ENDED_WELL, "cancel", 1);
}

#[test]
fn malloc_needs_no_thread_specific_key() {
    runs(ENDED_WELL, "keys", 1000);
}
