//! A system that refuses memory: programs get null and ENOMEM, lose no block, and get blocks again when there is
//! memory.

mod support;

use std::path::PathBuf;

use support::{code, compile, complaints, is_emulated, run};

/// The settings of the heaps under test.
const HEAPS: [&[(&str, &str)]; 4] =
    [&[], &[("HEAPWRIGHT_HARDEN", "1")], &[("HEAPWRIGHT_POLICY", "best")], &[("HEAPWRIGHT_POLICY", "mapped")]];

/// The program, whose own `mmap` interposes the C library's.
fn program() -> PathBuf {
    compile("refusals.c", &["-rdynamic"])
}

/// Runs the program, which must run through without a message. An emulator's calls are not the program's.
fn runs_through(arguments: &[&str], variables: &[(&str, &str)]) {
    if is_emulated() {
        return;
    }
    let output = run(&program(), arguments, variables);
    assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{arguments:?} {variables:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refusals: ok\n", "{arguments:?} {variables:?}");
}

#[test]
fn every_refused_call_costs_nothing_but_the_request() {
    runs_through(&["calls"], &[]);
}

#[test]
fn every_refused_call_costs_a_hardened_heap_nothing_but_the_request() {
    runs_through(&["calls"], &[("HEAPWRIGHT_HARDEN", "1")]);
}

#[test]
fn a_limit_on_data_costs_nothing_but_the_request() {
    runs_through(&["data"], &[]);
}

#[test]
fn a_refusal_at_the_beginning_costs_nothing_but_the_request() {
    for heap in HEAPS {
        for first in 0..24 {
            let (from, until) = (first.to_string(), (first + 1).to_string());
            let settings = |last: &[_]| [heap, &[("REFUSE_FROM", from.as_str())], last].concat();
            runs_through(&["once"], &settings(&[("REFUSE_UNTIL", &until)]));
            runs_through(&["once"], &settings(&[]));
        }
    }
}

#[test]
fn a_limit_on_address_space_costs_nothing_but_the_request() {
    for heap in HEAPS {
        for kib in (16 << 10..64 << 10).step_by(4 << 10).chain([64 << 10, 100 << 10, 500 << 10, 2 << 20]) {
            runs_through(&["within", &kib.to_string()], heap);
        }
    }
}

/// Malloc's own mappings are refused from the first on.
#[test]
fn a_program_that_has_used_up_everything_gets_null_and_blocks_later() {
    if is_emulated() {
        return;
    }
    let program = compile("no_room.c", &[]);
    for heap in HEAPS {
        for used_up in ["maps", "addresses"] {
            let output = run(&program, &[used_up], heap);
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let complaint = complaints(&output);
            assert!(!complaint.contains("address space"), "{used_up} {heap:?}: {complaint}");
            assert_eq!((code(&output), printed.as_str()), (0, "no_room: ok\n"), "{used_up} {heap:?}: {complaint}");
        }
    }
}

/// Locked pages are not purged. Each attempt costs a call, and there are as few as where there is nothing to purge.
#[test]
fn a_program_that_has_locked_its_memory_does_not_pay_for_each_free() {
    let program = compile("locked.c", &["-rdynamic"]);
    for variables in [&[][..], &[("HEAPWRIGHT_PURGE", "never")], &[("HEAPWRIGHT_HARDEN", "light")]] {
        let output = run(&program, &[], variables);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{variables:?}");
        if printed == "locked: not permitted\n" {
            eprintln!("skipped: this user may not lock memory");
            return;
        }
        let calls: u32 = printed.trim_start_matches("locked: ").trim_end_matches(" calls\n").parse().expect(&printed);
        assert!(calls < 4000, "{calls} calls of madvise {variables:?}");
    }
}
