//! Invalid frees are detected under every policy and reported in one line.

mod support;

use support::{code, compile, complaints, run};

/// The mistakes of `bad_free.c`, and the reports that are required: by a heap, and with a mapping per block.
const MISTAKES: [(&str, &str, &str); 6] = [
    ("double", "double free: free(", "invalid pointer: free("),
    ("interior", "it lies 160 bytes into the used block at ", "it lies 160 bytes into the used block at "),
    ("misaligned", "it lies 1 bytes into the used block at ", "it lies 1 bytes into the used block at "),
    ("foreign", "it lies in no block of the heap", "it lies in no block of the heap"),
    ("realloc", "invalid pointer: realloc(", "invalid pointer: realloc("),
    ("size", "wrong size: free(", "wrong size: free("),
];

/// The mistakes that the thread caches of `cached` do not detect: they look up the pointer's slab only.
const UNSEEN: [&str; 2] = ["interior", "misaligned"];

const SIGABRT: i32 = 6;

/// The mistakes that are detected under a policy, and the report of each.
fn mistakes(policy: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    MISTAKES
        .into_iter()
        .filter(move |(mistake, ..)| policy != "cached" || !UNSEEN.contains(mistake))
        .map(move |(mistake, heap, mapping)| (mistake, if policy == "mapped" { mapping } else { heap }))
}

fn is_named(policy: &str) {
    let program = compile("bad_free.c", &[]);
    for (mistake, fault) in mistakes(policy) {
        let output = run(&program, &[mistake], &[("HEAPWRIGHT_POLICY", policy)]);
        let said = complaints(&output);
        assert_eq!(code(&output) & 127, SIGABRT, "{mistake} under {policy}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("heapwright: ")).collect();
        assert_eq!(lines.len(), 1, "{mistake} under {policy}: {said}");
        assert!(lines[0].contains(fault), "{mistake} under {policy}: {said}");
    }
}

fn is_ignored(policy: &str) {
    let program = compile("bad_free.c", &[]);
    for (mistake, _) in mistakes(policy) {
        let variables =
            [("HEAPWRIGHT_POLICY", policy), ("HEAPWRIGHT_ON_BAD_FREE", "ignore"), ("HEAPWRIGHT_STATS", "1")];
        let output = run(&program, &[mistake], &variables);
        let said = complaints(&output);
        assert_eq!(code(&output), 0, "{mistake} under {policy}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "went on\n");
        let counted = said.lines().find(|line| line.contains("bad frees ignored")).expect("the table has the count");
        assert_eq!(counted.split_whitespace().last(), Some("1"), "{mistake} under {policy}");
    }
}

mod abort {
    crate::under_every_policy!(super::is_named);
}

mod ignore {
    crate::under_every_policy!(super::is_ignored);
}
