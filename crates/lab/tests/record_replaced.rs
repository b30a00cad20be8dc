//! Programs whose files are replaced while they run, as a rebuild does.

mod common;

use std::path::Path;

use common::{compiled, heapwright};
use heapwright_trace::Reader;

/// Replaces its own file before anything was asked for, and ends at once: its code is looked at afterwards.
const REPLACED: &str = "
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static void *allocating(void) { void *block = malloc(4321); __asm__(\"\"); return block; }
int main(int count, char **arguments) {
    if (count > 1 && rename(arguments[1], arguments[0]) != 0) return 1;
    for (int round = 0; round < 100; round++) allocating();
    return 0;
}
";
/// A function that the other program never calls lies where its own ones do.
const OTHER: &str = "
#include <stdlib.h>
__attribute__((noinline)) static void *other(void) { void *block = malloc(1); __asm__(\"\"); return block; }
int main(void) { for (int round = 0; round < 100; round++) { other(); other(); other(); } return 0; }
";

/// Records the program with these arguments; returns the innermost frames of all its requests, each once.
fn frames_of(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let trace = folder.join("t.hwt");
    let trace_text = trace.to_str().unwrap();
    let program = folder.join("program");
    let all = [&["record", "--sites=1", "-o", trace_text, "--", program.to_str().unwrap()], arguments].concat();
    let recorded = heapwright().args(&all).output().unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let mut reader = Reader::new(std::fs::File::open(&trace).unwrap()).unwrap().with_sites();
    let mut sites = Vec::new();
    while reader.next_event().unwrap().is_some() {
        sites.extend(reader.site());
    }
    let innermost = |site| -> Option<String> {
        let frame = reader.site_frames(site).next()?;
        Some(reader.frame_name(frame).unwrap_or(frame).to_owned())
    };
    let mut names: Vec<String> = sites.into_iter().filter_map(innermost).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn no_function_is_named_after_a_file_that_was_put_in_place_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let compile = |name, source| compiled(folder.path(), name, source, &["-O1", "-g", "-fno-builtin", "-w"]);
    compile("program", REPLACED);
    let frames = frames_of(folder.path(), &[]);
    assert!(frames.iter().any(|frame| frame.starts_with("allocating program.c:")), "{frames:?}");
    let other = compile("other", OTHER);
    let frames = frames_of(folder.path(), &[other.to_str().unwrap()]);
    assert!(!frames.is_empty() && frames.iter().all(|frame| !frame.contains("other")), "{frames:?}");
    assert!(frames.iter().any(|frame| frame.starts_with("program+0x")), "{frames:?}");
}
