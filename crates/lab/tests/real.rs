//! Real replay: every allocator does what the trace says, and one that does it wrongly is caught.

mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::heapwright;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

/// A trace of every kind of event, with some 2 MiB alive at most.
fn mixed(folder: &TempDir, rounds: u64) -> PathBuf {
    let path = folder.path().join("mixed.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("mixed")).unwrap();
    let mut live = Vec::new();
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..rounds {
        let size = [random(16), random(200), random(9_000)][random(3) as usize];
        match random(8) {
            0..=2 => live.push(writer.allocate(Kind::Malloc, size, 16).unwrap()),
            3 => live.push(writer.allocate(Kind::Calloc, size, 16).unwrap()),
            4 => live.push(writer.allocate(Kind::Aligned, size, 1 << random(13)).unwrap()),
            5 if !live.is_empty() => {
                let at = random(live.len() as u64) as usize;
                live[at] = writer.resize(live[at], size + 1).unwrap();
            }
            _ if !live.is_empty() => writer.free(live.swap_remove(random(live.len() as u64) as usize)).unwrap(),
            _ => {}
        }
        if live.len() > 600 {
            live.drain(..300).for_each(|block| writer.free(block).unwrap());
        }
    }
    writer.finish().unwrap();
    path
}

fn rows(arguments: &[&str], trace: &Path) -> Vec<Value> {
    let output = heapwright().args(["replay", "--real", "--json"]).args(arguments).arg(trace).output().unwrap();
    let told = [&output.stderr[..], &output.stdout[..]].concat();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = results["results"].as_array().unwrap().clone();
    // One that was named and could not be measured is a failure.
    let is_named = |row: &Value| {
        arguments.iter().any(|word| word.starts_with(&format!("{}=", row["allocator"].as_str().unwrap())))
    };
    let has_failed = rows.iter().any(|row| is_named(row) && !row["error"].is_null());
    assert_eq!(output.status.code(), Some(i32::from(has_failed)), "{}", String::from_utf8_lossy(&told));
    rows
}

fn row<'a>(rows: &'a [Value], allocator: &str) -> &'a Value {
    rows.iter().find(|row| row["allocator"] == allocator).unwrap()
}

#[test]
fn every_allocator_replays_the_trace_without_corruption() {
    let folder = TempDir::new().unwrap();
    for payload in ["touch", "full", "none"] {
        let rows = rows(&["--payload", payload], &mixed(&folder, 6_000));
        assert_eq!(rows.iter().any(|row| row["allocator"] == "no-op"), payload != "full");
        for name in ["system", "cached", "first", "next", "best", "worst", "random", "buddy", "good", "mapped"] {
            let row = row(&rows, name);
            assert_eq!(row["error"], Value::Null, "{name} {payload}");
            assert_eq!(row["refused"], 0, "{name} {payload}");
            assert!(row["seconds"].as_f64().unwrap() > 0.0, "{name}");
        }
    }
}

#[test]
fn memory_is_that_of_the_heap_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("long")).unwrap();
    for _ in 0..2 {
        let blocks: Vec<u64> = (0..1000).map(|_| writer.allocate(Kind::Malloc, 8192, 16).unwrap()).collect();
        blocks.into_iter().for_each(|block| writer.free(block).unwrap());
    }
    writer.finish().unwrap();
    let rows = rows(&["-p", "first"], &path);
    for (name, most) in [("system", 9 << 20), ("first", 9 << 20), ("no-op", 64 << 10)] {
        let peak = row(&rows, name)["peak_rss"].as_u64().unwrap();
        assert!(peak <= most, "{name}: {peak}");
        assert!(name == "no-op" || peak >= 8000 << 10, "{name}: {peak}");
    }
    let samples = row(&rows, "system")["samples"].as_array().unwrap();
    assert!(samples.len() > 4 && samples.last().unwrap()["event"] == 4000, "{samples:?}");
    assert!(row(&rows, "system")["faults"].as_u64().unwrap() >= 2000);
}

#[test]
fn latencies_and_system_memory_are_reported_on_request() {
    let folder = TempDir::new().unwrap();
    let rows = rows(&["-p", "best", "--latencies"], &mixed(&folder, 6_000));
    for name in ["system", "best", "no-op"] {
        let latency = &row(&rows, name)["latency"];
        let figure = |name: &str| latency[name].as_f64().unwrap();
        assert!(figure("p50") <= figure("p99") && figure("p99") <= figure("p9999"), "{latency}");
        assert!(figure("p9999") <= figure("max"), "{latency}");
    }
    assert!(row(&rows, "system")["system_peak"].as_u64().unwrap() > 100 << 10);
    assert_eq!(row(&rows, "best")["system_peak"], Value::Null);
}

#[test]
fn a_library_that_cannot_be_loaded_has_a_row_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let trace = mixed(&folder, 100);
    let rows = rows(&["-p", "best", "--allocator", "missing=/nowhere/lib.so"], &trace);
    assert!(row(&rows, "missing")["error"].as_str().unwrap().contains("/nowhere/lib.so"));
    assert_eq!(row(&rows, "system")["error"], Value::Null);
    let text = format!("text={}", trace.display());
    let rows = self::rows(&["-p", "best", "--allocator", &text], &trace);
    assert!(row(&rows, "text")["error"].as_str().unwrap().contains("was not loaded"), "{}", row(&rows, "text"));
    let output = heapwright().args(["replay", "--real", "--allocator", "nameless"]).arg(&trace).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("mine=./libmine.so"));
    // Rows of one name could not be told apart.
    for name in ["system", "system (A/A)", "no-op", "cached", "first", "mapped"] {
        let given = format!("{name}=/nowhere/lib.so");
        let output = heapwright().args(["replay", "--real", "--allocator", &given]).arg(&trace).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("{name} is the name of another row: choose another, as in my-{name}=")),
            "{said}"
        );
    }
}

/// glibc's functions with one mistake each, as `-DMISTAKE`.
const BROKEN: &str = r#"
#include <stddef.h>
#include <string.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) {
#ifdef OVERLAP
    static char *last; static int count;
    if (n >= 2000 && n < 4000 && ++count % 20 == 0 && last) return last;
    if (n >= 4000) return last = __libc_malloc(n);
#endif
#ifdef MISALIGN
    static int count;
    if (n > 3000 && ++count % 50 == 0) return (char *)__libc_malloc(n + 16) + 8;
#endif
#ifdef CRASH
    static int count;
    if (n > 3000 && ++count == 50) __builtin_trap();
#endif
#ifdef REFUSE
    static int count;
    if (n > 8000 && ++count > 10) return 0;
#endif
    return __libc_malloc(n);
}
void *calloc(size_t c, size_t n) {
    void *block = __libc_calloc(c, n);
#ifdef DIRTY
    if (block && c * n > 3000) memset(block, 1, c * n);
#endif
    return block;
}
void *realloc(void *old, size_t n) {
#ifdef FORGET
    if (old && n > 3000) { __libc_free(old); return __libc_malloc(n); }
#endif
    return __libc_realloc(old, n);
}
void *memalign(size_t align, size_t n) { return __libc_memalign(align, n); }
void free(void *block) {
#ifndef OVERLAP
    __libc_free(block);
#endif
}
"#;

/// glibc with one mistake; `None` where there is no C compiler.
fn library(folder: &TempDir, mistake: &str) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("not tested: there is no cc");
        return None;
    }
    let define = format!("-D{mistake}");
    let arguments = ["-shared", "-fPIC", "-O1", "-w", &define];
    Some(common::compiled(folder.path(), "libbroken.so", BROKEN, &arguments))
}

/// The row of glibc with one mistake.
fn broken(folder: &TempDir, mistake: &str, payload: &str) -> Option<Value> {
    let given = format!("broken={}", library(folder, mistake)?.display());
    let arguments = ["-p", "best", "--payload", payload, "--allocator", &given];
    Some(row(&rows(&arguments, &mixed(folder, 6_000)), "broken").clone())
}

#[test]
fn allocator_bugs_are_detected() {
    let folder = TempDir::new().unwrap();
    let caught = [
        ("OVERLAP", "overwritten while it lived"),
        ("MISALIGN", "not a multiple of 16"),
        ("DIRTY", "not zero although calloc made it"),
        ("FORGET", "lost its contents when it was resized"),
        ("CRASH", "signal"),
    ];
    for payload in ["touch", "full"] {
        for (mistake, complaint) in caught {
            let Some(row) = broken(&folder, mistake, payload) else { return };
            let error = row["error"].as_str().unwrap_or_else(|| panic!("{mistake} {payload} was not noticed"));
            assert!(error.contains(complaint) && error.contains("event"), "{mistake} {payload}: {error}");
            assert_eq!(row.get("seconds"), None);
        }
    }
}

#[test]
fn a_refused_request_is_counted_and_its_block_skipped() {
    let folder = TempDir::new().unwrap();
    let Some(row) = broken(&folder, "REFUSE", "full") else { return };
    assert_eq!(row["error"], Value::Null);
    assert!(row["refused"].as_u64().unwrap() > 20, "{row}");
}

#[test]
fn a_trace_for_which_there_is_no_memory_is_refused_once() {
    let folder = TempDir::new().unwrap();
    let [lines, trace] = ["t.csv", "t.hwt"].map(|name| folder.path().join(name));
    std::fs::write(&lines, format!("malloc,1,{}\n", 1_u64 << 44)).unwrap();
    assert!(
        heapwright().args(["import", "--from", "csv"]).arg(&lines).arg("-o").arg(&trace).status().unwrap().success()
    );
    let output = heapwright().args(["replay", "--real"]).arg(&trace).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("t.hwt: a replay writes to 64.0 GiB of its blocks ") && said.lines().count() == 1, "{said}");
}

/// A trace of threads that come and go, and free one another's blocks.
fn threaded(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("threaded.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("threaded")).unwrap();
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut live = Vec::new();
    for generation in 0..12 {
        for _ in 0..4000 {
            // Thread 0 lives throughout, four others in each generation.
            let thread = random(5);
            writer.in_thread(if thread == 0 { 0 } else { generation * 4 + thread }).unwrap();
            match random(3) {
                0 if !live.is_empty() => {
                    let at = random(live.len() as u64) as usize;
                    live[at] = writer.resize(live[at], 1 + random(6_000)).unwrap();
                }
                1 if live.len() > 100 => {
                    writer.free(live.swap_remove(random(live.len() as u64) as usize)).unwrap();
                }
                _ => live.push(writer.allocate(Kind::Malloc, random(3_000), 16).unwrap()),
            }
        }
        live.drain(..).for_each(|block| writer.free(block).unwrap());
    }
    writer.finish().unwrap();
    path
}

#[test]
fn threads_make_their_own_calls_without_corruption() {
    let folder = TempDir::new().unwrap();
    let path = threaded(&folder);
    for arguments in [&["--payload", "full"][..], &["--latencies"]] {
        let rows = rows(&[arguments, &["-p", "best", "-p", "buddy"]].concat(), &path);
        for name in ["system", "best", "buddy"] {
            let row = row(&rows, name);
            assert_eq!((&row["error"], &row["refused"]), (&Value::Null, &0.into()), "{name}");
            assert_eq!(row["threads"], 49);
            assert!(row["peak_rss"].as_u64().unwrap() > 100 << 10, "{row}");
        }
    }
}

#[test]
fn allocator_bugs_are_detected_across_threads() {
    let folder = TempDir::new().unwrap();
    let Some(library) = library(&folder, "FORGET") else { return };
    let given = format!("broken={}", library.display());
    let rows = rows(&["-p", "best", "--allocator", &given], &threaded(&folder));
    let error = row(&rows, "broken")["error"].as_str().unwrap();
    assert!(error.contains("block") && error.contains("instead of"), "{error}");
}

#[test]
fn the_same_script_gives_the_same_heap() {
    let folder = TempDir::new().unwrap();
    let path = mixed(&folder, 6_000);
    let both = [rows(&["-p", "best"], &path), rows(&["-p", "best"], &path)];
    let [first, second] = both.each_ref().map(|rows| row(rows, "best")["samples"].as_array().unwrap());
    assert_eq!(first.len(), second.len());
    for (one, other) in first.iter().zip(second) {
        let [(event, rss), (same_event, same_rss)] =
            [one, other].map(|sample| (&sample["event"], sample["rss"].as_u64().unwrap()));
        // Where the system puts stacks and libraries decides about a page or two that are not the heap's.
        assert_eq!(event, same_event);
        assert!(rss.abs_diff(same_rss) <= 4 * 4096, "at {event}: {rss} and {same_rss}");
    }
}

#[test]
fn a_threaded_trace_is_replayed_by_its_threads_unless_one_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let path = threaded(&folder);
    let by_all = rows(&["-p", "best"], &path);
    let by_one = rows(&["--one-thread", "-p", "best"], &path);
    // The trace's peak is sampled in both; threads have stacks, and run ahead of one another.
    let peak = |rows: &[Value]| row(rows, "best")["peak_rss"].as_f64().unwrap();
    assert!(peak(&by_all) >= 0.9 * peak(&by_one), "{} {}", peak(&by_all), peak(&by_one));
    // One thread samples at fixed strides, several at the ends of windows.
    let samples = |rows: &[Value]| row(rows, "best")["samples"].as_array().unwrap().len();
    assert_ne!(samples(&by_all), samples(&by_one));
}
