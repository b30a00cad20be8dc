//! `heapwright bench` measures what it says, and shows what is missing as missing.

mod common;

use std::path::Path;
use std::process::Stdio;

use common::heapwright;
use serde_json::Value;

fn bench(arguments: &[&str]) -> Vec<Value> {
    let output = heapwright().args(["bench", "--json", "--quick"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "progress is for terminals");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    json["results"].as_array().unwrap().clone()
}

fn row<'r>(rows: &'r [Value], layer: &str, subject: &str) -> &'r Value {
    let found = rows.iter().find(|row| row["layer"] == layer && row["subject"] == subject);
    found.unwrap_or_else(|| panic!("no row {layer} {subject}"))
}

#[test]
fn every_layer_has_its_rows() {
    let rows = bench(&["pair", "--policies", "first", "--allocators", "talc"]);
    for (layer, subject) in [
        ("engine", "no-op (harness)"),
        ("engine", "first"),
        ("fixed", "first"),
        ("fixed", "talc"),
        ("malloc", "system"),
        ("malloc", "system (A/A)"),
        ("malloc", "first"),
    ] {
        let row = row(&rows, layer, subject);
        assert_eq!((&row["workload"], &row["parameters"]["bytes"]), (&"pair".into(), &16.into()));
        assert!(row["note"].is_null(), "{row}");
        for figure in ["ns_per_op", "p50", "p99", "p9999", "max", "over_system"] {
            assert!(row[figure].as_f64().is_some_and(|value| value >= 0.0), "{figure} of {row}");
        }
        assert!(row["p50"].as_f64() <= row["p99"].as_f64() && row["p9999"].as_f64() <= row["max"].as_f64(), "{row}");
    }
    assert_eq!(row(&rows, "malloc", "system")["over_system"], 1.0);
}

#[test]
fn only_memory_is_written_to() {
    let rows = bench(&["steady", "--policies", "best", "--layers", "engine"]);
    let touched: Vec<&str> =
        rows.iter().filter(|row| row["touched"] == true).filter_map(|row| row["subject"].as_str()).collect();
    assert_eq!(touched, ["system", "system (A/A)", "no-op (harness)"]);
    assert!(rows.iter().any(|row| row["touched"] == false && row["subject"] == "best"));
}

/// A stand-in that the dynamic linker passes over: the program goes on with the system's malloc, and must not be
/// taken for ours.
#[test]
fn a_library_that_was_not_loaded_is_not_measured() {
    let output = heapwright()
        .args(["bench", "--json", "--quick", "pair", "--policies", "first", "--layers", "malloc"])
        .env("HEAPWRIGHT_LIBRARY", "/dev/null")
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["results"].as_array().unwrap();
    let ours = row(rows, "malloc", "first");
    assert!(ours["ns_per_op"].is_null() && ours["over_system"].is_null(), "{ours}");
    assert!(ours["note"].as_str().unwrap().contains("was not loaded"), "{ours}");
    assert!(row(rows, "malloc", "system")["ns_per_op"].is_number());
}

fn bench_shared(compiler: Option<&str>) -> Vec<Value> {
    let mut command = heapwright();
    command.args(["bench", "shared", "--json", "--processes", "1,2", "--repeat", "1"]);
    if let Some(compiler) = compiler {
        command.env("CXX", compiler);
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let segment = format!("/dev/shm/heapwright-bench-{}", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!Path::new(&segment).exists(), "a segment was left behind");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["results"].as_array().unwrap().clone()
}

#[test]
fn processes_share_heaps_and_boost_is_measured_or_missing() {
    let rows = bench_shared(None);
    let of = |subject: &'static str| rows.iter().filter(move |row| row["subject"] == subject);
    for policy in ["first", "best", "good", "buddy"] {
        assert_eq!(of(policy).count(), 2 * 2 * 2, "two patterns, two ranges of sizes, two numbers of processes");
        assert!(of(policy).all(|row| row["ns_per_op"].as_f64() > Some(0.0)), "{rows:#?}");
    }
    for row in of("boost rbtree") {
        assert!(row["ns_per_op"].is_number() != row["note"].is_string(), "{row:#}");
    }
}

#[test]
fn without_a_compiler_boost_is_reported_as_missing() {
    let rows = bench_shared(Some("/nowhere/c++"));
    let boost: Vec<&Value> = rows.iter().filter(|row| row["subject"] == "boost rbtree").collect();
    assert_eq!(boost.len(), 8);
    for row in boost {
        assert!(row["ns_per_op"].is_null() && row["note"].as_str().unwrap().contains("apt-get install"), "{row:#}");
    }
    assert!(rows.iter().all(|row| row["over_boost"].is_null()));
}

#[test]
fn unknown_names_are_usage_errors() {
    for arguments in [
        &["bench", "nothing"][..],
        &["bench", "--allocators=nobody"],
        &["bench", "--policies=none"],
        &["bench", "shared", "--processes=0"],
    ] {
        let output = heapwright().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}
