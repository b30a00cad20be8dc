//! Attacks on the heap, and the hardening measures that stop them.

mod support;

use support::{code, compile, complaints, is_emulated, run};

const MEASURES: [&str; 5] = ["guard", "random", "quarantine", "zero", "canary"];

/// The names of the full level.
const FULL: [&str; 2] = ["full", "1"];

/// The measures of the light level.
const LIGHT: [&str; 2] = ["guard", "canary"];

/// The outcome of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It succeeded.
    Success,
    /// It had no effect.
    Foiled,
    /// A fault ended the process.
    Fault,
    /// The heap detected it, reported it and ended the process.
    Named(&'static str),
}

use End::{Fault, Foiled, Named, Success};

/// The attack's name; its outcome by default; the measures that change the outcome alone, and that outcome.
struct Attack(&'static str, End, &'static [(&'static str, End)]);

const OVERFLOW: End = Named("overflow: the bytes behind the block at 0x");
const USE_AFTER_FREE: End = Named("use after free: byte ");
const DOUBLE_FREE: End = Named("double free: free(0x");

/// The measure stops the attack with some probability.
const BY_CHANCE: End = Named("by chance");

const ATTACKS: &[Attack] = &[
    Attack("over-long-blocks", Success, &[("guard", Fault)]),
    Attack("over-slabs", Success, &[("guard", Fault)]),
    Attack("byte-over", Success, &[("canary", OVERFLOW)]),
    Attack("byte-over-realloc", Success, &[("canary", OVERFLOW)]),
    Attack("byte-over-long", Success, &[("canary", OVERFLOW)]),
    Attack("write-after-free", Success, &[("zero", USE_AFTER_FREE)]),
    Attack("write-to-freed-long", Success, &[("quarantine", Fault)]),
    Attack("read-after-free", Success, &[("zero", Foiled)]),
    Attack("free-from-another", Success, &[("quarantine", DOUBLE_FREE), ("random", BY_CHANCE)]),
    Attack("free-from-another-later", Success, &[("quarantine", DOUBLE_FREE), ("random", BY_CHANCE)]),
    Attack("predict", Success, &[("random", Foiled)]),
    // Under every measure, each free is checked against a record.
    Attack(
        "free-twice-apart",
        Success,
        &[
            ("guard", DOUBLE_FREE),
            ("random", DOUBLE_FREE),
            ("quarantine", DOUBLE_FREE),
            ("zero", DOUBLE_FREE),
            ("canary", DOUBLE_FREE),
        ],
    ),
    // Under every measure, free blocks contain no links.
    Attack(
        "forge-link-with-key",
        Success,
        &[("guard", Foiled), ("random", Foiled), ("quarantine", Foiled), ("zero", USE_AFTER_FREE), ("canary", Foiled)],
    ),
];

/// Returns the outcome of an attack under measures.
fn end_of(attack: &str, measures: &str) -> End {
    let output = run(&compile("attack.c", &[]), &[attack], &[("HEAPWRIGHT_HARDEN", measures)]);
    let said = complaints(&output);
    const SIGABRT: i32 = 6;
    const SIGSEGV: i32 = 11;
    match (code(&output), String::from_utf8_lossy(&output.stdout).trim_end()) {
        (0, "went on") => Success,
        (0, "foiled") => Foiled,
        (code, "") if code & 127 == SIGSEGV => Fault,
        (code, "") if code & 127 == SIGABRT => {
            let names = [OVERFLOW, USE_AFTER_FREE, DOUBLE_FREE, INVALID, DAMAGED];
            let is_said = |name: &End| matches!(name, Named(name) if said.starts_with(&format!("heapwright: {name}")));
            assert_eq!(said.lines().count(), 1, "{attack} under {measures}: {said}");
            names.into_iter().find(is_said).unwrap_or_else(|| panic!("{attack} under {measures}: {said}"))
        }
        (code, text) => panic!("{attack} under {measures}: {code}, {text}, {said}"),
    }
}

const INVALID: End = Named("invalid pointer: free(0x");
const DAMAGED: End = Named("damaged heap: ");

#[test]
fn a_measure_stops_what_it_is_for_and_nothing_else_does() {
    for Attack(attack, by_default, stopped) in ATTACKS {
        assert_eq!(end_of(attack, ""), *by_default, "{attack} by default");
        for measure in MEASURES {
            let expected = stopped.iter().find(|(name, _)| *name == measure).map_or(*by_default, |(_, end)| *end);
            let found = end_of(attack, measure);
            assert!(expected == BY_CHANCE || found == expected, "{attack} under {measure}: {found:?}");
        }
        for level in FULL {
            assert_ne!(end_of(attack, level), Success, "{attack} under {level}");
        }
    }
}

/// The light level stops what its measures stop, and has the price of no other.
#[test]
fn the_light_level_stops_what_its_measures_stop() {
    for Attack(attack, by_default, stopped) in ATTACKS {
        let expected = stopped.iter().find(|(name, _)| LIGHT.contains(name)).map_or(*by_default, |(_, end)| *end);
        assert_eq!(end_of(attack, "light"), expected, "{attack}");
    }
}

#[test]
fn some_attacks_are_always_stopped() {
    for measures in ["", "light", "full"].into_iter().chain(MEASURES) {
        assert_eq!(end_of("free-twice", measures), DOUBLE_FREE, "{measures}");
        // When the pages of a block were unmapped, the heap cannot know that it was a block.
        assert!([DOUBLE_FREE, INVALID].contains(&end_of("free-twice-long", measures)), "{measures}");
        assert_ne!(end_of("forge-link", measures), Success, "{measures}");
    }
}

/// Links are XORed with a key, so that a plain pointer decodes to an address that no process has.
#[test]
fn a_forged_link_faults_before_it_is_handed_out() {
    if !is_emulated() {
        assert_eq!(end_of("forge-link", ""), Fault);
    }
}

#[test]
fn links_that_lead_to_no_block_are_found_when_lists_are_filled() {
    assert_eq!(end_of("bend-links", ""), DAMAGED);
}

#[test]
fn how_far_the_heap_is_from_the_libraries_is_drawn() {
    let difference = |measures: &str| {
        let run = || {
            let output = run(&compile("attack.c", &[]), &["print-distance"], &[("HEAPWRIGHT_HARDEN", measures)]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().next().and_then(|line| line.parse::<i64>().ok()).expect("the distance is printed")
        };
        let all: Vec<i64> = (0..6).map(|_| run()).collect();
        all.iter().max().unwrap() - all.iter().min().unwrap()
    };
    if is_emulated() {
        return;
    }
    assert!(difference("") > 2 && difference("random") > 2);
}
