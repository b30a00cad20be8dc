//! `heapwright record --sites` follows stacks through the code of just-in-time compilers, and names it by perf's maps.
#![cfg(target_arch = "x86_64")]

mod common;

use std::fs;
use std::path::Path;

use common::{compiled, heapwright};
use serde_json::Value;

/// Returns the stack of the 50 blocks that the program allocates in code that it has made.
fn stack_of(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let program =
        compiled(folder, "made", include_str!("programs/made.c"), &["-O2", "-fomit-frame-pointer", "-g", "-w"]);
    let trace = folder.join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--redact", "--sites=1", "-o"]).arg(&trace).arg("--").arg(program).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let process = String::from_utf8(output.stdout).unwrap();
    let _none_without_arguments = fs::remove_file(format!("/tmp/perf-{}.map", process.trim()));
    let mut command = heapwright();
    command.arg("sites").arg(&trace).args(["--json", "--all-frames", "--group", "stack", "--by", "held"]);
    let sites: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let row = sites["results"].as_array().unwrap().iter().find(|row| row["held"]["bytes"] == 50 * 5555).unwrap();
    row["stack"].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap().to_owned()).collect()
}

#[test]
fn code_that_a_map_names_is_followed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let stack = stack_of(folder.path(), &["with a map"]);
    assert!(stack[0].starts_with("allocates made.c:"), "{stack:?}");
    assert_eq!(stack[1], "handler app.js:7", "{stack:?}");
    assert!(stack[2].starts_with("main made.c:"), "{stack:?}");
    // Code of which nothing is known may not keep frame pointers.
    let stack = stack_of(folder.path(), &[]);
    assert_eq!(stack.len(), 1, "{stack:?}");
}
