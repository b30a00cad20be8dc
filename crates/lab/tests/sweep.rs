//! Grids of parameters, in shards or not, interrupted or not: the same rows.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

fn heapwright() -> Command {
    Command::new(assert_cmd::cargo_bin!("heapwright"))
}

/// Blocks of growing sizes, of which every other goes before the larger ones come.
fn trace(folder: &TempDir, name: &str, blocks: u64) -> PathBuf {
    let path = folder.path().join(name);
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program(name)).unwrap();
    for round in 1..4 {
        let some: Vec<u64> =
            (1..=blocks).map(|size| writer.allocate(Kind::Malloc, size * 10 * round, 16).unwrap()).collect();
        some.iter().step_by(2).for_each(|&block| writer.free(block).unwrap());
    }
    writer.finish().unwrap();
    path
}

fn sweep(folder: &TempDir, output: &str, arguments: &[&str]) -> (PathBuf, String) {
    let output = folder.path().join(output);
    let trace = folder.path().join("a.hwt");
    let done = heapwright().arg("sweep").arg(trace).args(arguments).arg("-o").arg(&output).assert().success();
    (output, String::from_utf8(done.get_output().stdout.clone()).unwrap())
}

fn merge(folder: &TempDir, output: &str, shards: &[&Path]) -> PathBuf {
    let output = folder.path().join(output);
    heapwright().arg("merge").args(shards).arg("-o").arg(&output).assert().success();
    output
}

fn rows(path: &Path) -> Vec<HashMap<String, String>> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

const GRID: [&str; 8] =
    ["--granule", "8,16", "--min-remainder", "1,64", "--growth", "extend,pages:4096", "--seed", "1..3"];

#[test]
fn rows_agree_with_replay() {
    let folder = TempDir::new().unwrap();
    let trace = trace(&folder, "a.hwt", 30);
    let (output, _) = sweep(&folder, "all.csv", &["--granule", "8,32", "--region", "6KiB,1M", "--header", "32"]);
    let rows = rows(&output);
    assert_eq!(rows.len(), 7 * 2 * 2);
    for row in rows {
        let mut replay = heapwright();
        replay.args(["replay", "--json", "-p", &row["policy"]]);
        for option in ["granule", "header", "region"] {
            replay.arg(format!("--{option}")).arg(&row[option]);
        }
        let done = replay.arg(&trace).assert().success();
        let results: Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
        let result = &results["results"][0];
        for figure in [
            "events",
            "refused",
            "unknown",
            "peak_requested",
            "peak_live",
            "peak_heap",
            "splits",
            "coalesces",
            "holes",
            "moved",
        ] {
            assert_eq!(row[figure], result[figure].to_string(), "{figure} of {row:?}");
        }
        // JSON is read to the last digit but one.
        let (read, said) =
            (row["external_fragmentation"].parse::<f64>().ok(), result["external_fragmentation"].as_f64());
        assert!(read.zip(said).map_or(read == said, |(read, said)| (read - said).abs() < 1e-12), "{row:?}");
        assert_eq!((row["trace"].as_str(), row["growth"].as_str()), ("a", "fixed"));
    }
}

#[test]
fn shards_together_are_the_whole() {
    let folder = TempDir::new().unwrap();
    trace(&folder, "a.hwt", 30);
    let (whole, _) = sweep(&folder, "whole.csv", &[&GRID[..], &["--jobs", "1"]].concat());
    assert_eq!(rows(&whole).len(), (6 + 3) * 2 * 2 * 2);
    let shards: Vec<PathBuf> = (0..3)
        .map(|shard| {
            let (name, which) = (format!("part-{shard}.{}", ["csv", "parquet", "csv"][shard]), format!("{shard}/3"));
            sweep(&folder, &name, &[&GRID[..], &["--shard", &which, "--jobs", "3"]].concat()).0
        })
        .collect();
    let paths: Vec<&Path> = shards.iter().rev().map(PathBuf::as_path).collect();
    let merged = merge(&folder, "merged.csv", &paths);
    assert_eq!(fs::read_to_string(&whole).unwrap(), fs::read_to_string(merged).unwrap());
    // By way of Parquet, too.
    let parquet = merge(&folder, "merged.parquet", &paths);
    assert_eq!(&fs::read(&parquet).unwrap()[..4], b"PAR1");
    assert_eq!(fs::metadata(&parquet).unwrap().permissions(), fs::metadata(&whole).unwrap().permissions());
    let back = merge(&folder, "back.csv", &[&parquet]);
    assert_eq!(fs::read_to_string(&whole).unwrap(), fs::read_to_string(back).unwrap());
}

#[test]
fn shards_that_do_not_fit_together_are_refused() {
    let folder = TempDir::new().unwrap();
    trace(&folder, "a.hwt", 10);
    let part = |name: &str, more: &[&str]| sweep(&folder, name, &[&["-p", "first,best"], more].concat()).0;
    let (zero, one) = (part("0.csv", &["--shard", "0/2"]), part("1.csv", &["--shard", "1/2"]));
    let other = part("other.csv", &["--granule", "8"]);
    let fails = |shards: &[&Path], says: &str| {
        let output = folder.path().join("merged.csv");
        let done = heapwright().arg("merge").args(shards).arg("-o").arg(&output).assert().code(1);
        let text = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(text.contains(says) && !output.exists(), "{text}");
    };
    fails(&[&one], "1 of 2 points are missing: 0");
    fails(&[&zero, &one, &zero], "there twice: 0");
    fails(&[&zero, &other], "another sweep");
    let text = folder.path().join("text.csv");
    fs::write(&text, "a,b\n1,2\n").unwrap();
    fails(&[&zero, &text], "no file of a sweep");
    fails(&[&folder.path().join("none.csv")], "none.csv");
}

#[test]
fn an_interrupted_sweep_is_resumed() {
    let folder = TempDir::new().unwrap();
    trace(&folder, "a.hwt", 30);
    let (whole, _) = sweep(&folder, "whole.csv", &GRID);
    let bytes = fs::read(&whole).unwrap();
    let output = folder.path().join("again.csv");
    for length in [0, 10, 500, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
        fs::write(folder.path().join("again.csv.partial"), &bytes[..length]).unwrap();
        sweep(&folder, "again.csv", &[&GRID[..], &["--resume"]].concat());
        assert_eq!(fs::read(&output).unwrap(), bytes, "cut off after {length} bytes");
        assert!(!folder.path().join("again.csv.partial").exists());
        fs::remove_file(&output).unwrap();
    }
    // As Parquet: the rows are CSV until all of them exist, and a complete file stays as it is.
    fs::write(folder.path().join("again.parquet.partial"), &bytes[..bytes.len() / 3]).unwrap();
    let (parquet, _) = sweep(&folder, "again.parquet", &[&GRID[..], &["--resume"]].concat());
    assert!(!folder.path().join("again.parquet.partial").exists());
    let (_, said) = sweep(&folder, "again.parquet", &[&GRID[..], &["--resume"]].concat());
    assert!(said.contains("there already"), "{said}");
    assert_eq!(fs::read(merge(&folder, "back.csv", &[&parquet])).unwrap(), bytes);
}

#[test]
fn files_of_other_sweeps_are_left_alone() {
    let folder = TempDir::new().unwrap();
    let trace = trace(&folder, "a.hwt", 10);
    let (whole, _) = sweep(&folder, "whole.csv", &["-p", "first"]);
    let fails = |output: &Path, arguments: &[&str], says: &str| {
        let before = fs::read(output).ok();
        let done = heapwright().arg("sweep").arg(&trace).args(arguments).arg("-o").arg(output).assert().failure();
        let text = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(text.contains(says), "{text}");
        assert_eq!(fs::read(output).ok(), before);
    };
    fails(&whole, &["-p", "first"], "--resume");
    fails(&whole, &["-p", "best", "--resume"], "another sweep");
    fails(&whole, &["-p", "first", "--shard", "1/2", "--resume"], "another s");
    let diary = folder.path().join("diary.csv");
    fs::write(&diary, "day,what\nmonday,nothing\n").unwrap();
    fails(&diary, &["--resume"], "no file of a sweep");
    fails(&folder.path().join("rows.txt"), &[], ".csv or .parquet");
    fails(&folder.path().join("x.csv"), &["--granule", "x"], "--granule");
    fails(&folder.path().join("x.csv"), &["--growth", "much"], "--growth");
    fails(&folder.path().join("x.csv"), &["--seed", "9..1"], "--seed");
}

#[test]
fn every_rule_is_a_column_and_agrees_with_replay() {
    let folder = TempDir::new().unwrap();
    let trace = trace(&folder, "a.hwt", 30);
    let mine = folder.path().join("mine.rules");
    fs::write(&mine, "report000\nleast = 40, zero = block\n").unwrap();
    let sets = format!("report000,report003,{}", mine.display());
    let lists = ["--rules", &sets, "--merging", "both,deferred", "--split", "low,high", "-p", "next,worst,good"];
    let odd = ["--rover", "wraps,freed", "--worst", "largest,never-exact", "--align", "1,64"];
    let (output, _) = sweep(&folder, "all.csv", &[&lists[..], &odd].concat());
    let rows = rows(&output);
    assert_eq!(rows.len(), 3 * 3 * 2 * 2 * 2 * 2 * 2);
    for row in rows.iter().step_by(7) {
        let mut replay = heapwright();
        replay.args(["replay", "--json", "-p", &row["policy"]]);
        for option in
            ["granule", "header", "align", "min_remainder", "least", "zero", "merging", "split", "rover", "worst"]
        {
            replay.arg(format!("--{}", option.replace('_', "-"))).arg(&row[option]);
        }
        match row["growth"].as_str() {
            "fixed" => replay.arg("--region").arg(&row["region"]),
            growth => replay.arg("--growth").arg(growth),
        };
        let done = replay.arg(&trace).assert().success();
        let results: Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
        let result = &results["results"][0];
        for figure in ["refused", "peak_requested", "peak_heap", "splits", "coalesces", "holes", "live"] {
            assert_eq!(row[figure], result[figure].to_string(), "{figure} of {row:?}");
        }
        assert_eq!(row["engine"], result["engine"].as_str().unwrap());
    }
    assert!(rows.iter().any(|row| row["engine"] == "fast") && rows.iter().any(|row| row["engine"] == "reference"));
}

#[test]
fn rules_of_one_policy_are_swept_under_that_policy() {
    let folder = TempDir::new().unwrap();
    trace(&folder, "a.hwt", 10);
    let (output, _) = sweep(&folder, "own.csv", &["--rules", "report002"]);
    let own: Vec<_> = rows(&output).into_iter().map(|row| (row["policy"].clone(), row["rules"].clone())).collect();
    assert_eq!(own, [("buddy".to_owned(), "report002".to_owned())]);
    for (arguments, why) in [
        (["--rules", "report002", "-p", "best"], "these rules belong to the policy buddy"),
        (["--rules", "report001", "-p", "first"], "these rules have a fixed region: give its length, as in --region"),
    ] {
        let output = folder.path().join(format!("{}.csv", arguments[3]));
        let trace = folder.path().join("a.hwt");
        let done = heapwright().arg("sweep").arg(trace).args(arguments).arg("-o").arg(&output).assert().code(1);
        let said = String::from_utf8(done.get_output().stdout.clone()).unwrap();
        assert!(said.contains(&format!("not simulated: 1 point: {why}")), "{said}");
        assert_eq!(rows(&output)[0]["peak_heap"], "");
    }
}

#[test]
fn invalid_rules_have_rows_with_the_reason() {
    let folder = TempDir::new().unwrap();
    trace(&folder, "a.hwt", 10);
    let (output, said) = sweep(&folder, "all.csv", &["-p", "first,best", "--granule", "16,24", "--header", "0,8"]);
    assert!(said.contains("not simulated: 4 points: ") && said.contains("not simulated: 2 points: "), "{said}");
    let rows = rows(&output);
    assert_eq!(rows.len(), 8);
    for row in rows {
        let sensible = row["granule"] == "16" && row["header"] == "0";
        assert_eq!((row["not_simulated"].is_empty(), !row["peak_heap"].is_empty()), (sensible, sensible), "{row:?}");
    }
}

/// The system may have the memory at the next attempt: no row is written for such a point.
#[test]
fn a_point_without_memory_ends_the_sweep_and_is_tried_again() {
    let folder = TempDir::new().unwrap();
    trace(&folder, "a.hwt", 10);
    let output = folder.path().join("s.csv");
    let script = r#"ulimit -v 400000 && exec "$0" "$@""#;
    let arguments = ["sweep", "a.hwt", "-p", "first,best", "--region", "1M,500G", "--jobs", "1", "-o", "s.csv"];
    let run = |resume: &[&str]| {
        let mut command = heapwright();
        command.current_dir(folder.path()).args(arguments).args(resume);
        command
    };
    let limited = Command::new("sh")
        .args(["-c", script])
        .arg(heapwright().get_program())
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(limited.stderr).unwrap();
    assert_eq!(limited.status.code(), Some(1), "{said}");
    assert!(said.contains("a.hwt: point ") && said.contains("no memory") && said.contains("ulimit -v"), "{said}");
    assert!(!output.exists());
    run(&["--resume"]).assert().success();
    let rows = rows(&output);
    assert!(rows.len() == 4 && rows.iter().all(|row| row["not_simulated"].is_empty()), "{rows:?}");
}

#[test]
fn a_trace_that_cannot_be_read_leaves_nothing_that_is_in_the_way() {
    let folder = TempDir::new().unwrap();
    let (empty, output) = (folder.path().join("empty.hwt"), folder.path().join("s.csv"));
    fs::write(&empty, "").unwrap();
    heapwright().arg("sweep").arg(&empty).args(["--policy", "first", "-o"]).arg(&output).assert().failure();
    assert!(!output.with_extension("csv.partial").exists());
}
