//! `cargo xtask truth`: a program goes through all of it, beside a command that only writes what `compare` would.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use heapwright_testkit::library::place_program;

/// Writes its fixed answer to the file behind `--json`.
const FAKE: &str = r#"#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
while [ "$1" != --json ]; do shift; done
cat > "$2" <<'END'
{"recommendation": {"verdict": "change", "choice": "cached", "text": "Use cached: 99 % less time at the same memory."},
 "results": [
  {"name": "system", "kind": "system", "program": {"peak": {"median": 67108864, "interval": null}}},
  {"name": "cached", "kind": "allocator", "program": {"peak": {"median": 67108864, "interval": null}}}]}
END
"#;

fn truth(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("xtask"));
    command.env("HEAPWRIGHT_PEERS", "/nowhere").arg("truth").args(["--page", "page.md"]);
    command.args(arguments).current_dir(folder).output().unwrap()
}

#[test]
fn a_program_is_measured_once_and_its_page_written_from_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("compare");
    place_program(&fake, FAKE.as_bytes());
    let measure = ["--only", "steps", "--rounds", "1", "--command", "./compare", "--keep", "kept"];
    let output = truth(folder.path(), &measure);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = || fs::read_to_string(folder.path().join("page.md")).unwrap();
    assert!(page().contains("### steps") && page().contains("| cached | ") && page().contains("| use cached |"));
    assert!(page().contains(" | 64.0 MiB | "), "the prediction is there: {}", page());
    let before = page();

    let again = truth(folder.path(), &measure);
    assert!(String::from_utf8_lossy(&again.stderr).contains("measured before"));
    let calls = || fs::read_to_string(folder.path().join("calls")).unwrap().lines().count();
    assert_eq!(calls(), 1);
    fs::remove_file(folder.path().join("page.md")).unwrap();
    assert!(truth(folder.path(), &["--from", "kept"]).status.success());
    assert_eq!((page(), calls()), (before, 1));
}

#[test]
fn a_command_that_fails_is_named_with_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--only", "steps", "--rounds", "1", "--command", "/bin/false", "--keep", "kept"];
    let output = truth(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("steps: compare failed"));
    let output = truth(folder.path(), &["--only", "nothing like it", "--command", "/bin/true", "--keep", "kept"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no program"));
}
