//! `heapwright shm` on segments that were changed, truncated or made by another user: it never crashes, never trusts
//! them, and prints what to do.

mod common;
#[path = "common/segment.rs"]
mod segment;

use std::fs;

use heapwright_shared::SharedHeap;
use segment::{BROKEN, EPOCH, FIRST_ROOT, METADATA, NAMESPACE, Spot};

/// The commands that change nothing, whatever they find.
const LOOKING: [(&str, &[&str]); 4] =
    [("inspect", &[]), ("inspect", &["--json", "--blocks"]), ("check", &[]), ("reclaim", &["-n"])];

/// That looking changes nothing and never ends by a signal, and that a check fails for a reason that contains `words`.
#[track_caller]
fn is_refused(spot: &Spot, words: &[&str]) {
    let before = spot.bytes();
    for (command, options) in LOOKING {
        let outcome = spot.run(command, options);
        assert!(matches!(outcome.code, Some(0 | 1)), "{command}: {outcome:?}");
        assert!(!outcome.err.contains("panicked"), "{command}: {outcome:?}");
    }
    spot.run("check", &[]).says(1, &[&[spot.name.as_str()], words].concat());
    let json = spot.run("check", &["--json"]).json();
    assert_eq!(json[0]["ok"], false);
    assert!(!json[0]["problems"][0]["message"].as_str().unwrap().is_empty());
    assert!(spot.bytes() == before, "who only looks changes nothing");
}

#[test]
fn a_byte_changed_at_rest_is_found_and_repaired() {
    for at in METADATA.step_by(56) {
        let spot = Spot::at_rest("flipped", 60);
        spot.flip(at);
        is_refused(&spot, &["FAILED", "checksum", "repair"]);
        spot.run("inspect", &[]).says(0, &["corrupted", "policy", "granule"]);
        let repaired = spot.run("repair", &[]);
        // Where nothing can be believed, that is said; what was repaired is in order.
        match repaired.code {
            Some(0) => spot.run("check", &[]).says(0, &["ok"]),
            _ => repaired.says(1, &["corrupted", "remove"]),
        }
        spot.run("remove", &["--force"]).says(0, &["removed"]);
    }
}

#[test]
fn a_changed_header_is_refused() {
    for (at, word) in [(8, "version"), (16, "corrupted"), (48, "corrupted"), (120, "corrupted")] {
        let spot = Spot::at_rest("header", 3);
        spot.flip(at);
        is_refused(&spot, &["FAILED", word]);
        spot.run("inspect", &[]).says(1, &[word]);
        spot.run("repair", &[]).says(1, &[word]);
        spot.run("remove", &[]).says(1, &["--force"]);
        spot.run("remove", &["--force"]).says(0, &["removed"]);
    }
}

#[test]
fn a_segment_that_was_cut_is_refused() {
    for length in [40_000, 4096, 128] {
        let spot = Spot::at_rest("cut", 3);
        fs::File::options().write(true).open(spot.path()).unwrap().set_len(length).unwrap();
        is_refused(&spot, &["FAILED", &format!("{length} bytes long"), "remove"]);
        spot.run("repair", &[]).says(1, &["bytes long"]);
        spot.run("remove", &["--force"]).says(0, &["removed"]);
    }
}

#[test]
fn files_that_are_not_segments_are_left_alone() {
    for contents in [&b""[..], b"hello", &[0x5a; 70_000], &[0; 4096]] {
        let spot = Spot::new("foreign");
        fs::write(spot.path(), contents).unwrap();
        is_refused(&spot, &["FAILED", "not a segment"]);
        for (command, options) in [("repair", &[][..]), ("remove", &[]), ("remove", &["--force"]), ("reclaim", &[])] {
            spot.run(command, options).says(1, &["not a segment"]);
        }
        assert_eq!(spot.bytes(), contents);
    }
}

#[test]
fn damaged_segments_are_listed_and_foreign_files_are_not() {
    let (flipped, cut, foreign) = (Spot::at_rest("flipped", 3), Spot::at_rest("cut", 3), Spot::new("foreign"));
    flipped.flip(*METADATA.start());
    fs::File::options().write(true).open(cut.path()).unwrap().set_len(5000).unwrap();
    fs::write(foreign.path(), "hello").unwrap();
    assert_eq!(flipped.listed().unwrap()["state"], "corrupted");
    assert_eq!(cut.listed().unwrap()["state"], "wrong length");
    assert!(foreign.listed().is_none());
}

#[test]
fn missing_segments_are_reported() {
    let spot = Spot::new("missing");
    for command in ["inspect", "check", "repair", "reclaim", "remove"] {
        spot.run(command, &[]).says(1, &["there is no", &spot.name]);
    }
}

#[test]
fn a_heap_that_was_found_broken_is_repaired() {
    let (spot, _) = Spot::abandoned("broken");
    spot.write(EPOCH, &[BROKEN]);
    is_refused(&spot, &["FAILED", "repair"]);
    assert_eq!(spot.listed().unwrap()["state"], "broken");
    assert!(SharedHeap::open(&spot.place).is_err());
    spot.run("repair", &[]).says(0, &["damaged", "in order", "10 blocks"]);
    spot.run("check", &[]).says(0, &["ok"]);
    SharedHeap::open(&spot.place).unwrap().close().unwrap();
}

#[test]
fn a_root_that_points_nowhere_is_found_and_unset() {
    let (spot, _) = Spot::abandoned("dangling");
    spot.write(FIRST_ROOT, &64_u64.to_ne_bytes());
    is_refused(&spot, &["FAILED", "\"kept\"", "0x40", "no block"]);
    spot.run("inspect", &[]).says(0, &["no block"]);
    spot.run("repair", &[]).says(0, &["\"kept\"", "not set any more", "in order"]);
    spot.run("check", &[]).says(0, &["ok", "0 roots"]);
}

/// Makes the processes of a segment ones that have not announced themselves.
fn forget_announcements(spot: &Spot) {
    /// Where the process table begins, and the flags of births in its entries.
    const TABLE: u64 = 320;
    const FLAGS: u8 = 0b110;
    for entry in (TABLE..TABLE + 8 * 16).step_by(16).map(|entry| entry + 12) {
        let byte = spot.bytes()[entry as usize] & !FLAGS;
        spot.write(entry, &[byte]);
    }
}

/// Where it is not known of processes whether they live, none counts as dead unless the user says so.
#[test]
fn a_segment_of_another_or_unknown_namespace_is_taken_over_on_request() {
    for namespace in [0_u64, 77] {
        let (spot, _) = Spot::abandoned("namespace");
        spot.write(NAMESPACE, &namespace.to_ne_bytes());
        forget_announcements(&spot);
        assert_eq!(spot.listed().unwrap()["state"], "in use");
        spot.run("repair", &[]).says(1, &["unknown, because its namespace of processes is", "--take-over"]);
        spot.run("remove", &[]).says(1, &["--force"]);
        spot.run("repair", &["--take-over"]).says(0, &["its namespace of processes", "in order", "10 blocks"]);
        assert_eq!(spot.listed().unwrap()["state"], "at rest");
        SharedHeap::open(&spot.place).unwrap().close().unwrap();
    }
}

#[test]
fn a_copy_of_a_segment_in_use_is_taken_over_on_request() {
    let (original, copy) = (Spot::at_rest("original", 3), Spot::new("copy"));
    let user = original.attach(|heap| heap.allocate(100).map(drop));
    fs::copy(original.path(), copy.path()).unwrap();
    copy.run("repair", &[]).says(1, &["this is a copy", "--take-over"]);
    copy.run("remove", &[]).says(1, &["this is a copy", "--force"]);
    original.run("repair", &["--take-over"]).says(1, &["in use by"]);
    copy.run("repair", &["--take-over"]).says(0, &["this is a copy", "in order", "4 blocks"]);
    assert_eq!(copy.listed().unwrap()["state"], "at rest");
    assert_eq!(original.listed().unwrap()["state"], "in use");
    drop(user);
}

/// The numbers of a segment's processes may be those of others in the namespace of the one that takes it over.
#[test]
fn a_segment_of_another_namespace_is_taken_over_from_numbers_that_live_here() {
    let (original, copy) = (Spot::at_rest("here", 3), Spot::new("elsewhere"));
    let user = original.attach(|heap| heap.allocate(100).map(drop));
    fs::copy(original.path(), copy.path()).unwrap();
    copy.write(NAMESPACE, &77_u64.to_ne_bytes());
    forget_announcements(&copy);
    copy.run("repair", &["--take-over"]).says(0, &["its namespace of processes", "in order", "4 blocks"]);
    assert_eq!(copy.listed().unwrap()["state"], "at rest");
    drop(user);
}

/// Processes that announced themselves are known to be dead, in whichever namespace they were.
#[test]
fn a_segment_of_another_namespace_is_abandoned_when_its_processes_are_dead() {
    for namespace in [0_u64, 77] {
        let (spot, _) = Spot::abandoned("announced");
        spot.write(NAMESPACE, &namespace.to_ne_bytes());
        assert_eq!(spot.listed().unwrap()["state"], "abandoned");
        spot.run("repair", &[]).says(0, &["all its processes died", "10 blocks"]);
        assert_eq!(spot.listed().unwrap()["state"], "at rest");
    }
}

#[test]
fn another_users_segment_is_opened_on_request() {
    let spot = Spot::at_rest("stranger", 3);
    if std::os::unix::fs::chown(spot.path(), Some(12_345), None).is_err() {
        // Only the superuser can give files away.
        return;
    }
    spot.run("check", &[]).says(1, &["12345"]);
    spot.run("check", &["--any-owner"]).says(0, &["ok"]);
    spot.run("inspect", &["--any-owner"]).says(0, &["user 12345"]);
    assert!(spot.listed().is_none());
    spot.run("remove", &["--force"]).says(1, &["12345"]);
    spot.run("remove", &["--any-owner"]).says(0, &["removed"]);
}
