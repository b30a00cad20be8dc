//! Programs that leave processes behind when they end, as daemons do.

mod common;

use std::process::{Command, Output};

use common::{compiled, heapwright};
use tempfile::TempDir;

/// Runs the command, whose arguments end before the program, with a program that leaves a process.
fn with_left(folder: &TempDir, arguments: &[&str], left: [&str; 3]) -> Output {
    let program = compiled(folder.path(), "left", include_str!("programs/left.c"), &[]);
    heapwright_with(arguments, folder).arg(program).args(left).output().unwrap()
}

/// The command up to the program's name, to be run in a folder.
fn heapwright_with(arguments: &[&str], folder: &TempDir) -> Command {
    let mut command = heapwright();
    command.args(arguments).arg("--").current_dir(folder.path());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_first_calls_of_a_process_that_is_left_are_recorded() {
    let folder = TempDir::new().unwrap();
    let output = with_left(&folder, &["record", "-o", "t.hwt"], ["50", "20000", "0"]);
    assert!(output.status.success() && said(&output).contains("40,000"), "{}", said(&output));
}

#[test]
fn a_process_that_is_left_and_makes_no_call_in_time_is_named() {
    let folder = TempDir::new().unwrap();
    for (command, code) in [
        (&["record", "-o", "t.hwt"][..], 125),
        (&["compare", "--policies-only", "-p", "first"], 1),
        (&["sites"], 1),
        (&["report", "-o", "page.html"], 1),
    ] {
        let output = with_left(&folder, command, ["2000", "1", "0"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
        assert!(said.contains("left [") && said.contains("had made no call yet"), "{command:?}: {said}");
    }
}

#[test]
fn a_process_that_is_left_cannot_be_confirmed() {
    let folder = TempDir::new().unwrap();
    let compare = ["compare", "--confirm", "--rounds", "1", "-p", "first"];
    let output = with_left(&folder, &compare, ["0", "20000", "1000"]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("was still running when the program ended"), "{said}");
    assert!(said.contains("--confirm measures what ends with the program"), "{said}");
}

#[test]
fn a_process_that_is_left_is_named_where_its_trace_is_not_kept() {
    let folder = TempDir::new().unwrap();
    let program = compiled(folder.path(), "left", include_str!("programs/left.c"), &[]);
    for command in [&["record", "-o", "t.hwt"][..], &["sites"], &["report", "--no-real", "-p", "first", "-o", "p.html"]]
    {
        let mut command = heapwright_with(command, &folder);
        let output = command.args(["bash", "-c", "\"$0\" 0 100 1000; true"]).arg(&program).output().unwrap();
        let said = said(&output);
        let expected = "was still running when the program ended, and had made few calls until then: keep it in the";
        assert!(said.contains("left [") && said.contains(expected), "{command:?}: {said}");
    }
    // Without any other trace, that is why there is none.
    let output = with_left(&folder, &["record", "-o", "t.hwt"], ["0", "100", "1000"]);
    let said = said(&output);
    let expected = "nothing was recorded: left [";
    assert!(output.status.code() == Some(125) && said.contains(expected) && said.contains("few calls"), "{said}");
}
