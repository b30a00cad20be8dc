//! `heapwright compare`, end to end: a program, a trace, the bundled trace; files, conditions and their exit codes.

mod common;

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{compiled, heapwright};
use heapwright_trace::{About, Kind, Sample, Totals, Writer};
use serde_json::Value;
use tempfile::TempDir;

/// A heap of 3 MiB in which every other block goes, and longer ones come: every policy has holes then.
fn trace(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("holes.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("holes")).unwrap();
    let blocks: Vec<u64> = (0..3000).map(|_| writer.allocate(Kind::Malloc, 1024, 16).unwrap()).collect();
    blocks.iter().step_by(2).for_each(|&block| writer.free(block).unwrap());
    let longer: Vec<u64> = (0..500).map(|_| writer.allocate(Kind::Malloc, 2048, 16).unwrap()).collect();
    longer.iter().chain(blocks.iter().skip(1).step_by(2)).for_each(|&block| writer.free(block).unwrap());
    writer.finish().unwrap();
    path
}

/// A heap of 8 MiB in a process that had 4 MiB beside it, and 2 MiB of files.
fn trace_of_a_process(folder: &TempDir, totals: &Totals) -> PathBuf {
    const MIB: u64 = 1 << 20;
    let path = folder.path().join("process.hwt");
    let mut about = About::of_program("process");
    totals.texts().for_each(|(name, text)| about.set(name, &text));
    let mut writer = Writer::new(File::create(&path).unwrap(), &about).unwrap();
    let sample =
        |event: u64, heap: u64| Sample { event, nanoseconds: event, resident: 4 * MIB + heap, ..Sample::default() };
    writer.sample(&sample(0, 0)).unwrap();
    let mut blocks = Vec::new();
    for at in 1..=8192 {
        blocks.push(writer.allocate(Kind::Malloc, 1000, 16).unwrap());
        if at % 64 == 0 {
            writer.sample(&sample(at, at * 1024)).unwrap();
        }
    }
    blocks.iter().for_each(|&block| writer.free(block).unwrap());
    writer.finish().unwrap();
    path
}

fn compare(arguments: &[&str]) -> Command {
    let mut command = heapwright();
    command.arg("compare").args(arguments);
    command
}

#[track_caller]
fn output(command: &mut Command, code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(code), "{out}{err}");
    (out, err)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn row<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let rows = comparison["results"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

fn median(comparison: &Value, name: &str, metric: &str) -> Option<f64> {
    row(comparison, name)["figures"][metric]["median"].as_f64()
}

#[test]
fn rounding_is_measured_by_usable_sizes() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("all.json");
    let mut command = compare(&["-p", "first", "--rounds", "1", "--no-latencies", "--json"]);
    output(command.arg(&file).arg(trace(&folder)), 0);
    let comparison = json(&file);
    // glibc rounds 1,024 and the word before a block up to 1,040 bytes, of which 1,032 are usable.
    assert_eq!(row(&comparison, "system")["parts"]["rounding"], 3000 * 8);
    let parts = &row(&comparison, "cached")["parts"];
    let sum: i64 = ["asked", "rounding", "kept"].iter().map(|part| parts[part].as_i64().unwrap()).sum();
    assert_eq!(sum as f64, median(&comparison, "cached", "peak").unwrap().round());
}

#[test]
fn a_trace_is_simulated_and_really_replayed() {
    let folder = TempDir::new().unwrap();
    let [base, csv, markdown] = ["base.json", "all.csv", "all.md"].map(|name| folder.path().join(name));
    let mut command = compare(&["-p", "first", "-p", "buddy", "--rounds", "6", "--json"]);
    command.arg(&base).arg("--csv").arg(&csv).arg("--markdown").arg(&markdown).arg(trace(&folder));
    let (out, _) = output(&mut command, 0);
    let comparison = json(&base);
    let asked = 3000 * 1024;
    assert_eq!(comparison["schema"], 1);
    assert_eq!(comparison["trace"]["peak_asked"], asked);
    assert_eq!(comparison["settings"]["rounds"], 6);
    assert!(comparison["machine"]["cores"].as_u64().unwrap() > 0);

    // 1,500 holes of 1 KiB take none of the longer blocks: the heap grows by 1,000 KiB.
    assert_eq!(median(&comparison, "first", "heap"), Some(f64::from(asked + 500 * 2048)));
    assert_eq!(median(&comparison, "first", "holes"), Some(1500.0));
    assert!((median(&comparison, "first", "external").unwrap() - 1499.0 / 1500.0).abs() < 1e-9);
    assert_eq!(median(&comparison, "system", "heap"), None);

    for name in ["system", "first", "buddy", "system (A/A)"] {
        let row = row(&comparison, name);
        assert_eq!(row["rounds"].as_array().unwrap().len(), 6, "{name}");
        assert_eq!(row["timed_rounds"].as_array().unwrap().len(), 2, "{name}");
        assert_eq!(row["note"], Value::Null, "{name}");
        let [low, high] = [0, 1].map(|end| row["figures"]["time"]["interval"][end].as_f64().unwrap());
        assert!(0.0 < low && low <= median(&comparison, name, "time").unwrap());
        assert!(median(&comparison, name, "time").unwrap() <= high);
        let peak = median(&comparison, name, "peak").unwrap();
        assert!(peak > 0.95 * f64::from(asked) && peak < 4.0 * f64::from(asked), "{name}: {peak}");
        assert!(!row["samples"].as_array().unwrap().is_empty());
    }
    assert!(median(&comparison, "no-op", "peak").unwrap() < 1e6);

    let text = comparison["recommendation"]["text"].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(words(&out).windows(words(text).len()).any(|window| window == words(text)), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 1 + comparison["results"].as_array().unwrap().len());
    let markdown = fs::read_to_string(&markdown).unwrap();
    assert!(markdown.contains("| measured |") && markdown.contains("| simulated |"), "{markdown}");
}

#[test]
fn the_memory_of_the_program_is_predicted() {
    let folder = TempDir::new().unwrap();
    let (anonymous, files) = (12 << 20, 2 << 20);
    let totals = Totals { peak_anonymous: Some(anonymous), resident_files: Some(files), ..Totals::default() };
    let path = trace_of_a_process(&folder, &totals);
    let [kept, markdown] = ["kept.json", "kept.md"].map(|name| folder.path().join(name));
    let mut command = compare(&["-p", "best", "--rounds", "6", "--no-latencies", "--json"]);
    command.arg(&kept).arg("--markdown").arg(&markdown).arg(&path);
    let (out, _) = output(&mut command, 0);
    let comparison = json(&kept);
    let program = |name: &str, figure: &str| row(&comparison, name)["program"][figure]["median"].as_f64();
    let recorder = comparison["recorded"]["recorder_bytes"].as_u64().unwrap();
    assert_eq!(program("system", "peak"), Some((anonymous + files - recorder) as f64));
    assert_eq!(program("system", "peak_over_system"), Some(1.0));
    assert_eq!(program("system", "processor"), None, "the trace does not say how long its calls took");
    let best = program("best", "peak").unwrap();
    assert!((0.9..1.2).contains(&(best / (anonymous + files) as f64)), "{best}");
    let starts = row(&comparison, "best")["starts"].as_array().unwrap().clone();
    assert_eq!(starts.len(), 6);
    // The command's own code is a part of it.
    assert!(starts.iter().all(|start| start["rss"].as_u64().unwrap() > 1 << 20), "{starts:?}");
    let rounds = row(&comparison, "system")["rounds"].as_array().unwrap().clone();
    assert!(rounds.iter().all(|round| round["fault_seconds"].as_f64().unwrap() > 20e-9), "{rounds:?}");
    assert!(row(&comparison, "no-op")["program"].is_null());
    assert_eq!(median(&comparison, "best", "program-peak"), Some(best));
    assert!(out.contains("predicted") && out.contains("program peak"), "{out}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("of anonymous memory at the peak"), "{out}");
    let markdown = fs::read_to_string(&markdown).unwrap();
    assert!(markdown.contains("| predicted | program-peak | program-peak/system |"), "{markdown}");
    assert!(markdown.contains("| parts of peak RSS |"), "{markdown}");
    // What follows from the rounds is computed again.
    let mut command = compare(&["-p", "best", "--rounds", "6", "--no-latencies", "--baseline"]);
    command
        .arg(&kept)
        .args(["--fail-if", "program-peak of best > 1.5x", "--fail-if", "program-peak > 1.5GiB"])
        .arg(&path);
    output(&mut command, 0);
}

#[test]
fn two_outputs_are_not_one_file() {
    let folder = TempDir::new().unwrap();
    let (path, out) = (trace(&folder), folder.path().join("out"));
    let mut command = compare(&["--policies-only", "--json"]);
    let (_, err) = output(command.arg(&out).arg("--csv").arg(folder.path().join("./out")).arg(&path), 1);
    assert!(err.contains("are the same file"), "{err}");
    assert!(!out.exists());
    let (_, err) = output(compare(&["--policies-only", "--csv", "-", "--markdown", "-"]).arg(&path), 1);
    assert!(err.contains("are the same file"), "{err}");
}

#[test]
fn conditions_decide_the_exit_code_and_files_are_still_written() {
    let folder = TempDir::new().unwrap();
    let path = trace(&folder);
    let kept = folder.path().join("kept.json");
    let check = |condition: &str, code| {
        let mut command = compare(&["--policies-only", "--fail-if", condition, "--json"]);
        output(command.arg(&kept).arg(&path), code).1
    };
    check("heap/asked of first > 1.34x", 0);
    let failed = check("heap/asked of first > 1.33x", 1);
    assert!(failed.contains("heap/asked of first is 1.333x, the limit is 1.330x"), "{failed}");
    assert!(median(&json(&kept), "first", "heap").is_some());
    let failed = check("external > 30%", 1);
    assert!(failed.contains("external of best is 99.9 %, the limit is 30.0 %"), "{failed}");
    check("heap > 1.05x baseline", 2);
    check("heap of nobody > 2x", 2);
    check("peak > 2x", 2);
    let wrong = check("heap > 2y", 2);
    assert!(wrong.contains("\n  heap > 2y\n          ^"), "{wrong}");
}

#[test]
fn a_baseline_shows_and_judges_what_has_changed() {
    let folder = TempDir::new().unwrap();
    let path = trace(&folder);
    let base = folder.path().join("base.json");
    output(compare(&["--policies-only", "-p", "first", "--json"]).arg(&base).arg(&path), 0);
    let mut earlier = json(&base);
    let heap = &mut earlier["results"][0]["figures"]["heap"]["median"];
    *heap = (heap.as_f64().unwrap() / 2.0).into();
    fs::write(&base, earlier.to_string()).unwrap();
    let mut command = compare(&["--policies-only", "-p", "first", "--fail-if", "heap > 1.05x", "--baseline"]);
    let (out, err) = output(command.arg(&base).arg(&path), 1);
    assert!(out.contains("over baseline") && out.contains("2.00x"), "{out}");
    assert!(err.contains("heap of first is 3.91 MiB, 2.000 times the baseline's"), "{err}");
}

#[test]
fn a_program_is_recorded_and_its_output_passes_through() {
    let folder = TempDir::new().unwrap();
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { void *p[20000]; for (int i = 0; i < 20000; i++) \
                  p[i] = malloc(100 + i % 50); for (int i = 0; i < 20000; i += 2) free(p[i]); puts(\"done\"); return 3; }";
    let program = compiled(folder.path(), "worker", source, &["-O0"]);
    let kept = folder.path().join("kept.hwt");
    let mut command = compare(&["--policies-only", "-p", "best", "--keep-trace"]);
    let (out, err) = output(command.arg(&kept).arg("--").arg(&program), 0);
    assert!(out.starts_with("done\n") && out.contains("worker") && out.contains("best"), "{out}");
    assert!(err.contains("recorded worker") && err.contains("exit status: 3"), "{err}");
    assert!(fs::metadata(&kept).unwrap().len() > 100);
}

#[test]
fn without_a_program_the_bundled_one_is_compared() {
    let (out, _) = output(&mut compare(&["--policies-only", "-p", "good", "--json"]), 0);
    let comparison: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&comparison["trace"]["program"], &comparison["trace"]["is_whole"]), (&"cc1plus".into(), &true.into()));
    assert!(median(&comparison, "good", "heap/asked").unwrap() < 1.1);
}

#[test]
fn a_failing_allocator_has_a_note_and_the_others_have_figures() {
    let folder = TempDir::new().unwrap();
    let library = folder.path().join("libbad.so");
    fs::write(&library, "no library").unwrap();
    let kept = folder.path().join("kept.json");
    let mut command = compare(&["-p", "first", "--rounds", "1", "--no-latencies", "--allocator"]);
    command.arg(format!("bad={}", library.display())).arg("--json").arg(&kept).arg(trace(&folder));
    let (out, err) = output(&mut command, 1);
    assert!(out.contains("bad: ") && err.contains("failed: bad could not be measured: "), "{out}{err}");
    let comparison = json(&kept);
    assert!(row(&comparison, "bad")["note"].as_str().is_some_and(|note| note.contains("libbad.so")));
    assert!(median(&comparison, "first", "time").is_some());
}

#[test]
fn mistakes_are_reported_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let path = trace(&folder);
    let (_, err) = output(compare(&["--json"]).arg(&path), 1);
    assert!(err.contains("is a trace, and would be overwritten"), "{err}");
    assert!(fs::read(&path).unwrap().starts_with(b"hwtrace"));
    let (_, err) = output(&mut compare(&["true"]), 1);
    assert!(err.contains("type -- before it"), "{err}");
    let (_, err) = output(&mut compare(&["--", "/no/such/program"]), 1);
    assert!(err.contains("there is no such program"), "{err}");
    output(compare(&["--baseline", "/none.json"]).arg(&path), 1);
    output(compare(&["--policies-only", "--rounds", "3"]).arg(&path), 2);
}

/// Whether there is nothing in a folder but shared libraries.
fn holds_libraries(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_program = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with("heapwright-bench-");
    entries.all(|path| path.extension().is_some_and(|extension| extension == "so") || is_program(&path))
}

/// Waits until a process has been seen with this many different children. Each replay is one.
fn wait_for_children(pid: u32, count: usize) {
    let start = Instant::now();
    let mut seen = HashSet::new();
    while seen.len() < count {
        assert!(start.elapsed() < Duration::from_secs(120), "only {} children", seen.len());
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            seen.extend(children.split_ascii_whitespace().map(str::to_owned));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ctrl_c_ends_the_measurement_and_shows_partial_results() {
    let folder = TempDir::new().unwrap();
    let path = trace(&folder);
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = compare(&["-p", "first", "--rounds", "10000", "--no-latencies"]);
    command.arg(&path).env("TMPDIR", &temporary).stdout(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    // Far more than are needed to verify every allocator, so that it is measuring.
    wait_for_children(child.id(), 60);
    // SAFETY: kill has no preconditions, and the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("Interrupted") && text.contains("first"), "{text}");
    // The drop-in library stays, for the next one, and so does the program that is started.
    let left = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path());
    let mut left = left.filter(|path| !path.is_dir() || !holds_libraries(path));
    assert_eq!(left.next(), None);
}

#[test]
fn a_program_is_run_itself_where_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let [json_file, count] = ["confirmed.json", "count"].map(|name| folder.path().join(name));
    let mut command = compare(&["--confirm", "-p", "first", "--rounds", "2", "--json"]);
    let script = format!("echo run >> {}; for i in 1 2 3 4 5 6 7 8 9; do :; done", count.display());
    command.arg(&json_file).args(["--", "sh", "-c", &script]);
    // With the allocators that this project has built, the policy is not among the best.
    let (out, err) = output(command.env("HEAPWRIGHT_PEERS", folder.path()), 0);
    assert!(err.contains("running sh at least"), "{err}");
    assert!(out.contains("the program") && (out.contains("replayed") || out.contains("predicted")), "{out}");
    let comparison = json(&json_file);
    let rows = comparison["confirmation"]["results"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.first() == Some(&"system") && names.contains(&"first") && names.last() == Some(&"system (A/A)"));
    assert!(rows.iter().all(|row| row["runs"].as_array().unwrap().len() == 2), "{rows:?}");
    // Each allocator in each round, and the recorded run.
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 2 * rows.len() + 1);
}

#[test]
fn only_a_program_can_be_confirmed() {
    let folder = TempDir::new().unwrap();
    let (_, err) = output(compare(&["--confirm"]).arg(trace(&folder)), 2);
    assert!(err.contains("'--confirm' cannot be used with '[TRACE]'"), "{err}");
    let (_, err) = output(&mut compare(&["--confirm"]), 2);
    assert!(err.contains("PROGRAM"), "{err}");
}

#[test]
fn a_program_that_cannot_be_confirmed_is_a_failure() {
    let folder = TempDir::new().unwrap();
    let [json_file, once] = ["confirmed.json", "once"].map(|name| folder.path().join(name));
    let mut command = compare(&["--confirm", "-p", "first", "--rounds", "1", "--json"]);
    let script = format!("test ! -e {0} && echo > {0} || exit 3; exec ls -l", once.display());
    command.arg(&json_file).args(["--", "sh", "-c", &script]);
    let (out, err) = output(command.env("HEAPWRIGHT_PEERS", folder.path()), 1);
    let lines: Vec<&str> = err.lines().filter(|line| line.contains("could not be confirmed")).collect();
    assert_eq!(lines.len(), 1, "{err}");
    assert!(lines[0].contains("exit status: 3"), "{err}");
    assert!(
        out.contains("measured") && json(&json_file)["confirmation"]["rounds"] == 0,
        "the replays are shown: {out}"
    );
    assert!(!out.contains("no other allocator could be measured"), "the replays are judged: {out}");
}

/// Recorded, the program reads what it is given; the runs that confirm have no input.
#[test]
fn runs_without_the_input_that_was_recorded_confirm_nothing() {
    let folder = TempDir::new().unwrap();
    let input = folder.path().join("numbers");
    fs::write(&input, (0..600_000).map(|number| format!("{number}\n")).collect::<String>()).unwrap();
    let mut command = compare(&["--confirm", "-p", "first", "--rounds", "1", "--no-latencies", "--", "perl", "-e"]);
    command.arg("my @lines = <STDIN>; print scalar @lines").stdin(fs::File::open(&input).unwrap());
    let (_, err) = output(command.env("HEAPWRIGHT_PEERS", folder.path()), 1);
    assert!(err.contains("could not be confirmed: it does not do the same work again"), "{err}");
}

#[test]
fn no_condition_passes_for_a_program_that_failed() {
    let folder = TempDir::new().unwrap();
    let judged = |program: &str, code: i32| {
        let mut command = compare(&["-p", "first", "--rounds", "1", "--no-latencies", "--fail-if", "heap > 1TiB"]);
        command.args(["--json", "c.json", "--", "sh", "-c", program]).current_dir(&folder);
        let (_, err) = output(command.env("HEAPWRIGHT_PEERS", folder.path()), code);
        (err, json(&folder.path().join("c.json"))["trace"]["failure"].clone())
    };
    let (err, failure) = judged("ls / >/dev/null; exit 4", 1);
    assert!(err.contains("heap > 1TiB: cannot be judged: the program failed (exit status: 4)"), "{err}");
    assert_eq!(failure, "exit status: 4");
    assert!(judged("ls / >/dev/null", 0).1.is_null());
}

#[test]
fn a_baseline_of_another_trace_is_said_where_conditions_are_judged() {
    let folder = TempDir::new().unwrap();
    let [base, other] = ["base.json", "other.hwt"].map(|name| folder.path().join(name));
    output(compare(&["-p", "first", "--policies-only", "--json"]).arg(&base).arg(trace(&folder)), 0);
    let mut record = heapwright();
    record.args(["record", "-o"]).arg(&other).args(["--", "ls", "/"]);
    output(&mut record, 0);
    let mut command = compare(&["-p", "first", "--policies-only", "--fail-if", "heap > 99x", "--baseline"]);
    let (_, err) = output(command.arg(&base).arg(&other), 0);
    assert!(err.contains("warning: The baseline is of another trace"), "{err}");
}

/// The commands at the end of a verdict are those that were typed, and not an ellipsis.
#[test]
fn commands_can_be_pasted() {
    let folder = TempDir::new().unwrap();
    fs::rename(trace(&folder), folder.path().join("my trace.hwt")).unwrap();
    let said = |arguments: &[&str]| {
        let mut command = compare(arguments);
        let (out, err) = output(command.current_dir(&folder).env("HEAPWRIGHT_PEERS", folder.path()), 0);
        (out + &err).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = said(&["--policies-only", "-p", "first", "my trace.hwt"]);
    assert!(text.contains("`heapwright compare -p first 'my trace.hwt'`"), "{text}");
    let text = said(&["--rounds", "1", "-p", "first", "--no-latencies", "--", "sh", "-c", "echo $((1 + 1))"]);
    assert!(text.contains(" -p first -- sh -c 'echo $((1 + 1))'`"), "{text}");
}

#[test]
fn settings_of_the_library_that_the_command_inherits_change_no_row() {
    let folder = TempDir::new().unwrap();
    let json_file = folder.path().join("c.json");
    let mut command = compare(&["--confirm", "-p", "first", "--rounds", "1", "--no-latencies", "--json"]);
    command.arg(&json_file).args(["--", "sh", "-c", "for i in 1 2 3; do :; done"]);
    // The library refuses to start with these values.
    let names = ["HEAPWRIGHT_HARDEN", "HEAPWRIGHT_DISSOLVE", "HEAPWRIGHT_PURGE", "HEAPWRIGHT_LIMIT"];
    command.envs(names.map(|name| (name, "invalid"))).env("HEAPWRIGHT_PEERS", folder.path());
    let (out, _) = output(&mut command, 0);
    assert!(!out.contains("is invalid"), "{out}");
    let comparison = json(&json_file);
    for rows in [&comparison["results"], &comparison["confirmation"]["results"]] {
        let rows = rows.as_array().unwrap();
        assert!(rows.len() > 2 && rows.iter().all(|row| row["failure"].is_null()), "{rows:#?}");
    }
}
