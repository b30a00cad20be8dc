//! `heapwright sites` finds a leak, a peak and a churn among 200 functions.

mod common;
mod seeded {
    pub mod programs;
}

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::heapwright;
use seeded::programs::{CHURN, LEAK, Language, PEAK, program};
use serde_json::Value;

/// Records a program with the stacks of all requests.
fn recorded(folder: &Path, program: &Path) -> PathBuf {
    let trace = folder.join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--times", "--sites=1", "-o"]).arg(&trace).arg("--").arg(program);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

fn sites(trace: &Path, options: &[&str]) -> Output {
    let output = heapwright().arg("sites").arg(trace).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn lines(trace: &Path, options: &[&str]) -> Vec<String> {
    String::from_utf8(sites(trace, options).stdout).unwrap().lines().map(str::to_owned).collect()
}

fn json(trace: &Path, options: &[&str]) -> Value {
    serde_json::from_slice(&sites(trace, &[&["--json"], options].concat()).stdout).unwrap()
}

/// Asserts that the seeded functions are the top lines of their tables.
fn seeds_are_found(language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path(), &program(folder.path(), language));
    for (measure, function) in
        [("held", PEAK), ("leaked", LEAK), ("temporary", CHURN), ("calls", CHURN), ("churn", CHURN)]
    {
        let table = lines(&trace, &["--by", measure]);
        let rule = table.iter().position(|line| line.starts_with('─')).unwrap();
        assert!(table[rule + 1].contains(function), "{language:?} by {measure}: {table:#?}");
        let whole = json(&trace, &["--by", measure, "--limit", "0"]);
        let rows = whole["results"].as_array().unwrap();
        assert!(rows.len() > 150, "{language:?} has {} functions", rows.len());
        assert!(rows[0]["name"].as_str().unwrap().contains(function));
        // The rows are all blocks: nothing is counted twice or left out.
        for (amount, field) in [("held", "bytes"), ("leaked", "blocks"), ("churn", "blocks"), ("temporary", "bytes")] {
            let sum: u64 = rows.iter().map(|row| row[amount][field].as_u64().unwrap()).sum();
            assert_eq!(sum, whole[amount][field].as_u64().unwrap(), "{language:?}: {field} of {amount}");
        }
    }
}

#[test]
fn seeds_of_a_c_program_are_found() {
    seeds_are_found(Language::C);
}

#[test]
fn seeds_of_a_program_with_threads_are_found() {
    seeds_are_found(Language::Threads);
}

#[test]
fn seeds_of_a_cplusplus_program_are_found() {
    seeds_are_found(Language::CPlusPlus);
}

#[test]
fn seeds_of_a_rust_program_are_found() {
    seeds_are_found(Language::Rust);
}

#[test]
fn every_view_of_a_trace_has_the_same_totals() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path(), &program(folder.path(), Language::Threads));
    let whole = json(&trace, &[]);
    let held = whole["held"]["bytes"].as_u64().unwrap();
    for group in ["function", "line", "stack", "file", "module", "thread", "size"] {
        let grouped = json(&trace, &["--group", group, "--limit", "0"]);
        let rows = grouped["results"].as_array().unwrap();
        assert_eq!(rows.iter().map(|row| row["held"]["bytes"].as_u64().unwrap()).sum::<u64>(), held, "{group}");
    }
    let folded = lines(&trace, &["--folded"]);
    let values = folded.iter().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(values.sum::<u64>(), held);
    assert!(folded.iter().any(|line| line.contains(&format!("main;{PEAK} "))), "{folded:#?}");
    let top_down = lines(&trace, &["--tree"]);
    assert!(!top_down[2].contains(PEAK) && top_down.iter().any(|line| line.contains(PEAK)), "{top_down:#?}");
    let bottom_up = lines(&trace, &["--tree=bottom-up"]);
    assert!(bottom_up[2].contains(PEAK) && bottom_up[3..].iter().any(|line| line.contains("main ")), "{bottom_up:#?}");
}

#[test]
fn held_memory_is_that_of_the_moment_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path(), &program(folder.path(), Language::C));
    let at = |moment: &str| json(&trace, &["--at", moment])["held"]["bytes"].as_u64().unwrap();
    let whole = json(&trace, &[]);
    assert_eq!(at(&whole["at_event"].to_string()), whole["held"]["bytes"].as_u64().unwrap());
    assert_eq!(at("0"), 0);
    assert_eq!(at("100h"), whole["leaked"]["bytes"].as_u64().unwrap());
    assert_eq!(at("99999999999"), at("100h"));
}

#[test]
fn an_estimate_contains_the_truth_and_says_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), Language::C);
    let exact = json(&recorded(folder.path(), &program), &["--by", "churn"]);
    let output = heapwright().args(["sites", "--json", "--by", "churn", "--every", "8", "--"]).arg(&program).output();
    let sampled: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(sampled["sampled_one_in"], 8);
    assert_eq!(sampled["churn"], exact["churn"], "totals are exact");
    let (exact, row) = (&exact["results"][0], &sampled["results"][0]);
    assert_eq!(exact["name"], row["name"]);
    let (truth, estimate) = (exact["churn"]["bytes"].as_f64().unwrap(), row["churn"]["bytes"].as_f64().unwrap());
    let deviation = row["churn_deviation"].as_f64().unwrap();
    // Outside of six standard deviations once in 10^9 runs.
    assert!(deviation > 0.0 && (truth - estimate).abs() < 6.0 * deviation, "{truth} {estimate} {deviation}");
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("none.hwt");
    assert!(
        heapwright()
            .args(["record", "-o"])
            .arg(&trace)
            .args(["--", "ls"])
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let fails = |options: &[&str], expected: &str| {
        let output = heapwright().arg("sites").arg(&trace).args(options).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
    };
    fails(&[], "no call sites: record it with `heapwright record --sites=1`");
    fails(&["--group", "thread", "--at", "1s"], "no times");
    let usage = Command::new(assert_cmd::cargo::cargo_bin!("heapwright")).args(["sites"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}
