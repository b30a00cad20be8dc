//! Traces are replayed as the policies are defined, whatever program wrote them.

use std::fs::{self, File};
use std::io::Write;
use std::thread;
use std::time::Duration;

use assert_cmd::Command;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

fn heapwright() -> Command {
    Command::new(assert_cmd::cargo_bin!("heapwright"))
}

fn rows(output: &[u8]) -> Vec<Value> {
    serde_json::from_slice::<Value>(output).unwrap()["results"].as_array().unwrap().clone()
}

/// Two holes, a long one before a short one, and a request that fits both.
fn two_holes(folder: &TempDir) -> std::path::PathBuf {
    let path = folder.path().join("two.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("two")).unwrap();
    let blocks: Vec<u64> =
        [256, 16, 64, 16].map(|size| writer.allocate(Kind::Malloc, size, 16).unwrap()).into_iter().collect();
    writer.free(blocks[0]).unwrap();
    writer.free(blocks[2]).unwrap();
    let last = writer.allocate(Kind::Malloc, 64, 16).unwrap();
    let longer = writer.resize(last, 200).unwrap();
    writer.free(longer).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn counters_are_those_of_the_policy() {
    let folder = TempDir::new().unwrap();
    let path = two_holes(&folder);
    let output = heapwright().args(["replay", "--json"]).arg(&path).assert().success().get_output().stdout.clone();
    let rows = rows(&output);
    assert_eq!(rows.len(), 7);
    let row = |policy: &str| rows.iter().find(|row| row["policy"] == policy).unwrap();
    // First fit cuts the long hole and lengthens the block there; best fit takes the short one whole and has to move.
    assert_eq!((&row("first")["moved"], &row("first")["resized"]), (&0.into(), &1.into()));
    assert_eq!((&row("best")["moved"], &row("best")["resized"]), (&1.into(), &0.into()));
    for row in &rows {
        assert_eq!(row["events"], 9);
        assert_eq!(row["peak_requested"], 352);
        assert_eq!(row["live"], 32);
        assert_eq!((&row["refused"], &row["unknown"]), (&0.into(), &0.into()));
    }
}

#[test]
fn the_table_names_every_policy() {
    let folder = TempDir::new().unwrap();
    let output = heapwright().args(["replay", "-p", "first", "-p", "worst"]).arg(two_holes(&folder)).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.contains("first") && text.contains("worst") && !text.contains("buddy"), "{text}");
}

#[test]
fn sizes_and_durations_have_units_or_not() {
    let folder = TempDir::new().unwrap();
    let path = two_holes(&folder);
    let replayed = |region: &str| {
        let words = ["replay", "-p", "first", "--json", "--region", region];
        let output = heapwright().args(words).arg(&path).assert().success();
        let json: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
        json["results"][0]["peak_heap"].as_u64().unwrap()
    };
    assert_eq!(replayed("65536"), replayed("64KiB"));
    heapwright()
        .args(["replay", "-p", "first", "--granule", "16B", "--header", "16", "--region", "1M"])
        .arg(&path)
        .assert()
        .success();
    for budget in ["1", "1s", "1000ms"] {
        let words = ["compare", "--rounds", "1", "--no-latencies", "-p", "first", "--budget", budget];
        heapwright().args(words).arg(&path).assert().success();
    }
}

#[test]
fn simulations_run_under_limits_on_address_space_with_the_same_figures() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/lua.hwt");
    let run_under = |limit: &str, words: &str| {
        let script = format!("ulimit {limit} && exec \"$0\" {words}");
        Command::new("sh").args(["-c", &script]).arg(assert_cmd::cargo_bin!("heapwright")).output().unwrap()
    };
    let run = |limit: &str, words: &str| run_under(&format!("-v {limit}"), words);
    let figures = |limit: &str, command: &str| {
        let output = run(limit, &format!("{command} '{trace}' --json"));
        assert!(output.status.success(), "{command}, {limit} KiB: {}", String::from_utf8_lossy(&output.stderr));
        let mut rows = rows(&output.stdout);
        rows.iter_mut().filter_map(Value::as_object_mut).for_each(|row| drop(row.remove("seconds")));
        rows
    };
    for command in ["replay", "compare --policies-only", "fit -p first -p buddy"] {
        let unlimited = figures("unlimited", command);
        for limit in ["1000000", "2000000", "8000000"] {
            assert_eq!(figures(limit, command), unlimited, "{command}, {limit} KiB");
        }
    }
    // A block that a heap without the limit has room for.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("huge.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::default()).unwrap();
    writer.allocate(Kind::Malloc, 512 << 30, 16).unwrap();
    writer.finish().unwrap();
    let words = format!("replay -p first --json {}", path.display());
    assert!(run("unlimited", &words).status.success());
    // The limit that is set is named, and no other.
    for (limit, named, other) in [("-v 2000000", "(`ulimit -v`)", "-d"), ("-d 2000000", "(`ulimit -d`)", "-v")] {
        let output = run_under(limit, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(named) && !said.contains(other), "{said}");
    }
}

#[test]
fn an_impossible_replay_is_an_error_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let path = two_holes(&folder);
    let missing = heapwright().arg("replay").arg(folder.path().join("none.hwt")).assert().code(1);
    assert!(String::from_utf8_lossy(&missing.get_output().stderr).contains("none.hwt"));
    fs::write(&path, "no trace").unwrap();
    let other = heapwright().arg("replay").arg(&path).assert().code(1);
    assert!(String::from_utf8_lossy(&other.get_output().stderr).contains("not a trace"));
    heapwright().args(["replay", "--granule", "3"]).arg(&path).assert().code(2);
}

#[test]
fn imported_traces_are_replayed() {
    let folder = TempDir::new().unwrap();
    let (source, trace) = (folder.path().join("a.rep"), folder.path().join("a.hwt"));
    fs::write(&source, "20000\n2\n5\n1\na 0 512\na 1 128\nr 0 640\nf 1\nf 0\nwhat?\n").unwrap();
    let output = heapwright().args(["import", "--from", "rep"]).arg(&source).arg("-o").arg(&trace).assert().code(3);
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.contains("5 events") && text.contains("line 10: what?"), "{text}");
    let output = heapwright().args(["replay", "--json", "-p", "best"]).arg(&trace).assert().success();
    let rows = rows(&output.get_output().stdout);
    assert_eq!((&rows[0]["events"], &rows[0]["live"]), (&5.into(), &0.into()));
}

/// What a recording has so far is read while it goes on: every policy gets the same events.
#[test]
fn a_trace_that_grows_is_the_same_for_every_policy() {
    let folder = TempDir::new().unwrap();
    let mut writer = Writer::new(Vec::new(), &About::of_program("growing")).unwrap();
    for number in 0_u64..1_500_000 {
        let block = writer.allocate(Kind::Malloc, number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55, 16).unwrap();
        if number % 100 != 0 {
            writer.free(block).unwrap();
        }
    }
    let whole = writer.finish().unwrap();
    let path = folder.path().join("g.hwt.partial");
    let (begun, rest) = whole.split_at(whole.len() / 2);
    fs::write(&path, begun).unwrap();
    let mut file = File::options().append(true).open(&path).unwrap();
    let parts: Vec<Vec<u8>> = rest.chunks(rest.len() / 60).map(<[u8]>::to_vec).collect();
    let recorder = thread::spawn(move || {
        for part in parts {
            file.write_all(&part).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
    });
    let output = heapwright().args(["replay", "--json"]).arg(&path).assert().success().get_output().stdout.clone();
    recorder.join().unwrap();
    let events: Vec<u64> = rows(&output).iter().map(|row| row["events"].as_u64().unwrap()).collect();
    assert!(events.len() >= 7 && events[0] > 0 && events.iter().all(|&count| count == events[0]), "{events:?}");
}
