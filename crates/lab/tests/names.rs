//! Names of files, programs and allocators are any bytes: they do nothing to a terminal, a table or a line.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::heapwright;
use serde_json::Value;
use tempfile::TempDir;

/// A name with a bar, a newline, a tab and the escape of a terminal's sequences.
const NAME: &str = "a|b\nc\td\u{1b}[31me";

/// How it is shown.
const SHOWN: &str = "a|b\u{fffd}c\u{fffd}d\u{fffd}[31me";

fn place() -> (TempDir, PathBuf, PathBuf) {
    let folder = TempDir::new().unwrap();
    let [trace, program] = [".hwt", ""].map(|end| folder.path().join(format!("{NAME}{end}")));
    common::trace_with_sites(&trace, NAME);
    common::place_program(&program, &fs::read("/bin/echo").unwrap());
    (folder, trace, program)
}

fn run(folder: &Path, words: &str, names: &[&Path]) -> Output {
    let mut names = names.iter();
    let mut command = heapwright();
    for word in words.split(' ') {
        match word {
            "NAME" => command.arg(names.next().unwrap()),
            word => command.arg(word),
        };
    }
    command.current_dir(folder).output().unwrap()
}

/// Asserts that the name is shown, and its characters nowhere.
fn assert_is_harmless(words: &str, output: &Output) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let is_raw = text.contains(|c: char| c.is_control() && c != '\n') || text.contains("a|b\nc");
    assert!(!is_raw && text.contains(SHOWN), "{words}: {text:?}");
}

#[test]
fn names_do_nothing_to_a_terminal() {
    let (folder, trace, program) = place();
    for words in [
        "compare -p first --policies-only NAME",
        "report -p first --no-real NAME",
        "sites NAME",
        "sites NAME --tree",
        "watch --once NAME",
        "replay -p first NAME-none",
        "minimize -p first --region 64 --budget 1s NAME -o NAME",
        "export --to csv NAME -o NAME",
        "diff NAME NAME-none",
    ] {
        let out = folder.path().join(format!("{NAME}.out"));
        let none = folder.path().join(format!("{NAME}.none"));
        let second = if words.ends_with("-none") { &none } else { &out };
        let mut names = vec![trace.as_path(), second];
        if words.starts_with("replay") {
            names.remove(0);
        }
        if words.starts_with("export") {
            names = vec![&none, &out];
        }
        assert_is_harmless(words, &run(folder.path(), &words.replace("-none", ""), &names));
    }
    for words in [
        "record -o t.hwt -- NAME",
        "record -o NAME -- NAME",
        "run -p first -- NAME",
        "run -- NAME",
        "watch --once -- NAME",
        "compare -p first --policies-only -- NAME",
        "sites -- NAME",
        "report -p first --no-real -- NAME",
        "run -- NAME-none",
        "watch --once -- NAME-none",
        "record -- NAME-none",
    ] {
        let none = folder.path().join(format!("{NAME}.none"));
        let given = if words.ends_with("-none") { &none } else { &program };
        let names: &[&Path] = if words.contains("-o NAME") { &[&trace, given] } else { &[given] };
        assert_is_harmless(words, &run(folder.path(), &words.replace("-none", ""), names));
    }
}

#[test]
fn names_of_processes_do_nothing_to_a_terminal() {
    let (folder, _, program) = place();
    common::place_program(&program, &fs::read("/bin/sleep").unwrap());
    let mut sleeper = Command::new(&program).arg("100").spawn().unwrap();
    let pid = sleeper.id().to_string();
    for words in ["inspect", "watch --once --pid"] {
        let output = run(folder.path(), &format!("{words} {pid}"), &[]);
        let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n') && !text.contains("a|b\nc"), "{text:?}");
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn tables_of_markdown_keep_their_columns_and_json_the_names() {
    let (folder, trace, _) = place();
    // No library: its row has a note with the reason.
    let peer = format!("{NAME}=/dev/null");
    let mut command = heapwright();
    command.args(["compare", "--rounds", "1", "-p", "first", "--no-latencies", "--json", "c.json", "--markdown", "-"]);
    command.arg("--allocator").arg(&peer).arg(&trace).current_dir(&folder).env("HEAPWRIGHT_PEERS", folder.path());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for text in [&text, &said] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n') && !text.contains("b\nc"), "{text:?}");
    }
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| line.starts_with('|'))) {
        assert_eq!(columns(pair[0]), columns(pair[1]), "{text}");
    }
    let json: Value = serde_json::from_slice(&fs::read(folder.path().join("c.json")).unwrap()).unwrap();
    assert_eq!(json["trace"]["program"], NAME);
    let names = json["results"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str());
    assert!(names.into_iter().any(|name| name == NAME), "{json}");
}

/// The trace of a program has its name in front, and more behind it.
#[test]
fn a_program_has_the_longest_name_that_there_is() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("n".repeat(255));
    common::place_program(&program, &fs::read("/bin/ls").unwrap());
    let output = heapwright().args(["sites", "--"]).arg(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("held at"), "{said}");
}
