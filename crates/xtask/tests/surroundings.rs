//! `cargo xtask surroundings`: figures of both mallocs, judged.

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

fn measure(arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("xtask"));
    for variable in ["LD_PRELOAD", "HEAPWRIGHT_POLICY", "HEAPWRIGHT_STATS", "HEAPWRIGHT_LIBRARY", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.args(["surroundings", "--rounds", "1"]).args(arguments).output().unwrap()
}

#[test]
fn figures_are_measured_under_both_mallocs() {
    let output = measure(&["--only", "RLIMIT_DATA 256 MiB, 1 MiB", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [row] = &document["results"].as_array().unwrap()[..] else { panic!("one row: {document}") };
    let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    let limit = 256.0 * 1048576.0;
    assert!(figure("system") > 0.9 * limit && figure("system") < limit, "{row}");
    assert!(figure("again") > 0.9 * limit && figure("ours") > 0.0 && figure("ours") < limit, "{row}");
    assert_eq!(row["holds"], figure("ours") >= 250.0 * 1048576.0);
    assert_eq!(output.status.code(), Some(if row["holds"] == true { 0 } else { 1 }));
}

#[test]
fn a_library_that_is_not_there_is_an_error() {
    let output = measure(&["--library", "/nowhere", "--only", "moves"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("/nowhere"), "{errors}");
}
