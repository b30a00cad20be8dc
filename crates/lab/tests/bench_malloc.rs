//! `heapwright bench malloc`: its figures are what they say they are.

mod common;

use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use common::heapwright;
use serde_json::Value;
use tempfile::TempDir;

/// Without peers that may have been built.
fn bench(arguments: &[&str]) -> Output {
    bench_with_peers(Path::new("/nowhere"), arguments)
}

fn bench_with_peers(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = heapwright();
    command.env("HEAPWRIGHT_PEERS", folder).args(["bench", "malloc", "--quick"]).args(arguments).output().unwrap()
}

fn document(arguments: &[&str]) -> Value {
    let output = bench(&[arguments, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn samples<'a>(document: &'a Value, workload: &str, allocator: &str) -> Vec<&'a Value> {
    let samples = document["samples"].as_array().unwrap().iter();
    samples.filter(|sample| sample["workload"] == workload && sample["allocator"] == allocator).collect()
}

/// The peak of the only run of a workload.
fn peak(document: &Value, workload: &str, allocator: &str) -> u64 {
    let samples = samples(document, workload, allocator);
    assert_eq!(samples.len(), 1, "{workload} {allocator}");
    samples[0]["peak_rss"].as_u64().unwrap()
}

/// A workload that touches 32 MiB must be seen to hold 32 MiB, and no more of this command's own memory than a small
/// program has.
#[test]
fn peaks_are_those_of_the_heap_and_a_small_process() {
    let document = document(&["--only", "touch,start/true"]);
    for allocator in ["system", "system (A/A)", "cached"] {
        let peak = peak(&document, "touch", allocator);
        assert!((32 << 20..36 << 20).contains(&peak), "{allocator}: {peak}");
        let time = &samples(&document, "touch", allocator)[0]["cpu_seconds"];
        assert!(time.is_null(), "it is there for its memory");
    }
    // Far below what this command itself needs to start.
    let tiny = peak(&document, "start/true", "system");
    assert!((300 << 10..3 << 20).contains(&tiny), "{tiny}");
}

#[test]
fn every_run_of_every_allocator_is_recorded() {
    let document = document(&["--only", "pair/64,server/2,program001", "--rounds", "2"]);
    assert_eq!(document["schema"], 1);
    assert_eq!(document["settings"]["rounds"], 2);
    let allocators = document["allocators"].as_array().unwrap();
    assert_eq!(allocators.first().unwrap()["name"], "system");
    assert_eq!(allocators.last().unwrap()["name"], "system (A/A)");
    for allocator in allocators {
        let name = allocator["name"].as_str().unwrap();
        for workload in ["pair/64", "server/2"] {
            let samples = samples(&document, workload, name);
            assert_eq!(samples.iter().map(|sample| sample["round"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
            for sample in samples {
                assert!(sample["cpu_seconds"].as_f64().unwrap() > 0.0);
                assert!(sample["elapsed_seconds"].as_f64().unwrap() > 0.0);
                assert!(sample["peak_rss"].as_u64().unwrap() > 0);
            }
        }
        for part in ["allocate-16", "free-16", "allocate-4096", "free-4096", "pair-4096"] {
            let samples = samples(&document, &format!("program001/{part}"), name);
            assert_eq!(samples.len(), 2);
            assert!(samples[0]["cpu_seconds"].as_f64().unwrap() > 0.0);
            assert!(samples[0]["peak_rss"].is_null(), "it is the whole program's");
        }
        let whole = samples(&document, "program001", name);
        assert!(whole[0]["cpu_seconds"].is_null() && whole[0]["peak_rss"].as_u64().unwrap() > 1 << 20);
    }
    assert_eq!(document["failures"].as_array().unwrap().len(), 0);
}

#[test]
fn single_calls_are_timed_and_nothing_else_of_that_workload() {
    let document = document(&["--only", "tails", "--under", "cached"]);
    for allocator in ["system", "cached"] {
        for workload in ["tails/1", "tails/4", "tails/4-remote"] {
            let sample = samples(&document, workload, allocator)[0];
            let slow = sample["slow_call_seconds"].as_f64().unwrap();
            assert!((16e-9..1e-3).contains(&slow), "{workload}, {allocator}: {slow}");
            assert!(["cpu_seconds", "elapsed_seconds", "peak_rss"].iter().all(|other| sample[other].is_null()));
        }
    }
    let measures: Vec<_> = document["means"].as_array().unwrap().iter().map(|mean| &mean["measure"]).collect();
    assert!(!measures.is_empty() && measures.iter().all(|measure| **measure == "slow_call"), "{measures:?}");
}

#[test]
fn memory_retained_after_scattered_frees_is_compared_with_the_pages_in_use() {
    let document = document(&["--only", "scattered/95%"]);
    for allocator in ["system", "cached"] {
        let sample = samples(&document, "scattered/95%", allocator)[0];
        assert!(sample["elapsed_seconds"].is_null(), "it sleeps");
        let kept = &sample["kept"];
        let (before, pages) = (kept["before"].as_u64().unwrap(), kept["live_pages"].as_u64().unwrap());
        // 100,000 blocks of 264 bytes on average, one in twenty of which is left.
        assert!((24 << 20..60 << 20).contains(&before), "{allocator}: {before}");
        assert!((1 << 20..before).contains(&pages), "{allocator}: {pages}");
        let after = kept["after"].as_array().unwrap();
        assert_eq!(after.iter().map(|pair| pair[0].as_u64().unwrap()).collect::<Vec<_>>(), [0, 250, 500, 1000, 2000]);
        assert!(after[4][1].as_u64().unwrap() <= before + (1 << 20), "{allocator}: {after:?}");
    }
}

#[test]
fn tables_have_a_column_per_allocator_and_a_mean() {
    let output = bench(&["--only", "pair/64"]);
    let told = String::from_utf8(output.stdout).unwrap();
    for word in [
        "CPU time",
        "Elapsed time",
        "Peak RSS",
        "system",
        "cached",
        "system (A/A)",
        "pair/64",
        "geometric mean (1 rows)",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

#[test]
fn an_allocator_that_cannot_be_loaded_fails_and_the_others_continue() {
    let folder = TempDir::new().unwrap();
    let bogus = folder.path().join("libbogus.so");
    std::fs::write(&bogus, "no library").unwrap();
    let file = folder.path().join("runs.json");
    let given = format!("bogus={}", bogus.display());
    for (workload, why) in [("pair/64", "not loaded"), ("start/true", "not loaded")] {
        let output = bench(&["--only", workload, "--allocator", &given, "--json", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("{workload} under bogus:")));
        let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let failures = document["failures"].as_array().unwrap();
        assert_eq!(failures.len(), 1);
        assert!(failures[0]["why"].as_str().unwrap().contains(why), "{failures:?}");
        assert_eq!(samples(&document, workload, "bogus").len(), 0);
        assert_eq!(samples(&document, workload, "system").len(), 1);
    }
}

#[test]
fn built_libraries_are_measured_with_their_versions() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("libbogus7.so"), "no library").unwrap();
    std::fs::write(folder.path().join("bogus7.version"), "bogus 7.1, of its package").unwrap();
    let output = bench_with_peers(folder.path(), &["--only", "pair/64", "--under", "bogus?"]);
    assert_eq!(output.status.code(), Some(1));
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(told[0].contains("bogus 7.1, of its package"), "{told:?}");
    assert!(told[1].contains("pair/64 under bogus7: "), "{told:?}");
}

/// The C library's malloc and ours take some dozens of instructions, whatever the machine.
#[test]
fn instructions_are_counted_where_there_is_valgrind() {
    let output =
        heapwright().args(["bench", "malloc", "--instructions", "--under", "cached", "--json", "-"]).output().unwrap();
    if !Path::new("/usr/bin/valgrind").is_file() {
        assert!(String::from_utf8_lossy(&output.stderr).contains("valgrind"));
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counted = document["instructions"].as_array().unwrap();
    assert_eq!(counted.len(), 2 * 3, "two allocators, three sizes");
    for counted in counted {
        for call in ["malloc", "free"] {
            let count = counted[call].as_f64().unwrap();
            assert!((5.0..300.0).contains(&count), "{counted}");
        }
    }
}

#[test]
fn workloads_and_allocators_are_chosen_by_patterns() {
    let document = document(&["--only", "pair/1?", "--under", "syst*,c*d"]);
    let names = |of: &str, name: &str| -> Vec<String> {
        document[of].as_array().unwrap().iter().map(|it| it[name].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("allocators", "name"), ["system", "cached", "system (A/A)"]);
    assert!(names("samples", "workload").iter().all(|name| name == "pair/16"));
}

/// Ctrl-C ends it after the run at hand, with what there is until then, and leaves no files.
#[test]
fn an_interrupted_run_reports_partial_results_and_cleans_up() {
    let folder = TempDir::new().unwrap();
    let mut command = heapwright();
    command.args(["bench", "malloc", "--quick", "--only", "pair/64", "--rounds", "1000", "--json", "-"]);
    let child = command.env("TMPDIR", folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    // SAFETY: the child is ours and was not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["settings"]["interrupted"], true);
    assert_eq!(document["failures"].as_array().unwrap().len(), 0);
    assert_eq!(left_in(&folder), Vec::<String>::new());
}

#[test]
fn a_folder_for_temporary_files_may_be_relative() {
    let folder = TempDir::new().unwrap();
    let mut command = heapwright();
    command.args(["bench", "malloc", "--quick", "--only", "pair/64,start/true"]).current_dir(folder.path());
    let output = command.env("TMPDIR", ".").env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_reader_that_stops_early_leaves_no_files() {
    let folder = TempDir::new().unwrap();
    let mut command = heapwright();
    command.args(["bench", "malloc", "--quick", "--only", "pair/64"]).env("TMPDIR", folder.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(!child.wait().unwrap().success(), "it ended by SIGPIPE");
    assert_eq!(left_in(&folder), Vec::<String>::new());
}

/// The folders of inputs that were left.
fn left_in(folder: &TempDir) -> Vec<String> {
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("heapwright-bench")).collect()
}

/// A server is loaded by a client of ours, whatever malloc it was linked with.
#[test]
fn redis_is_measured_where_there_is_one() {
    let document = document(&["--only", "redis-server"]);
    for name in ["redis-server", "redis-server/deleted"] {
        let missing = document["missing"].as_array().unwrap().contains(&name.into());
        let samples = samples(&document, name, "cached");
        assert_eq!(samples.len(), usize::from(!missing), "{}", document["failures"]);
        if let Some(kept) = samples.first().map(|sample| &sample["kept"]).filter(|kept| !kept.is_null()) {
            let after = kept["after"].as_array().unwrap();
            assert!(after[4][1].as_u64() < kept["before"].as_u64() && after.len() == 5, "{kept}");
        }
    }
}

#[test]
fn a_chart_shows_the_memory_that_is_retained_under_each_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("kept.svg");
    let path = chart.to_str().unwrap();
    let output = bench(&["--only", "scattered/95%", "--under", "cached", "--chart", path]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let picture = std::fs::read_to_string(&chart).unwrap();
    for name in ["scattered/95%", "cached", "system"] {
        assert!(picture.contains(&format!("\n{name}\n")), "{name}: {picture}");
    }
    // A panel of two allocators, each with two bars, on a background.
    assert_eq!(picture.matches("<rect ").count(), 1 + 2 * 2, "{picture}");
    // The earlier chart is kept where there is nothing to draw, and nothing is measured for it.
    let output = bench(&["--only", "pair/64", "--chart", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("scattered, phases"));
    assert_eq!(std::fs::read_to_string(&chart).unwrap(), picture);
}

#[test]
fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
    let output = bench(&["--only", "pear"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("\"pear\"") && told.contains("pair/64"), "{told}");
}

#[test]
fn the_list_has_every_workload_with_a_sentence() {
    let output = heapwright().args(["bench", "malloc", "--list"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.lines().count() > 40);
    assert!(told.lines().all(|line| line.split_whitespace().count() > 2), "{told}");
}

/// The library refuses to start with these values.
const INVALID: [&str; 5] =
    ["HEAPWRIGHT_HARDEN", "HEAPWRIGHT_DISSOLVE", "HEAPWRIGHT_PURGE", "HEAPWRIGHT_LIMIT", "HEAPWRIGHT_POLICY"];

#[test]
fn settings_of_the_library_that_the_command_inherits_change_no_row() {
    let mut command = heapwright();
    command.args(["bench", "malloc", "--quick", "--only", "pair/64,start/true", "--under", "cached", "--json", "-"]);
    let output = command.envs(INVALID.map(|name| (name, "invalid"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["failures"].as_array().unwrap().len(), 0, "{}", document["failures"]);
    assert_eq!(samples(&document, "pair/64", "cached").len(), 1);
}

/// A library has the settings that lie beside it.
#[test]
fn a_library_with_settings_is_a_row_of_its_own() {
    let folder = TempDir::new().unwrap();
    let loaded = heapwright().args(["run", "-p", "cached", "--", "printenv", "LD_PRELOAD"]).output().unwrap();
    let library = String::from_utf8(loaded.stdout).unwrap();
    std::fs::copy(library.trim_end(), folder.path().join("libhardened.so")).unwrap();
    std::fs::write(folder.path().join("hardened.environment"), "HEAPWRIGHT_HARDEN=invalid\n").unwrap();
    let words = ["--only", "pair/64", "--under", "hardened"];
    let output = bench_with_peers(folder.path(), &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("pair/64 under hardened: ") && said.contains("HEAPWRIGHT_HARDEN=invalid is invalid"),
        "{said}"
    );
}
