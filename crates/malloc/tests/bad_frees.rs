//! Invalid frees are detected under every policy and reported in one line.

mod support;

use support::{code, compile, complaints, is_emulated, run, run_for};

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

/// What `cached` says of a pointer that it does not know.
const NO_BEGINNING: &str = ": no block begins there";

/// The mistakes that are detected under a policy, and the report of each.
fn mistakes(policy: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    MISTAKES.into_iter().filter(move |(mistake, ..)| policy != "cached" || !UNSEEN.contains(mistake)).map(
        move |(mistake, heap, mapping)| match policy {
            "mapped" => (mistake, mapping),
            "cached" if mistake == "foreign" => (mistake, NO_BEGINNING),
            _ => (mistake, heap),
        },
    )
}

/// `cached`, hardened or not, does not know where a block begins that a pointer leads into.
#[test]
fn a_pointer_into_a_block_is_not_said_to_lie_in_none() {
    let program = compile("bad_free.c", &[]);
    for (harden, mistakes) in [("0", &["realloc"][..]), ("light", &["interior", "realloc"]), ("full", &["interior"])] {
        for mistake in mistakes {
            let output = run(&program, &[mistake], &[("HEAPWRIGHT_HARDEN", harden)]);
            let said = complaints(&output);
            assert_eq!(code(&output) & 127, SIGABRT, "{mistake} under {harden}: {said}");
            assert!(said.contains("invalid pointer: ") && said.contains(NO_BEGINNING), "{mistake}, {harden}: {said}");
        }
    }
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

/// The forms of `wrong_size.cc`: all functions and operators that are told a block's size.
const SIZED: [&str; 7] =
    ["delete", "delete[]", "aligned delete", "aligned delete[]", "free_sized", "free_aligned_sized", "realloc"];

/// A block's size, the size that is told, and what cannot detect that: the default heap detects blocks that are too
/// short, `mapped` another number of pages.
const WRONG_SIZES: [(usize, usize, &[&str]); 6] = [
    (1000, 100_000, &[]),
    (1000, 300, &["cached", "mapped"]),
    (20_000, 40_000, &[]),
    (20_000, 7_000, &["cached"]),
    (1_000_000, 2_000_000, &[]),
    (1_000_000, 400_000, &["cached"]),
];

fn right_and_wrong_sizes(name: &str, variables: &[(&str, &str)]) {
    let program = compile("wrong_size.cc", &[]);
    let output = run(&program, &["right"], variables);
    assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{name}");
    // Under an emulator each run takes a second.
    let forms = if is_emulated() { &SIZED[..1] } else { &SIZED[..] };
    for form in forms {
        for (size, told, unseen) in WRONG_SIZES {
            let output = run(&program, &[form, &size.to_string(), &told.to_string()], variables);
            let said = complaints(&output);
            if unseen.contains(&name) {
                assert_eq!((code(&output), said), (0, String::new()), "{form} of {size} as {told} under {name}");
            } else {
                assert_eq!(code(&output) & 127, SIGABRT, "{form} of {size} as {told} under {name}: {said}");
                let (said_to_have, has) = (format!(") as {told} bytes: the block has "), " bytes (in C++: ");
                let is_whole = said.starts_with("heapwright: wrong size: free(") && said.contains(has);
                assert!(is_whole && said.contains(&said_to_have), "{form} of {size} as {told}: {said}");
            }
        }
    }
}

fn sizes_are_checked(policy: &str) {
    right_and_wrong_sizes(policy, &[("HEAPWRIGHT_POLICY", policy)]);
}

mod sizes {
    crate::under_every_policy!(super::sizes_are_checked);

    #[test]
    fn hardened() {
        let all = ["1", "guard", "random", "quarantine", "zero", "canary"];
        for measures in if super::is_emulated() { &all[..1] } else { &all[..] } {
            super::right_and_wrong_sizes(measures, &[("HEAPWRIGHT_HARDEN", measures)]);
        }
    }
}

/// A double free or a write after a free that the default heap does not detect may make a circle of free blocks.
/// Queries end, and report it once.
#[test]
fn queries_of_a_heap_with_a_circle_end_and_report_it() {
    let program = compile("circle.c", &["-Wno-use-after-free"]);
    for mistake in ["double", "write"] {
        for (query, mark) in [
            ("exit", " under cached"),
            ("mallinfo2", ""),
            ("malloc_info", "</malloc>"),
            ("malloc_stats", " under cached"),
        ] {
            let counted = [("HEAPWRIGHT_STATS", if query == "exit" { "1" } else { "0" })];
            let output = run_for(60, &program, &[mistake, query], &counted);
            let said = complaints(&output);
            assert_eq!(code(&output), 0, "{mistake}, {query}: {said}");
            assert_eq!(said.matches("heapwright: damaged heap: ").count(), 1, "{mistake}, {query}: {said}");
            assert!(said.contains(mark), "{mistake}, {query}: {said}");
        }
    }
}
