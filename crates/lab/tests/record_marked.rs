//! `heapwright record --marked` records what a program requests within the blocks that it marks.

mod common;

use std::fs::File;
use std::path::Path;
use std::process::Output;

use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader};

fn recorded(folder: &Path, options: &[&str]) -> (Output, Vec<Event>) {
    recorded_of(folder, include_str!("programs/marked.c"), options)
}

fn recorded_of(folder: &Path, source: &str, options: &[&str]) -> (Output, Vec<Event>) {
    let program = compiled(folder, "marked", source, &["-O1", "-w", "-fno-builtin"]);
    let trace = folder.join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--min-events", "0"]).args(options).arg("-o").arg(&trace).arg("--").arg(program);
    let output = command.output().unwrap();
    let mut events = Vec::new();
    if let Ok(file) = File::open(&trace) {
        let mut reader = Reader::new(file).unwrap();
        assert_eq!(reader.about().get("marked").is_some(), options.contains(&"--marked"));
        while let Some(event) = reader.next_event().unwrap() {
            events.push(event);
        }
    }
    (output, events)
}

#[test]
fn a_trace_of_marked_blocks_has_what_was_requested_in_them_until_it_is_freed() {
    for options in [&["--marked"][..], &["--marked", "--sites=1"], &["--marked", "--times"]] {
        let folder = tempfile::tempdir().unwrap();
        let (output, events) = recorded(folder.path(), options);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let (mut sizes, mut frees) = (Vec::new(), 0);
        for event in &events {
            match event {
                Event::Allocate { size, .. } => sizes.push(*size),
                Event::Free { .. } => frees += 1,
                Event::Thread { .. } => {}
                other => panic!("{options:?}: {other:?}"),
            }
        }
        assert_eq!(sizes, [30_000, 5_000, 5_001, 100_000], "{options:?}");
        // Three are freed; the fourth is resized outside of the block, and its new place is not recorded.
        assert_eq!(frees, 4, "{options:?}: {events:?}");
        assert!(!said.contains("not recorded"), "{said}");
        if options.contains(&"--sites=1") {
            // Resizes outside of the blocks have none.
            let row = said.lines().find(|line| line.contains("t.hwt")).unwrap();
            assert_eq!(row.split_whitespace().last(), Some("4"), "the sites of what is in the trace: {said}");
        }
    }
}

#[test]
fn the_growth_of_live_memory_in_a_block_is_returned() {
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = recorded(folder.path(), &["--marked"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let peaks: Vec<u64> = printed.split_whitespace().map(|peak| peak.parse().unwrap()).collect();
    // 30,000 + 5,000 + 5,001 - 7,001 before the inner block; glibc rounds each size up by less than 24 bytes.
    assert!((100_000..100_100).contains(&peaks[0]), "{printed}");
    assert!((133_000..133_200).contains(&peaks[1]), "{printed}");
}

/// Blocks of threads and tasks end in another order than they began in.
#[test]
fn blocks_that_overlap_have_peaks_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = recorded_of(folder.path(), include_str!("programs/overlapping.c"), &["--marked"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().unwrap() > 10_000);
}

#[test]
fn a_block_is_refused_when_the_whole_program_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (output, events) = recorded(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(events.len() > 2_000, "{}", events.len());
}
