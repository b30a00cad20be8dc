//! A system that refuses memory, under the cached heap: programs get null and ENOMEM, and lose no block.

mod support;

use std::path::PathBuf;

use support::{code, compile, complaints, is_emulated, run};

const NO_ROOM: &str = "heapwright: there is no address space for a heap: raise the limit on it (ulimit -v)\n";

/// The program, whose own `mmap` interposes the C library's.
fn program() -> PathBuf {
    compile("refusals.c", &["-rdynamic"])
}

/// Runs the program; returns whether it ran through. If not, there was no room to begin. An emulator's calls are not
/// the program's.
fn runs_through(arguments: &[&str], variables: &[(&str, &str)]) -> bool {
    if is_emulated() {
        return true;
    }
    let output = run(&program(), arguments, variables);
    if code(&output) == 0 {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "refusals: ok\n");
        return true;
    }
    assert_eq!((code(&output), complaints(&output)), (128 + 6, NO_ROOM.to_owned()), "{arguments:?} {variables:?}");
    false
}

#[test]
fn every_refused_call_costs_nothing_but_the_request() {
    assert!(runs_through(&["calls"], &[]));
}

#[test]
fn every_refused_call_costs_a_hardened_heap_nothing_but_the_request() {
    assert!(runs_through(&["calls"], &[("HEAPWRIGHT_HARDEN", "1")]));
}

#[test]
fn a_limit_on_data_costs_nothing_but_the_request() {
    assert!(runs_through(&["data"], &[]));
}

#[test]
fn a_refusal_at_the_beginning_is_overcome_or_reported() {
    let mut reported = 0;
    for first in 0.. {
        let (from, until) = (first.to_string(), (first + 1).to_string());
        assert!(
            runs_through(&["once"], &[("REFUSE_FROM", &from), ("REFUSE_UNTIL", &until)]),
            "call {first}, refused alone"
        );
        if runs_through(&["once"], &[("REFUSE_FROM", &from)]) {
            break;
        }
        reported += 1;
    }
    assert!(reported > 3 || is_emulated(), "{reported}");
}

#[test]
fn a_limit_on_address_space_is_overcome_or_reported() {
    let (least, enough) = (16 << 10, 64 << 10);
    for kib in (least..enough).step_by(4 << 10) {
        runs_through(&["within", &kib.to_string()], &[]);
    }
    for kib in [enough, 100 << 10, 500 << 10, 2 << 20] {
        assert!(runs_through(&["within", &kib.to_string()], &[]), "{kib} KiB");
    }
}
