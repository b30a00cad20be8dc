//! Long traces made small, from the command line.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use heapwright_trace::{About, Event, Kind, Reader, Writer};
use tempfile::TempDir;

/// A command that takes this long hangs.
const LONG: Duration = Duration::from_secs(60);

fn heapwright() -> Command {
    Command::new(assert_cmd::cargo_bin!("heapwright"))
}

/// Three hundred small blocks that come and go, with one large one among them.
fn trace(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("long.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("long")).unwrap();
    let mut last = Vec::new();
    for round in 0..300 {
        let size = if round == 150 { 50_000 } else { 16 + round % 7 * 16 };
        last.push(writer.allocate(Kind::Malloc, size, 16).unwrap());
        if round % 3 == 0 {
            writer.free(last.remove(0)).unwrap();
        }
        if round % 50 == 7 {
            let block = last.pop().unwrap();
            last.push(writer.resize(block, 200).unwrap());
        }
    }
    writer.finish().unwrap();
    path
}

/// Blocks of which one in eight stays, and then longer ones, which fit none of the holes.
fn comb(folder: &TempDir, teeth: usize) -> PathBuf {
    let path = folder.path().join("comb.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("comb")).unwrap();
    let blocks: Vec<u64> = (0..8 * teeth).map(|_| writer.allocate(Kind::Malloc, 64, 16).unwrap()).collect();
    for (_, &block) in blocks.iter().enumerate().filter(|(at, _)| at % 8 != 7) {
        writer.free(block).unwrap();
    }
    for _ in 0..teeth {
        writer.allocate(Kind::Malloc, 512, 16).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn minimize(folder: &TempDir, trace: &Path, arguments: &[&str]) -> (String, Vec<Event>, About) {
    let output = folder.path().join("small.hwt");
    let done = heapwright().arg("minimize").arg(trace).args(arguments).arg("-o").arg(&output).assert().success();
    let reader = Reader::new(File::open(&output).unwrap()).unwrap();
    let about = reader.about().clone();
    (String::from_utf8(done.get_output().stdout.clone()).unwrap(), reader.map(Result::unwrap).collect(), about)
}

fn refused(trace: &Path, region: &str) -> u64 {
    let done = heapwright().args(["replay", "--json", "-p", "first", "--region", region]).arg(trace).assert().success();
    let results: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    results["results"][0]["refused"].as_u64().unwrap()
}

#[test]
fn a_refusal_takes_a_single_block() {
    let folder = TempDir::new().unwrap();
    let (said, events, about) = minimize(&folder, &trace(&folder), &["--region", "40000", "-p", "first"]);
    assert_eq!(events, [Event::Allocate { block: 0, kind: Kind::Malloc, size: 40_001, align: 16 }]);
    assert!(said.contains("1 event of 1 block") && said.contains("No block more can be left out"), "{said}");
    assert_eq!((about.get("program"), about.get("minimized from")), (Some("long"), Some("long.hwt")));
    assert_eq!(refused(&folder.path().join("small.hwt"), "40000"), 1);
}

/// The trace is written once it is known to be right, and nothing is read back from a pipe.
#[test]
fn standard_output_gets_the_trace_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let trace = trace(&folder);
    for output in ["-", "/dev/stdout"] {
        let arguments = ["--region", "40000", "-p", "first", "-o", output];
        let mut command = heapwright();
        let done = command.arg("minimize").arg(&trace).args(arguments).timeout(LONG).assert().success();
        let reader = Reader::new(done.get_output().stdout.as_slice()).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), 1);
        assert!(String::from_utf8_lossy(&done.get_output().stderr).contains("1 event of 1 block"));
    }
}

#[test]
fn a_ratio_takes_blocks_and_a_hole_between_them() {
    let folder = TempDir::new().unwrap();
    let (said, events, _) = minimize(&folder, &comb(&folder, 12), &["--ratio", "1.5", "-p", "first"]);
    assert!((4..=8).contains(&events.len()) && said.contains("1.5"), "{said}");
    assert!(events.iter().any(|event| matches!(event, Event::Free { .. })));
    let small = folder.path().join("small.hwt");
    let done = heapwright().args(["replay", "--json", "-p", "first"]).arg(small).assert().success();
    let results: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    let figure = |name: &str| results["results"][0][name].as_f64().unwrap();
    assert!(figure("peak_heap") >= 1.5 * figure("peak_live"));
}

#[test]
fn a_failing_command_can_be_the_condition() {
    let folder = TempDir::new().unwrap();
    let program = assert_cmd::cargo_bin!("heapwright").display().to_string();
    let command = format!("{program} replay --json -p first --region 700 {{}} | grep -q '\"refused\": 0,'");
    let (said, events, _) = minimize(&folder, &comb(&folder, 1), &["--command", &command]);
    assert!(!events.is_empty() && said.contains("fails"), "{said}");
    assert!(refused(&folder.path().join("small.hwt"), "700") > 0);
}

#[test]
fn without_time_the_result_is_reported_as_not_minimal() {
    let folder = TempDir::new().unwrap();
    let (said, events, _) = minimize(&folder, &trace(&folder), &["--region", "4096", "--budget", "0s"]);
    assert!(said.contains("not minimal") && events.len() > 100, "{said}");
}

#[test]
fn a_condition_that_the_whole_trace_fails_is_an_error() {
    let folder = TempDir::new().unwrap();
    let trace = trace(&folder);
    let output = folder.path().join("small.hwt");
    for (arguments, says) in [
        (&["--region", "1000000"][..], "does not hold of the whole trace"),
        (&["--ratio", "50"], "does not hold of the whole trace"),
        (&["--ratio", "0.5"], "more than 1"),
        (&["--command", "true {}"], "does not hold of the whole trace"),
        (&["--command", "false {}"], "`false {}` fails holds of a trace without events, too"),
        (&["--command", "false"], "must have {}"),
        (&["--command", "no-such-command {}"], "cannot be run"),
        (&[], "--region"),
        (&["--region", "4096", "--granule", "5"], "power of two"),
    ] {
        let code = if ["more than 1", "must have {}", "--region", "power of two"].contains(&says) { 2 } else { 1 };
        let done = heapwright().arg("minimize").arg(&trace).args(arguments).arg("-o").arg(&output).assert().code(code);
        let text = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(text.contains(says) && !output.exists(), "{arguments:?}: {text}");
    }
}
