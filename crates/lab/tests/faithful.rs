//! Real replay is faithful: the state in which the allocator begins, the clock that it reads, the lifetimes of threads,
//! how far they run ahead of one another, huge pages. A malloc that observes the worker process reports all of it.

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::heapwright;
use heapwright_trace::{About, Kind, Sample, Totals, Writer};
use serde_json::Value;
use tempfile::TempDir;

const SECOND: u64 = 1_000_000_000;

/// Writes a trace.
fn trace(folder: &TempDir, write: impl FnOnce(&mut Writer<File>)) -> PathBuf {
    let path = folder.path().join("T.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("faithful")).unwrap();
    write(&mut writer);
    writer.finish().unwrap();
    path
}

/// The figures that the observing malloc reports after it has replayed a trace, and the row of that replay; `None`
/// where there is no C compiler. `arguments` are those of the compiler.
fn observed(folder: &TempDir, trace: &Path, arguments: &[&str]) -> Option<(HashMap<String, i64>, Value)> {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("not tested: there is no cc");
        return None;
    }
    let source = include_str!("programs/observed_malloc.c");
    let arguments = [&["-shared", "-fPIC", "-O1", "-pthread"], arguments].concat();
    let library = common::compiled(folder.path(), "libobserved.so", source, &arguments);
    let report = folder.path().join("report");
    let output = heapwright()
        .args(["replay", "--real", "--json", "-p", "best", "--allocator"])
        .arg(format!("observed={}", library.display()))
        .arg(trace)
        .env("OBSERVED_REPORT", &report)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let row = results["results"].as_array().unwrap().iter().find(|row| row["allocator"] == "observed").unwrap();
    assert_eq!(row["error"], Value::Null);
    let text = fs::read_to_string(&report).unwrap();
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Some((text.lines().filter_map(figure).collect(), row.clone()))
}

/// Allocates and frees a few blocks.
fn work(writer: &mut Writer<File>) {
    for _ in 0..100 {
        let blocks: Vec<u64> = (0..10).map(|_| writer.allocate(Kind::Malloc, 123, 16).unwrap()).collect();
        blocks.into_iter().for_each(|block| writer.free(block).unwrap());
    }
}

/// What a trace knows of a pause of 60 s.
#[derive(Clone, Copy, Debug)]
enum Known {
    Times,
    Samples,
    Nothing,
}

/// A trace with a pause.
fn with_pause(folder: &TempDir, known: Known) -> PathBuf {
    let sample = |event, seconds| Sample { event, nanoseconds: seconds * SECOND, ..Sample::default() };
    trace(folder, |writer| {
        for (seconds, events) in [(0, 0), (60, 2000)] {
            match known {
                Known::Times => writer.at(seconds * SECOND),
                Known::Samples => [0, seconds].into_iter().for_each(|at| writer.sample(&sample(events, at)).unwrap()),
                Known::Nothing => {}
            }
            work(writer);
        }
    })
}

/// One block is allocated and freed, so that the allocator has prepared itself.
#[test]
fn the_heap_has_served_one_request_before_the_first_of_the_trace() {
    let folder = TempDir::new().unwrap();
    let Some((figures, _)) = observed(&folder, &trace(&folder, work), &[]) else { return };
    assert_eq!(figures["earlier"], 1);
}

#[test]
fn an_allocator_that_purges_by_time_does_so_after_a_pause() {
    let folder = TempDir::new().unwrap();
    for (known, purges, linked) in [
        (Known::Times, 1, "-Wl,-z,now"),
        (Known::Times, 1, "-Wl,-z,lazy"),
        (Known::Samples, 1, "-Wl,-z,now"),
        (Known::Nothing, 0, "-Wl,-z,now"),
    ] {
        let path = with_pause(&folder, known);
        let start = Instant::now();
        let Some((figures, row)) = observed(&folder, &path, &[linked]) else { return };
        assert!(start.elapsed() < Duration::from_secs(30), "the pause was slept through");
        assert_eq!((figures["purges"], figures["backwards"]), (purges, 0), "{known:?} {linked}");
        for clock in ["clock_gettime", "time", "gettimeofday"] {
            let passed = figures[clock];
            assert!((60 * purges..60 * purges + 30).contains(&passed), "{known:?} {linked} {clock}: {passed}");
        }
        assert!(figures["processor"] < 30, "{known:?}");
        assert!(row["seconds"].as_f64().unwrap() < 30.0, "{row}");
    }
}

#[test]
fn a_thread_of_the_allocator_wakes_in_a_pause() {
    let folder = TempDir::new().unwrap();
    for (known, rounds) in [(Known::Times, 1..=6), (Known::Samples, 1..=6), (Known::Nothing, 0..=0)] {
        let path = with_pause(&folder, known);
        let Some((figures, _)) = observed(&folder, &path, &["-DBACKGROUND"]) else { return };
        assert!(rounds.contains(&figures["rounds"]), "{known:?}: {figures:?}");
    }
}

#[test]
fn threads_that_lived_one_after_another_are_replayed_so() {
    const THREADS: u64 = 200;
    let folder = TempDir::new().unwrap();
    let path = trace(&folder, |writer| {
        for thread in 1..=THREADS {
            writer.in_thread(thread).unwrap();
            let mut blocks: Vec<u64> = (0..1024).map(|_| writer.allocate(Kind::Malloc, 1024, 16).unwrap()).collect();
            let _survivor = blocks.pop();
            blocks.into_iter().for_each(|block| writer.free(block).unwrap());
        }
    });
    let Some((figures, row)) = observed(&folder, &path, &[]) else { return };
    assert_eq!(row["threads"], THREADS);
    // The first thread, which makes no calls of the script, and one of the others.
    assert_eq!(figures["threads"], 2);
}

#[test]
fn threads_do_not_run_further_ahead_than_an_eighth_of_the_peak() {
    const BLOCK: u64 = 4096;
    const DEPTH: usize = 256;
    let folder = TempDir::new().unwrap();
    let path = trace(&folder, |writer| {
        let mut queue = std::collections::VecDeque::new();
        for _ in 0..5000 {
            writer.in_thread(1).unwrap();
            queue.push_back(writer.allocate(Kind::Malloc, BLOCK, 16).unwrap());
            writer.in_thread(2).unwrap();
            if queue.len() == DEPTH {
                writer.free(queue.pop_front().unwrap()).unwrap();
            }
        }
    });
    let Some((figures, row)) = observed(&folder, &path, &["-DSLOW"]) else { return };
    let peak = DEPTH as i64 * BLOCK as i64;
    assert_eq!(row["peak_requested"], peak);
    assert!(figures["live"] >= peak && figures["live"] <= peak + peak / 8 + BLOCK as i64, "{figures:?}");
}

#[test]
fn huge_pages_are_off_where_the_recorded_process_had_none() {
    let folder = TempDir::new().unwrap();
    for huge_pages_off in [false, true] {
        let path = trace(&folder, |writer| {
            work(writer);
            let totals = Totals { huge_pages_off, ..Totals::default() };
            totals.texts().for_each(|(name, text)| writer.add_text(name, &text).unwrap());
        });
        let Some((figures, _)) = observed(&folder, &path, &[]) else { return };
        assert_eq!(figures["huge_pages_off"], i64::from(huge_pages_off));
    }
}
