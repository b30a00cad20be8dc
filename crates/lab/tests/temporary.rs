//! Temporary files lie where TMPDIR says, which is never made.

mod common;

use std::fs;
use std::path::Path;

use common::heapwright;
use tempfile::TempDir;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/git.hwt");

/// Commands that need temporary files, and their exit code without a place for them. `T` is a trace.
const COMMANDS: [(&str, i32); 11] = [
    ("record -o t.hwt -- true", 125),
    ("record -o /dev/null -- true", 125),
    ("run -p first -- true", 125),
    ("watch --once -- true", 125),
    ("compare -p first --policies-only", 1),
    ("compare -p first --policies-only -- true", 1),
    ("replay --real -p first T", 1),
    ("minimize T -p first --region 4096 -o t.hwt", 1),
    ("sites -- true", 1),
    ("report -p first --no-real -o t.html -- true", 1),
    ("bench malloc --quick --only scattered --under cached", 1),
];

/// The only line of an error.
fn refusal(folder: &Path, words: &str, code: i32, place: &Path) -> String {
    let words = words.split(' ').map(|word| if word == "T" { TRACE } else { word });
    let mut command = heapwright();
    command.args(words.clone()).current_dir(folder).env("TMPDIR", place).env_remove("XDG_RUNTIME_DIR");
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{:?}: {error}", words.collect::<Vec<_>>());
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn a_missing_folder_is_named_with_what_to_do_and_not_made() {
    let folder = TempDir::new().unwrap();
    let [missing, file] = ["missing", "file"].map(|name| folder.path().join(name));
    fs::write(&file, "").unwrap();
    for (words, code) in COMMANDS {
        for place in [&missing, &file] {
            let error = refusal(folder.path(), words, code, place);
            let expected = format!("TMPDIR names {}, which is no folder: create it, or", place.display());
            assert!(error.contains(&expected), "{words}: {error}");
            assert!(!missing.exists(), "{words} made it");
        }
    }
}

/// As after a change of the user, or in a container.
#[test]
fn a_missing_folder_of_the_session_is_passed_over_and_not_made() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing");
    let mut command = heapwright();
    command.args(["run", "-p", "first", "--", "ls"]).current_dir(&folder);
    let output = command.env("XDG_RUNTIME_DIR", &missing).env("HOME", &missing).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!missing.exists());
}

#[test]
fn an_empty_name_of_a_folder_is_none() {
    let folder = TempDir::new().unwrap();
    let mut command = heapwright();
    command.args(["minimize", TRACE, "-p", "first", "--region", "4096", "--budget", "1", "-o"]);
    let output = command.arg(folder.path().join("t.hwt")).env("TMPDIR", "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
