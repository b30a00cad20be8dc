//! `cargo xtask bars`: bars are judged one by one, and what is not measured does not hold.

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

fn xtask(arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("xtask"));
    for variable in ["LD_PRELOAD", "HEAPWRIGHT_POLICY", "HEAPWRIGHT_STATS", "HEAPWRIGHT_LIBRARY", "NO_COLOR"] {
        command.env_remove(variable);
    }
    // Without the peers that may have been built on this machine.
    command.env("HEAPWRIGHT_PEERS", "/nowhere").args(arguments).output().unwrap()
}

/// Without peers, what is compared with them is not measured, and what is not measured does not hold.
#[test]
fn bars_of_malloc_are_judged_one_by_one_from_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs.json");
    let only = ["bars", "malloc", "--quick", "--only", "start/true,scattered/95%", "--under", "cached"];
    let output = xtask(&[&only[..], &["--json", "--runs", runs.to_str().unwrap()]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("snmalloc"), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bars = document["results"].as_array().unwrap();
    assert!(bars.iter().all(|bar| bar["suite"] == "malloc"), "{bars:?}");
    let verdict = |what: &str| {
        let bar = bars.iter().find(|bar| bar["what"].as_str().unwrap().starts_with(what));
        let bar = bar.unwrap_or_else(|| panic!("{what}: {bars:?}"));
        assert_eq!(bar["measured"].is_null(), bar["verdict"] == "not_measured", "{bar}");
        bar["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("CPU time, mean of the suite"), "not_measured");
    assert_ne!(verdict("CPU time of each program"), "not_measured");
    assert_ne!(verdict("start/true, peak RSS"), "not_measured");
    assert_ne!(verdict("scattered/95%"), "not_measured");
    let runs: Value = serde_json::from_slice(&std::fs::read(&runs).unwrap()).unwrap();
    assert!(runs["samples"].as_array().unwrap().len() > 3);

    let output = xtask(&only);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("The bars") && printed.contains("not measured"), "{printed}");
}

#[test]
fn the_list_has_every_command_with_a_sentence() {
    let [list, nothing] = [&["--list"][..], &[]].map(|arguments| xtask(arguments).stdout);
    assert_eq!(list, nothing);
    let list = String::from_utf8(list).unwrap();
    for command in ["bars", "ci", "house", "kills", "soak", "loom", "miri", "races", "aarch64", "real-programs"] {
        let line = list.lines().find(|line| line.starts_with(&format!("cargo xtask {command} ")));
        assert!(line.is_some_and(|line| line.split_whitespace().count() > 5), "{command}: {list}");
    }
}

#[test]
fn a_job_that_does_not_exist_is_an_error() {
    let output = xtask(&["child", "nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("reserved"));
}
