//! `heapwright shm` on segments that are in order, in use, or were left by processes that died.

mod common;
#[path = "common/segment.rs"]
mod segment;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::heapwright;
use heapwright_shared::{Place, SharedHeap};
use segment::{LOCK, Outcome, Spot, allocate};
use serde_json::Value;

fn shm(arguments: &[&str]) -> Outcome {
    Outcome::of(heapwright().arg("shm").args(arguments).output().unwrap())
}

#[test]
fn a_segment_from_its_making_to_its_end() {
    let spot = Spot::new("life");
    let options = ["--size", "128KiB", "--max-size", "1m", "--policy", "buddy", "--granule", "128", "--mode", "640"];
    let limits = ["--processes", "10", "--roots", "3"];
    spot.run("create", &[&options[..], &limits].concat()).says(0, &[&spot.name, "128 KiB", "1.00 MiB", "buddy"]);
    spot.run("create", &[]).says(1, &["exists already"]);

    let row = spot.json("inspect");
    let expected: [(&str, Value); 9] = [
        ("state", "at rest".into()),
        ("policy", "buddy".into()),
        ("granule", 128.into()),
        ("size", (128 << 10).into()),
        ("max_size", (1 << 20).into()),
        ("used", 0.into()),
        ("mode", "640".into()),
        ("max_processes", 10.into()),
        ("max_roots", 3.into()),
    ];
    for (key, value) in expected {
        assert_eq!(row[key], value, "{key}");
    }
    assert_eq!(spot.listed().unwrap()["state"], "at rest");
    spot.run("check", &[]).says(0, &["ok", &spot.name, "0 blocks"]);
    spot.run("reclaim", &[]).says(0, &["nothing"]);
    spot.run("repair", &[]).says(0, &["nothing was wrong", "in order"]);
    spot.run("remove", &[]).says(0, &["removed"]);
    assert!(!spot.path().exists() && spot.listed().is_none());
    spot.run("remove", &[]).says(1, &["there is no"]);
}

#[test]
fn a_name_with_a_slash_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.heap");
    let name = path.to_str().unwrap();
    shm(&["create", name, "--size", "64KiB"]).says(0, &[name]);
    assert!(fs::metadata(&path).unwrap().len() > 64 << 10);
    for command in ["inspect", "check", "repair", "remove"] {
        shm(&[command, name]).says(0, &[name]);
    }
    assert!(!path.exists());
    shm(&["create", "/nowhere/at/all"]).says(1, &["no directory", "/nowhere/at/all"]);
}

#[test]
fn blocks_of_slabs_count_as_blocks() {
    let spot = Spot::new("slabs");
    spot.run("create", &["--slabs"]).says(0, &[&spot.name]);
    let heap = SharedHeap::open(&spot.place).unwrap();
    allocate(&heap, 1000);
    heap.close().unwrap();
    spot.run("check", &[]).says(0, &["1,000 blocks"]);
    let row = spot.json("inspect");
    let counters = &row["counters"];
    assert_eq!((&counters["mallocs"], &counters["frees"]), (&1000.into(), &0.into()));
    assert_eq!(row["used"], row["processes"][0]["bytes"], "bytes of blocks, not of slabs");
    spot.run("inspect", &[]).says(0, &["100.0 %", "count a slab as one block"]);
    spot.run("repair", &[]).says(0, &["1,000 blocks used"]);
}

#[test]
fn inspect_shows_the_contents() {
    let spot = Spot::at_rest("inspect", 40);
    let heap = SharedHeap::open(&spot.place).unwrap();
    let blocks = allocate(&heap, 5);
    heap.set_root("orders", blocks[2]).unwrap();
    heap.deallocate(blocks[0]).unwrap();

    let row = spot.json("inspect");
    assert_eq!(row["state"], "in use");
    let mine = row["processes"].as_array().unwrap().iter().find(|process| process["state"] == "attached").unwrap();
    assert_eq!((&mine["pid"], &mine["blocks"]), (&std::process::id().into(), &4.into()));
    assert_eq!(row["roots"][0]["name"], "orders");
    assert_eq!(row["roots"][0]["offset"], blocks[2].get());
    assert_eq!(row["counters"]["mallocs"], 45);
    let holes = heap.holes().unwrap();
    assert_eq!((&row["holes"]["count"], &row["holes"]["total"]), (&holes.count.into(), &holes.total.into()));
    let in_classes = row["holes"]["histogram"].as_array().unwrap().iter().map(|class| class["count"].as_u64().unwrap());
    assert_eq!(in_classes.sum::<u64>(), holes.count as u64);
    assert!(row.get("blocks").is_none());

    let listed = spot.run("inspect", &["--json", "--blocks"]).json()[0]["blocks"].as_array().unwrap().clone();
    let found = heap.blocks().unwrap();
    assert_eq!(listed.len(), found.len());
    for (row, block) in listed.iter().zip(&found) {
        assert_eq!((&row["offset"], &row["size"]), (&block.offset.get().into(), &block.size.into()));
    }
    let text = spot.run("inspect", &["--blocks"]);
    let offset = format!("{:#x}", blocks[2].get());
    text.says(0, &["Map", "Processes", "Roots", "Holes", "Counters", "Blocks", "orders", &offset, "AAAA"]);
    assert!(!text.out.contains('\x1b'));
    heap.close().unwrap();
}

#[test]
fn segments_that_cannot_be_opened_for_lack_of_descriptors_are_not_called_missing() {
    let spot = Spot::at_rest("descriptors", 4);
    for words in ["list", "list --json", "top --once --every 10ms", "top --once --every 10ms --json"] {
        let failures = (3..12).filter(|limit| {
            let script = format!("ulimit -n {limit}; exec \"$0\" shm {words}");
            let output = Command::new("sh").args(["-c", &script]).arg(heapwright().get_program()).output().unwrap();
            let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if output.status.success() {
                assert!(said.contains(&spot.name), "{limit}, {words}: {said}");
                return false;
            }
            // 127: what the system's loader needs could not be opened.
            assert!(
                output.stdout.is_empty() && matches!(output.status.code(), Some(1 | 127)),
                "{limit}, {words}: {said}"
            );
            if output.status.code() == Some(1) {
                assert!(error.contains("ulimit -n") && error.lines().count() == 1, "{limit}, {words}: {error}");
            }
            output.status.code() == Some(1)
        });
        assert!(failures.count() > 0, "{words}");
    }
}

#[test]
fn control_characters_in_names_are_escaped() {
    let spot = Spot::new("escape\x1b[2J");
    let escaped = "heapwright-lab-escape\\u{1b}[2J";
    assert_eq!(spot.run("create", &[]).code, Some(0));
    for outcome in [shm(&["list"]), spot.run("check", &[]), spot.run("top", &["--once", "--every", "10ms"])] {
        outcome.says(0, &[escaped]);
        assert!(!outcome.out.contains('\x1b'), "{outcome:?}");
    }
    assert_eq!(spot.json("inspect")["place"], spot.path().to_str().unwrap());
    spot.run("create", &[]).says(1, &[escaped, "exists already"]);
    spot.run("remove", &[]).says(0, &[escaped, "removed"]);
}

#[test]
fn a_map_is_coloured_when_colours_are_on() {
    let spot = Spot::at_rest("colour", 40);
    let coloured = heapwright().args(["--color", "always", "shm", "inspect", &spot.name]).output().unwrap();
    let text = String::from_utf8(coloured.stdout).unwrap();
    assert!(text.contains("\x1b[33m█"), "blocks of one who closed the segment are yellow: {text}");
}

#[test]
fn memory_left_by_a_killed_process_is_reported_and_freed() {
    let (spot, pid) = Spot::abandoned("killed");
    let listed = spot.listed().unwrap();
    assert_eq!((&listed["state"], &listed["dead"]), (&"abandoned".into(), &1.into()));
    let process = spot.json("inspect")["processes"][0].clone();
    assert_eq!((&process["pid"], &process["state"]), (&pid.into(), &"dead".into()));
    assert_eq!(process["blocks"], 10);
    spot.run("check", &[]).says(0, &["ok", "died"]);

    let before = spot.bytes();
    let dry = spot.run("reclaim", &["--dry-run"]);
    dry.says(0, &["9 blocks", "would be freed", "\"kept\"", &pid.to_string()]);
    assert_eq!(dry.out.matches("0x").count(), 10);
    assert_eq!(spot.bytes(), before);

    spot.run("reclaim", &[]).says(0, &["9 blocks", "were freed"]);
    let row = spot.json("inspect");
    assert_eq!((&row["state"], &row["processes"][0]["blocks"]), (&"at rest".into(), &1.into()));
    spot.run("reclaim", &[]).says(0, &["0 blocks"]);
}

#[test]
fn memory_left_by_closed_processes_is_freed_on_request() {
    let spot = Spot::at_rest("closed", 25);
    spot.run("reclaim", &[]).says(0, &["nothing"]);
    spot.run("reclaim", &["--closed"]).says(0, &["25 blocks", "and 5 more"]);
    assert_eq!(spot.json("inspect")["used"], 0);
}

#[test]
fn a_segment_in_use_is_neither_repaired_nor_removed() {
    let spot = Spot::at_rest("busy", 3);
    let child = spot.attach(|_| Ok(()));
    let pid = child.pid.to_string();
    spot.run("repair", &[]).says(1, &["in use", &pid]);
    spot.run("remove", &[]).says(1, &["in use by 1 process that lives", "--force"]);
    assert_eq!(spot.listed().unwrap()["attached"], 1);
    spot.run("remove", &["--force"]).says(0, &["removed", "until it ends"]);
    assert!(!spot.path().exists());
}

/// The word of the lock of a segment while this process holds it, which works on the segment until that is seen.
fn held_word(spot: &Spot, heap: &SharedHeap) -> [u8; 8] {
    let file = fs::File::open(spot.path()).unwrap();
    let is_seen = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_seen.load(Ordering::Relaxed) {
                heap.deallocate(heap.allocate(100).unwrap()).unwrap();
            }
        });
        let mut word = [0; 8];
        while word[..4] == [0; 4] {
            file.read_exact_at(&mut word, LOCK).unwrap();
        }
        is_seen.store(true, Ordering::Relaxed);
        word
    })
}

#[test]
fn a_command_that_waits_for_a_process_names_it() {
    let spot = Spot::at_rest("waits", 3);
    let heap = SharedHeap::open(&spot.place).unwrap();
    let word = held_word(&spot, &heap);
    spot.write(LOCK, &word);
    let mut repair = heapwright();
    repair.args(["shm", "repair", &spot.name]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut repair = repair.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(repair.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    let expected = format!("process {} holds the lock; waiting for it, at most 10 s", std::process::id());
    assert!(said.contains(&expected), "{said}");
    spot.write(LOCK, &[0; 8]);
    Outcome::of(repair.wait_with_output().unwrap()).says(1, &["in use by processes that live"]);
}

#[test]
fn an_interrupted_operation_is_reported_and_repaired() {
    let (spot, pid) = Spot::abandoned("interrupted");
    spot.write(LOCK, &u64::from(pid).to_ne_bytes());
    let before = spot.bytes();
    for (command, options) in [("inspect", &[][..]), ("check", &[]), ("reclaim", &["--dry-run"])] {
        spot.run(command, options).says(0, &[&spot.name, &pid.to_string()]);
    }
    assert_eq!(spot.json("check")["state"], "interrupted");
    assert_eq!(spot.json("inspect")["interrupted_by"], pid);
    assert_eq!(spot.bytes(), before, "who only looks changes nothing, not even the lock");

    spot.run("repair", &[]).says(0, &[&pid.to_string(), "completed or undone", "10 blocks"]);
    assert_eq!(spot.json("inspect")["state"], "at rest");
    SharedHeap::open(&spot.place).unwrap().close().unwrap();
}

#[test]
fn usage_errors_exit_with_2() {
    let wrong: [&[&str]; 15] = [
        &[],
        &["inspcet", "x"],
        &["create"],
        &["create", ".."],
        &["create", "x", "--size", "1KB"],
        &["create", "x", "--size", "0"],
        &["create", "x", "--size", "64KiB", "--max-size", "32KiB"],
        &["create", "x", "--mode", "888"],
        &["create", "x", "--policy", "mapped"],
        &["create", "x", "--granule", "48"],
        &["create", "x", "--processes", "251"],
        &["create", "x", "--roots", "65537"],
        &["check"],
        &["inspect", "x", "y"],
        &["remove", ""],
    ];
    for arguments in wrong {
        let outcome = shm(arguments);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""), "{arguments:?}: {outcome:?}");
        assert!(!outcome.err.is_empty(), "{arguments:?}");
    }
    assert!(!Place::new("x").unwrap().path().exists());
}

#[test]
fn help_has_examples() {
    for command in ["create", "inspect", "check", "repair", "reclaim", "remove", "top"] {
        shm(&[command, "--help"]).says(0, &["Examples:", &format!("heapwright shm {command}")]);
    }
}

#[test]
fn shells_complete_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = heapwright().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        ["inspect", "reclaim", "take-over", "max-size"].iter().for_each(|word| assert!(text.contains(word), "{shell}"));
    }
}

#[test]
fn several_are_checked_at_once() {
    let (sound, missing) = (Spot::at_rest("sound", 2), Spot::new("missing"));
    let outcome = shm(&["check", &sound.name, &missing.name, "--json"]);
    assert_eq!(outcome.code, Some(1));
    let rows = outcome.json();
    assert_eq!((&rows[0]["ok"], &rows[1]["ok"]), (&true.into(), &false.into()));
    assert_eq!(rows[0]["problems"].as_array().unwrap().len(), 0);
    assert!(rows[1]["problems"][0]["message"].as_str().unwrap().contains("there is no"));
}

#[test]
fn top_says_which_operations_it_counts_by_process() {
    let spot = Spot::new("top-slabs");
    spot.run("create", &["--slabs"]).says(0, &[]);
    let heap = SharedHeap::open(&spot.place).unwrap();
    allocate(&heap, 10);
    spot.run("top", &["--once", "--every", "10ms"]).says(0, &["0 operations/s", "slab operations/s"]);
    let process = spot.run("top", &["--once", "--every", "10ms", "--json"]).json()[0]["processes"][0].clone();
    assert_eq!(process["slab_operations_per_second"], 0.0);
    assert!(process.get("operations_per_second").is_none());
    heap.close().unwrap();
}

#[test]
fn top_shows_who_has_what_without_the_lock() {
    let (spot, dead) = Spot::abandoned("top");
    let before = spot.bytes();
    let text = spot.run("top", &["--once", "--every", "50ms"]);
    text.says(0, &[&spot.name, "0 operations/s", "lock: held in 0 %", &dead.to_string(), "dead"]);
    assert!(!text.out.contains('\u{1b}'));
    let row = spot.run("top", &["--once", "--every", "50ms", "--json"]).json()[0].clone();
    assert_eq!((&row["processes"][0]["pid"], &row["processes"][0]["blocks"]), (&dead.into(), &10.into()));
    assert_eq!((&row["lock"]["looks"], &row["torn"]), (&50.into(), &false.into()));
    assert_eq!(spot.bytes(), before);

    let lines = spot.run("top", &["--seconds", "1", "--every", "300ms", "--json"]);
    assert!(lines.out.lines().count() >= 2, "{lines:?}");
    assert!(lines.out.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["schema"] == 1));
    Spot::new("top-missing").run("top", &["--once"]).says(1, &["there is no"]);
    shm(&["top", &spot.name, "--every", "0"]).says(2, &["at least 10ms"]);
}
