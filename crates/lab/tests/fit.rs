//! The shortest region, from the command line.

use std::fs::File;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

fn heapwright() -> Command {
    Command::new(assert_cmd::cargo_bin!("heapwright"))
}

fn rows(trace: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = heapwright().args(["fit", "--json"]).args(arguments).arg(trace).assert().success();
    serde_json::from_slice::<Value>(&output.get_output().stdout).unwrap()["results"].as_array().unwrap().clone()
}

/// Sixteen blocks of 64 bytes of which every other goes, and then a block that fits none of the holes.
fn comb(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("comb.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("comb")).unwrap();
    let blocks: Vec<u64> = (0..16).map(|_| writer.allocate(Kind::Malloc, 64, 16).unwrap()).collect();
    blocks.iter().step_by(2).for_each(|&block| writer.free(block).unwrap());
    writer.allocate(Kind::Malloc, 100, 16).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn the_region_is_the_sum_of_blocks_and_holes() {
    let folder = TempDir::new().unwrap();
    let rows = rows(&comb(&folder), &["-p", "first", "-p", "buddy"]);
    assert_eq!(rows.len(), 2);
    let first = &rows[0];
    assert_eq!((&first["policy"], &first["seed"]), (&"first".into(), &Value::Null));
    assert_eq!(first["region"], 16 * 64 + 112);
    assert_eq!(first["certainty"], "first-fit");
    assert_eq!((&first["lower_bound"], &first["peak_requested"]), (&1024.into(), &1024.into()));
    assert_eq!(first["premises_hold"], true);
    assert_eq!(rows[1]["region"], 16 * 64 + 128);
    for row in &rows {
        let worst = row["worst_cases"].as_array().unwrap();
        assert!(
            worst
                .iter()
                .all(|bound| bound["says"] != "no-program-needs-more"
                    || bound["bytes"].as_u64() >= row["region"].as_u64())
        );
    }
}

#[test]
fn the_found_region_agrees_with_replay() {
    let folder = TempDir::new().unwrap();
    let trace = comb(&folder);
    for row in rows(&trace, &["--granule", "8", "--seeds", "3", "--exhaustive"]) {
        let region = row["region"].as_u64().unwrap();
        let refused = |region: u64| {
            let seed = row["seed"].as_u64().unwrap_or(1).to_string();
            let policy = row["policy"].as_str().unwrap();
            let output = heapwright()
                .args([
                    "replay",
                    "--json",
                    "--granule",
                    "8",
                    "--seed",
                    &seed,
                    "-p",
                    policy,
                    "--region",
                    &region.to_string(),
                ])
                .arg(&trace)
                .assert()
                .success();
            let results: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
            results["results"][0]["refused"].as_u64().unwrap()
        };
        assert_eq!(refused(region), 0, "{row}");
        assert_eq!(refused(region - 8), 1, "{row}");
        assert_ne!(row["certainty"], "local");
    }
}

#[test]
fn random_fit_has_a_row_per_seed() {
    let folder = TempDir::new().unwrap();
    let rows = rows(&comb(&folder), &["-p", "random", "--seeds", "4", "--seed", "7", "--jobs", "2"]);
    assert_eq!(rows.iter().map(|row| row["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 8, 9, 10]);
}

#[test]
fn the_table_names_sources() {
    let folder = TempDir::new().unwrap();
    let output = heapwright().arg("fit").arg(comb(&folder)).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    for part in ["worst", "1,136", "lower bound", "Robson", "Knuth"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn an_impossible_search_is_an_error_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let trace = comb(&folder);
    let fails = |code: i32, arguments: &[&str], says: &str| {
        let output = heapwright().arg("fit").args(arguments).assert().code(code);
        let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(text.contains(says), "{text}");
    };
    let trace = trace.to_str().unwrap();
    fails(2, &["--region", "4096", trace], "leave out --region");
    fails(2, &["--granule", "3", trace], "power of two");
    fails(1, &["no-such.hwt"], "no-such.hwt");

    let path = folder.path().join("absurd.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::default()).unwrap();
    writer.allocate(Kind::Malloc, 1 << 50, 16).unwrap();
    writer.finish().unwrap();
    let output = heapwright().args(["fit", "-p", "first"]).arg(&path).assert().code(1);
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.contains("region of 1.00 TiB, the longest that is tried"), "{text}");
    let output = heapwright().args(["fit", "--json", "-p", "first"]).arg(&path).assert().code(1);
    let row = &serde_json::from_slice::<serde_json::Value>(&output.get_output().stdout).unwrap()["results"][0];
    for key in ["region", "certainty", "fails_above", "tried"] {
        assert_eq!(row.get(key), Some(&serde_json::Value::Null), "{key} of {row}");
    }
}

/// A figure that is a limit of 64 bits is not printed as if it had been measured.
#[test]
fn what_cannot_be_counted_is_said_to_be_so() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long.hwt");
    for (sizes, expected) in [
        (&[1 << 53, 1 << 53][..], "no program needs more than a length above 16 EiB, more than any memory"),
        (&[u64::MAX, 16], "16 EiB or more live at one time, which is more than can be counted"),
    ] {
        let mut writer = Writer::new(File::create(&path).unwrap(), &About::default()).unwrap();
        for &size in sizes {
            writer.allocate(Kind::Malloc, size, 16).unwrap();
        }
        writer.finish().unwrap();
        let output = heapwright().args(["fit", "-p", "best"]).arg(&path).assert().code(1);
        let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
        assert!(text.contains(expected) && !text.contains("16.0 EiB"), "{text}");
        assert!(!text.contains("18,446,744"), "{text}");
    }
}

#[test]
fn a_trace_that_is_not_there_is_what_is_named() {
    let output = heapwright().args(["fit", "nowhere.hwt"]).assert().failure();
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("nowhere.hwt") && !said.contains("temporary"), "{said}");
}

/// From `always_enough` on, replays succeed; where no region is found, none is enough.
#[test]
fn always_enough_is_enough_for_the_policy() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, requests: [(u64, u64); 2]| {
        let path = folder.path().join(name);
        let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program(name)).unwrap();
        for (size, align) in requests {
            writer.allocate(Kind::Aligned, size, align).unwrap();
        }
        writer.finish().unwrap();
        path
    };
    let doubled = &rows(&write("doubled.hwt", [(272, 16), (528, 16)]), &["-p", "buddy"])[0];
    assert_eq!((&doubled["region"], &doubled["always_enough"]), (&1536.into(), &2048.into()));
    let aligned = write("aligned.hwt", [(16, 16), (16, 64)]);
    let output = heapwright().args(["fit", "--json", "-p", "buddy", "--header", "16"]).arg(&aligned).assert().failure();
    let row = &serde_json::from_slice::<Value>(&output.get_output().stdout).unwrap()["results"][0];
    assert_eq!((&row["region"], &row["always_enough"]), (&Value::Null, &Value::Null));
}
