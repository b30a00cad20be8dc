//! `heapwright record --sites` follows stacks through the code of just-in-time compilers, and names it by perf's maps.
#![cfg(target_arch = "x86_64")]

mod common;

use std::fs;
use std::path::Path;

use common::{compiled, heapwright};
use serde_json::Value;

/// Returns the stack of the 50 blocks that the program allocates in code that it has made, and what the command said.
fn stack_of(folder: &Path, arguments: &[&str]) -> (Vec<String>, String) {
    let program =
        compiled(folder, "made", include_str!("programs/made.c"), &["-O2", "-fomit-frame-pointer", "-g", "-w"]);
    let trace = folder.join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--redact", "--sites=1", "-o"]).arg(&trace).arg("--").arg(program).args(arguments);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let process = String::from_utf8(output.stdout).unwrap();
    let _none_without_arguments = fs::remove_file(format!("/tmp/perf-{}.map", process.trim()));
    let mut command = heapwright();
    command.arg("sites").arg(&trace).args(["--json", "--all-frames", "--group", "stack", "--by", "held"]);
    let sites: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let row = sites["results"].as_array().unwrap().iter().find(|row| row["held"]["bytes"] == 50 * 5555).unwrap();
    (row["stack"].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap().to_owned()).collect(), said)
}

#[test]
fn code_that_a_map_names_is_followed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (stack, said) = stack_of(folder.path(), &["first"]);
    assert!(!said.contains("of /tmp/perf-"), "{said}");
    assert!(stack[0].starts_with("allocates made.c:"), "{stack:?}");
    assert_eq!(stack[1], "handler app.js:7", "{stack:?}");
    assert!(stack[2].starts_with("main made.c:"), "{stack:?}");
    // Code of which nothing is known may not keep frame pointers.
    let (stack, _) = stack_of(folder.path(), &[]);
    assert_eq!(stack.len(), 1, "{stack:?}");
}

#[test]
fn the_newest_names_of_a_long_map_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (stack, said) = stack_of(folder.path(), &["many"]);
    assert_eq!(stack[1], "handler app.js:7", "{stack:?}");
    assert!(!said.contains("of /tmp/perf-"), "{said}");
}

#[test]
fn a_map_that_is_too_long_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (stack, said) = stack_of(folder.path(), &["hole"]);
    assert_eq!(stack[1], "handler app.js:7", "{stack:?}");
    let line = said.lines().find(|line| line.contains("heapwright: of /tmp/perf-")).expect(&said);
    assert!(
        line.contains(".map, which has 1.50 GiB, only the last 1.00 GiB were read: older code of made ["),
        "{said}"
    );
}
