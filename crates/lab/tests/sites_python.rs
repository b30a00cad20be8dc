//! `heapwright sites` of Python programs whose code objects are freed while they run.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{heapwright, python};
use serde_json::Value;

/// Returns what a program's functions hold at the peak, in bytes, by `function file`; `None` without Python.
fn held_by_function(folder: &Path, program: &str) -> Option<BTreeMap<String, u64>> {
    let Some(python) = python() else {
        eprintln!("skipped: python3 is none of 3.11 to 3.14");
        return None;
    };
    let file = folder.join("program.py");
    std::fs::write(&file, program).unwrap();
    let mut command = heapwright();
    command.args(["sites", "--python", "--every=1", "--limit=0", "--json", "--", &python, "-s"]).arg(file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["results"].as_array().unwrap();
    let mut held = BTreeMap::new();
    for row in rows {
        *held.entry(row["name"].as_str().unwrap().to_owned()).or_default() += row["held"]["bytes"].as_u64().unwrap();
    }
    Some(held)
}

/// As templates and the cells of notebooks are: each code object is freed before the next is made, which is then where
/// it was, and so are its strings.
#[test]
fn code_that_is_gone_keeps_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let program = r"
kept = [None] * 700
def run(number):
    cell = number % 7
    source = f'kept[{number}] = bytes({10_000 + 1_000 * cell})'
    exec(compile(source, f'cell-{cell}.py', 'exec'), {'kept': kept})
for number in range(700): run(number)
";
    let Some(held) = held_by_function(folder.path(), program) else { return };
    for cell in 0..7 {
        let bytes = held.get(&format!("<module> cell-{cell}.py:1")).copied().unwrap_or_default();
        let asked = 100 * (10_000 + 1_000 * cell);
        assert!((asked..asked + 20_000).contains(&bytes), "cell {cell} holds {bytes} of {asked}: {held:#?}");
    }
}
