//! Damaged traces and those that were cut off are read up to the damage by every command.

use std::fs;
use std::path::Path;
use std::process::Output;

use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

mod common;

/// Commands that read the trace `t`.
const COMMANDS: [&str; 10] = [
    "replay t -p first --json",
    "replay t --real -p first --json",
    "compare t --policies-only -p first --json",
    "fit t -p first --samples 0 --json",
    "export --to csv t -o t.csv",
    "report t --no-real -p first -o t.html",
    "sweep t -p first -o s.csv",
    "minimize t -p first --region 4096 --budget 1s -o small.hwt",
    "watch --once t",
    "sites t --group size --json",
];

const EVENTS: usize = 600_000;

/// A trace of several frames.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::of_program("long")).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut live = Vec::new();
    for _ in 0..EVENTS {
        if live.len() < 100 {
            live.push(writer.allocate(Kind::Malloc, random.u64(1..100_000), 16).unwrap());
        } else {
            writer.free(live.swap_remove(random.usize(..live.len()))).unwrap();
        }
    }
    writer.finish().unwrap()
}

fn run(folder: &Path, words: &str) -> Output {
    common::heapwright().args(words.split(' ')).current_dir(folder).output().unwrap()
}

/// The rows of `--json`, or the whole object of `compare`.
fn damage(output: &Output) -> Vec<Option<String>> {
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match json.get("trace") {
        Some(trace) => vec![text(&trace["damage"])],
        None => json["results"].as_array().unwrap().iter().map(|row| text(&row["damage"])).collect(),
    }
}

#[test]
fn every_command_reads_up_to_the_damage() {
    let whole = trace();
    let mut flipped = whole.clone();
    let place = whole.len() * 3 / 4;
    flipped[place] ^= 1;
    let cut = whole[..place].to_vec();
    let twice = [&whole[..], &whole].concat();
    let more = [&whole[..], b"!"].concat();
    let follow = format!("{} bytes follow the end of the trace", whole.len());
    for (bytes, why) in [
        (&flipped, "damaged"),
        (&twice, &follow),
        (&cut, "ends inside"),
        (&more, "1 byte follows the end of the trace"),
        (&whole, ""),
    ] {
        let commands = if [&flipped, &twice].contains(&bytes) { &COMMANDS[..] } else { &COMMANDS[..1] };
        for words in commands {
            let folder = TempDir::new().unwrap();
            fs::write(folder.path().join("t"), bytes).unwrap();
            let output = run(folder.path(), words);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words}: {error}");
            let warnings: Vec<&str> = error.lines().filter(|line| line.contains("intact")).collect();
            assert_eq!(warnings.len(), usize::from(!why.is_empty()), "{words}: {error}");
            assert!(warnings.iter().all(|line| line.starts_with("heapwright: t: ") && line.contains(why)), "{error}");
            if words.ends_with("--json") {
                let all = damage(&output);
                assert!(!all.is_empty() && all.iter().all(|damage| damage.is_some() != why.is_empty()), "{words}");
            }
            assert_eq!(fs::read(folder.path().join("t")).unwrap(), *bytes);
        }
    }
}

#[test]
fn a_trace_that_ends_between_frames_was_cut_off() {
    let folder = TempDir::new().unwrap();
    let whole = trace();
    // The index is the last frame; its offset precedes the last eight bytes.
    let end = whole.len() - 16;
    let index = u64::from_le_bytes(whole[end..end + 8].try_into().unwrap());
    fs::write(folder.path().join("t"), &whole[..index as usize]).unwrap();
    let output = run(folder.path(), "replay t -p first --json");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("the trace was cut off"));
    assert!(damage(&output)[0].as_ref().unwrap().contains("600000 events in it are intact"));
}

#[test]
fn a_part_of_a_trace_passes_no_condition_and_one_without_calls_gets_no_verdict() {
    let folder = TempDir::new().unwrap();
    let whole = trace();
    let judged = |bytes: &[u8], condition: &str| {
        fs::write(folder.path().join("t"), bytes).unwrap();
        let mut command = common::heapwright();
        command.args(["compare", "t", "--policies-only", "-p", "best", "--fail-if", condition]);
        let output = command.current_dir(folder.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(judged(&whole, "heap > 1GiB").0, Some(0));
    // What follows its end is no part of the program.
    assert_eq!(judged(&[&whole[..], b"!"].concat(), "heap > 1GiB").0, Some(0));
    let part = &whole[..whole.len() * 3 / 4];
    let (code, printed, said) = judged(part, "heap > 1GiB");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("failed: heap > 1GiB: cannot be judged: t is incomplete"), "{said}");
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert!(words.join(" ").contains("This is about the recorded part alone"), "{printed}");
    let (code, _, said) = judged(part, "heap > 1MiB");
    assert!(code == Some(1) && said.contains("heap of best is"), "{said}");
    let (code, printed, said) = judged(&whole[..100], "heap > 1MiB");
    assert_eq!(code, Some(1), "{said}");
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert!(words.join(" ").contains("Nothing can be said: the trace has no calls."), "{printed}");
}

#[test]
fn a_hyphen_is_no_trace_and_what_is_meant_is_named() {
    let folder = TempDir::new().unwrap();
    let commands = ["replay -", "replay --real -", "compare -", "sites -", "watch --once -", "report -"];
    for words in commands.into_iter().chain(["import - -o t.hwt", "export --to csv -"]) {
        let output = run(folder.path(), words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {error}");
        let expected = "- cannot be opened (standard input is /dev/stdin)";
        assert!(error.contains(expected) && error.lines().count() == 1, "{words}: {error}");
    }
}

#[test]
fn call_sites_behind_the_damage_are_reported_as_that() {
    let folder = TempDir::new().unwrap();
    common::trace_with_sites(&folder.path().join("t"), "program");
    let whole = fs::read(folder.path().join("t")).unwrap();
    let mut refused = 0;
    for bytes in (20..whole.len()).step_by(9) {
        fs::write(folder.path().join("t"), &whole[..bytes]).unwrap();
        let output = run(folder.path(), "sites t");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("record it with"), "{bytes}: {error}");
        if !output.status.success() {
            assert_eq!(error.lines().count(), 1, "{bytes}: {error}");
            assert!(error.contains("ends inside") || error.contains("was cut off"), "{bytes}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused} of {}", whole.len());
}
