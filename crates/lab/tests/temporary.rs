//! Temporary files lie where TMPDIR says, which is never made.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// The exit code and the messages of a command where the file system of TMPDIR has 64 KiB and `prepare` may fill it;
/// `None` where no file system can be mounted.
fn in_a_small_folder(prepare: &str, words: &str) -> Option<(Option<i32>, String)> {
    let folder = TempDir::new().unwrap();
    let small = folder.path().join("small");
    for name in ["small", "libraries"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let script = format!("mount -t tmpfs -o size=64k none small || exit 77; {prepare}; exec \"$0\" {words}");
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).arg(heapwright().get_program()).current_dir(&folder);
    command.env("TMPDIR", &small).env("XDG_RUNTIME_DIR", folder.path().join("libraries"));
    let output = command.output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).replace(small.to_str().unwrap(), "SMALL");
    if output.status.code() == Some(77) || said.contains("unshare") {
        eprintln!("passed over: no file system can be mounted here: {said}");
        return None;
    }
    Some((output.status.code(), said))
}

const FILL: &str = "head -c 1M /dev/zero > small/fill 2> small/none";

#[test]
fn a_full_folder_is_the_only_reason_that_is_named() {
    for (words, code, place) in [
        ("run -- ls", 125, "the statistics cannot be written to SMALL/heapwright-run-"),
        ("run -p first -- ls", 125, "the statistics cannot be written to SMALL/heapwright-run-"),
        ("sites -- ls", 1, "cannot write SMALL/heapwright-trace-"),
        ("report -p first --no-real -o t.html -- ls", 1, "cannot write SMALL/heapwright-trace-"),
        ("compare -p first --policies-only -- ls", 1, "cannot write SMALL/heapwright-compare-"),
    ] {
        let Some((ended, said)) = in_a_small_folder(FILL, words) else { return };
        assert_eq!((ended, said.lines().count()), (Some(code), 1), "{words}: {said}");
        assert!(said.contains(place) && said.contains("No space left on device"), "{words}: {said}");
        assert!(said.ends_with(": make room there, or name another directory by TMPDIR\n"), "{words}: {said}");
    }
}

/// The drop-in library says which file it could not write, and the command what that means.
#[test]
fn a_folder_that_the_program_fills_is_a_failure() {
    let Some((code, said)) = in_a_small_folder("true", &format!("run -- bash -c '{FILL}; true'")) else { return };
    assert_eq!(code, Some(125), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("heapwright: the statistics of bash in SMALL/heapwright-run-"), "{said}");
    assert!(last.ends_with(": make room there, or name another directory by TMPDIR"), "{said}");
    assert!(!said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn what_a_killed_command_left_is_removed_by_the_next_one_and_what_is_in_use_is_not() {
    let folder = TempDir::new().unwrap();
    let folders = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("heapwright-run-")).collect();
        names.sort();
        names
    };
    let start = |seconds: &str| {
        let before = folders().len();
        let mut command = heapwright();
        command.args(["run", "--", "sleep", seconds]).env("TMPDIR", folder.path()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let start = Instant::now();
        while folders().len() == before {
            assert!(start.elapsed() < Duration::from_secs(60), "it made no folder");
            sleep(Duration::from_millis(5));
        }
        child
    };
    let mut killed = start("1");
    let left = folders();
    let mut used = start("60");
    let in_use: Vec<String> = folders().into_iter().filter(|name| !left.contains(name)).collect();
    assert!(left.iter().all(|name| folders().contains(name)), "it is in use, too");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut next = heapwright();
    assert!(next.args(["run", "--", "true"]).env("TMPDIR", folder.path()).output().unwrap().status.success());
    assert_eq!(folders(), in_use);
    // SAFETY: kill has no preconditions; the process is one that this test has started.
    unsafe { libc::kill(used.id() as i32, libc::SIGTERM) };
    used.wait().unwrap();
    assert_eq!(folders(), Vec::<String>::new());
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
