//! The matrix of surroundings and heaps: limits, locked memory, huge pages, old kernels, filters of system calls,
//! missing file systems, closed streams, threads. `cases.rs` is the table; each of its rows is a test, which runs its
//! program under every heap in a process of its own and with a deadline.
//!
//! A row may be marked as failing today under a heap. Such a test runs the case too and fails once the case holds.

mod case;
mod cases;
mod heap;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use case::{Bound, Case, FailsToday};
use cases::CASES;
use heap::{Ending, Heap};
use heapwright_testkit::library::place_program;
use support::{code, compile, complaints, is_emulated, library};

/// Makes a test of each case that is named, and the list of their names.
macro_rules! tests {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                verify(stringify!($name));
            }
        )*
    };
}

tests! {
    data_limit_long_blocks data_limit_short_blocks address_limit_4_gib
    other_blocks_after_all_were_freed shorter_blocks_after_all_were_freed data_limit_after_all_were_freed
    addresses_are_given_back addresses_of_long_blocks_are_given_back without_munmap
    sort_in_40_mb true_in_40_mb ls_in_40_mb null_where_nothing_works lowered_while_running
    locked_memory locked_memory_within_a_limit core_is_short_and_whole
    little_code_used few_mappings few_page_tables little_writable_memory
    huge_pages_always
    without_populate populate_is_tried_a_few_times without_guard guard_is_tried_a_few_times mappings_are_left
    advice_without_effect guards_without_effect hints_are_not_followed
    without_collapse without_mremap without_getrandom without_membarrier without_rseq without_prctl madvise_refused
    process_madvise_refused
    sandbox_of_a_service figures_in_a_sandbox
    without_proc read_only_sys closed_streams without_environment
    threads_in_a_row threads_at_once first_thread_leaves small_stacks little_stack_left alternate_stack
    freed_for_a_sleeper freed_for_a_sleeper_and_trimmed batches_on_their_way
    thread_after_thread
    purging_thread purging_thread_is_refused purging_thread_without_proc purging_thread_ends_last purging_never
    purging_at_once beyond_its_limit short_blocks_do_not_move
    long_blocks_grow_where_they_are vectors_in_turns_by_half vectors_in_turns_doubled whole_address_space
    chunks_drawn_at_random
}

#[test]
fn every_case_is_a_test() {
    let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(names, TESTED);
    assert!(CASES.iter().all(|case| !case.holds.is_empty() && case.today.iter().all(|(_, why)| !why.0.is_empty())));
}

/// Runs a case under every heap and compares what holds with the marks of the table.
fn verify(name: &str) {
    if is_emulated() {
        return skip(name, "an emulator's limits and system calls are not the program's");
    }
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the table");
    let under_system = match case.bound.needs_system().then(|| run(case, Heap::System)) {
        None => String::new(),
        Some(Ending::Well(printed)) => printed,
        Some(Ending::Skipped(reason)) => return skip(name, &reason),
        Some(Ending::Badly(how)) => panic!("{name}: fails under the system's malloc: {how}"),
    };
    let wrong: Vec<String> = case.heaps.iter().filter_map(|&heap| contradiction(case, heap, &under_system)).collect();
    assert!(wrong.is_empty(), "{name}: must hold: {}\n{}", case.holds, wrong.join("\n"));
}

/// Runs a case under a heap. Peaks of memory differ by some pages from run to run: where they are compared, the case
/// runs three times, and the median counts.
fn run(case: &Case, heap: Heap) -> Ending {
    const RUNS: usize = 3;
    if !matches!(case.bound, Bound::OverSystem(_)) {
        return heap.run(case);
    }
    let mut printed = Vec::new();
    for _ in 0..RUNS {
        match heap.run(case) {
            Ending::Well(figure) => printed.push(figure),
            other => return other,
        }
    }
    printed.sort_by_key(|figure| figure.trim().parse::<u64>().ok());
    Ending::Well(printed.swap_remove(RUNS / 2))
}

/// Returns in which way the outcome under `heap` contradicts the table.
fn contradiction(case: &Case, heap: Heap, under_system: &str) -> Option<String> {
    let outcome = match run(case, heap) {
        Ending::Well(printed) => case.bound.verify(heap, &printed, under_system),
        Ending::Badly(how) => Err(how),
        Ending::Skipped(reason) => {
            skip(case.name, &reason);
            return None;
        }
    };
    let mark = case.today.iter().find(|(marked, _)| *marked == heap);
    match (outcome, mark) {
        (Ok(()), None) | (Err(_), Some(_)) => None,
        (Err(how), None) => Some(format!("under {heap:?}: {how}")),
        (Ok(()), Some((_, FailsToday(why)))) => {
            Some(format!("under {heap:?}: holds now; take the mark away ({why:?})"))
        }
    }
}

/// Reports a case that was not run. The test harness hides what is printed by macros only.
fn skip(name: &str, reason: &str) {
    let reason = reason.trim_start_matches("skipped: ");
    // Standard error may be closed; the case is skipped all the same.
    let _ = writeln!(std::io::stderr(), "surroundings: {name} skipped: {reason}");
}

/// A program with more rights than its caller ignores the variables, so that its caller can neither stop it nor make
/// it write files. It is linked with the library, because the loader ignores `LD_PRELOAD` too.
#[test]
fn setuid_programs_ignore_variables() {
    const NAME: &str = "setuid_programs_ignore_variables";
    const NOBODY: u32 = 65534;
    if is_emulated() {
        return skip(NAME, "emulated programs have the rights of the emulator");
    }
    // Another user must be able to reach the library and the program.
    let mut own = DefaultHasher::new();
    env!("CARGO_TARGET_TMPDIR").hash(&mut own);
    let folder = std::env::temp_dir().join(format!("heapwright-setuid-{:x}", own.finish()));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(library().path(), folder.join("libheapwright.so")).unwrap();
    let text = folder.to_str().expect("a path of text");
    let flags = ["-L", text, "-Wl,--no-as-needed,-lheapwright", &format!("-Wl,-rpath,{text}")];
    let program = folder.join("secure");
    place_program(&program, &fs::read(compile("secure.c", &flags)).unwrap());
    let is_owned = std::os::unix::fs::chown(&program, Some(NOBODY), Some(NOBODY)).is_ok();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    for (variable, value) in [
        ("HEAPWRIGHT_POLICY", "nonsense"),
        ("HEAPWRIGHT_HARDEN", "nonsense"),
        ("HEAPWRIGHT_STATS", "1"),
        ("HEAPWRIGHT_STATS", "json:/tmp/heapwright-must-not-be-written"),
        ("HEAPWRIGHT_WATCH", "/tmp"),
    ] {
        let output = Command::new("timeout").arg("20").arg(&program).env(variable, value).output().unwrap();
        if code(&output) == 77 || !is_owned {
            skip(NAME, &String::from_utf8_lossy(&output.stdout));
            break;
        }
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{variable}={value}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "secure\n");
    }
    let _ = fs::remove_dir_all(&folder);
}
