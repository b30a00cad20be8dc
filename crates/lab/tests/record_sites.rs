//! `heapwright record --sites` tells from where requests come.

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader};
use tempfile::TempDir;

const SOURCE: &str = include_str!("programs/sites.c");

/// As programs are built that people use: without frame pointers. Debug information is beside the point but for names.
const USUAL: [&str; 6] = ["-O2", "-fomit-frame-pointer", "-g", "-w", "-pthread", "-fno-builtin"];

/// The program that asks for memory from known places.
fn program(folder: &Path) -> PathBuf {
    compiled(folder, "sites", SOURCE, &USUAL)
}

/// `function sites.c:LINE`, where the line is the one that is marked with the mark.
fn at(function: &str, mark: &str) -> String {
    let marked = |line: &&str| line.split_once("// ").is_some_and(|(_, comment)| comment == mark);
    let line = SOURCE.lines().position(|line| marked(&line)).unwrap() + 1;
    format!("{function} sites.c:{line}")
}

/// A request: how many bytes, and its stack by names, if it has one.
type Request = (u64, Option<Vec<String>>);

struct Trace {
    requests: Vec<Request>,
    sites: Option<String>,
}

impl Trace {
    fn at(path: &Path) -> Trace {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap().with_sites();
        let mut requests = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            if let Event::Allocate { size, .. } | Event::Resize { size, .. } | Event::Failed { size, .. } = event {
                requests.push((size, reader.site()));
            }
        }
        assert!(reader.is_finished());
        let names = |site| -> Vec<String> {
            let frames = reader.site_frames(site);
            frames.map(|frame| reader.frame_name(frame).unwrap_or(frame).to_owned()).collect()
        };
        let mut known = HashMap::new();
        let named = |(size, site): (u64, Option<_>)| {
            (size, site.map(|site| known.entry(site).or_insert_with(|| names(site)).clone()))
        };
        let requests = requests.into_iter().map(named).collect();
        Trace { requests, sites: reader.about().get("sites").map(str::to_owned) }
    }

    /// The stacks of all requests of this size; every one has to have one.
    fn stacks(&self, size: u64) -> Vec<&[String]> {
        let of_size = self.requests.iter().filter(|request| request.0 == size);
        let stacks: Vec<&[String]> =
            of_size.map(|request| request.1.as_deref().expect("every request has its site")).collect();
        assert!(!stacks.is_empty(), "nothing of {size} bytes was asked for");
        stacks
    }

    /// Whether all requests of this size come from there.
    fn all_come_from(&self, size: u64, innermost: &[&str]) {
        for stack in self.stacks(size) {
            assert_eq!(&stack[..innermost.len()], innermost, "{stack:#?}");
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Records `sites WHAT MORE` with this option; returns what the program's end was too.
fn recorded_with(folder: &TempDir, option: &str, arguments: &[&str]) -> (Trace, Output) {
    recorded_from(&program(folder.path()), option, arguments)
}

/// Records this program, into the folder where it is.
fn recorded_from(program: &Path, option: &str, arguments: &[&str]) -> (Trace, Output) {
    let trace = program.with_file_name("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--min-events", "0", option, "-o"]).arg(&trace).arg("--").arg(program);
    let output = command.args(arguments).output().unwrap();
    (Trace::at(&trace), output)
}

/// Records all sites of `sites WHAT`, which must succeed without a word.
fn recorded(folder: &TempDir, arguments: &[&str]) -> Trace {
    let (trace, output) = recorded_with(folder, "--sites=1", arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("chosen for their sites"), "{}", stderr(&output));
    trace
}

#[test]
fn functions_and_lines_are_found_without_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &["chains"]);
    let leaf = at("leaf", "leaf");
    trace.all_come_from(101, &[&leaf, &at("wide", "wide")]);
    trace.all_come_from(102, &[&leaf, &at("varying", "varying")]);
    trace.all_come_from(103, &[&format!("{} in {}", at("inlined", "inlined"), at("around", "around"))]);
    trace.all_come_from(104, &[&at("resizing", "resizing")]);
    trace.all_come_from(105, &[&at("aligned", "aligned")]);
    trace.all_come_from((1 << 54) - 1, &[&at("refused", "refused")]);
    let whole = trace.stacks(101)[0];
    assert!(whole[2..].iter().any(|frame| frame.contains("main sites.c:")), "{whole:?}");
    assert!(whole.len() < 10, "a stack ends where the program begins: {whole:?}");
    let deep = trace.stacks(106)[0];
    assert!(deep[1..].iter().all(|frame| frame.starts_with("deep ")) && deep.len() == 24, "{deep:?}");
    assert_eq!(trace.sites.as_deref(), Some("of every request"));
}

#[test]
fn a_periodic_program_is_sampled_evenly() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, output) = recorded_with(&folder, "--sites", &["rhythm"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(trace.sites.as_deref().unwrap().contains("one request in 16"), "{:?}", trace.sites);
    for size in 1000..1016 {
        let of_size = trace.requests.iter().filter(|request| request.0 == size);
        let chosen = of_size.clone().filter(|request| request.1.is_some()).count();
        assert_eq!(of_size.count(), 5000);
        // Five standard deviations of 17.1: what is even is outside of it in one run in 100,000.
        assert!((227..=398).contains(&chosen), "{chosen} of 5,000 requests of {size} bytes");
    }
    let chosen = trace.requests.iter().filter(|request| request.1.is_some()).count();
    assert!((4658..=5342).contains(&chosen), "{chosen} of 80,000 requests");
}

/// Few long blocks hold as much as all others: chance must not leave them out.
#[test]
fn long_requests_have_sites_whatever_the_sampling() {
    let source = r#"
        #include <stdlib.h>
        void *volatile kept;
        __attribute__((noinline)) void of_64_kib(void) { kept = malloc(65536); }
        __attribute__((noinline)) void shorter(void) { kept = malloc(65535); }
        int main(void) {
            for (int i = 0; i < 20; i++) { shorter(); of_64_kib(); kept = realloc(kept, 1 << 20); }
            return 0;
        }"#;
    let folder = TempDir::new().unwrap();
    let program = compiled(folder.path(), "long", source, &USUAL);
    let (trace, _) = recorded_from(&program, "--sites=4000000000", &[]);
    assert_eq!(trace.stacks(65_536).len(), 20);
    assert_eq!(trace.stacks(1 << 20).len(), 20);
    for stack in trace.stacks(65_536) {
        assert!(stack[0].starts_with("of_64_kib "), "{stack:?}");
    }
    let shorter = trace.requests.iter().filter(|request| request.0 == 65_535 && request.1.is_none());
    assert_eq!(shorter.count(), 20);
    assert!(trace.sites.unwrap().ends_with("of every request of 65536 bytes or more"));
}

/// The tables of unwinding describe such frames by an expression that reads the stack.
#[test]
#[cfg(target_arch = "x86_64")]
fn stacks_go_on_through_functions_that_align_the_stack() {
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #define NOINLINE __attribute__((noinline))
        #define KEEP(p) __asm__ volatile("" :: "r"(p) : "memory")
        NOINLINE void aligns(int n) {
            char own[100] __attribute__((aligned(64)));
            char *more = __builtin_alloca(n);
            memset(own, 1, sizeof own);
            KEEP(own);
            KEEP(more);
            KEEP(malloc(9009));
            KEEP(own);
        }
        NOINLINE void inner(int n) { aligns(n); KEEP(n); }
        NOINLINE void outer(int n) { inner(n); KEEP(n); }
        int main(int count, char **arguments) {
            (void)arguments;
            for (int i = 0; i < 40; i++) outer(count * i);
            return 0;
        }"#;
    let folder = TempDir::new().unwrap();
    let program = compiled(folder.path(), "aligns", source, &["-O1", "-g", "-fno-builtin-malloc"]);
    let (trace, _) = recorded_from(&program, "--sites=1", &[]);
    let stacks = trace.stacks(9009);
    assert_eq!(stacks.len(), 40);
    for stack in stacks {
        let functions: Vec<&str> = stack.iter().map(|name| name.split(' ').next().unwrap()).collect();
        assert_eq!(functions[..4], ["aligns", "inner", "outer", "main"], "{stack:?}");
    }
}

#[test]
fn every_thread_has_its_sites() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &["threads"]);
    for size in 200..204 {
        assert_eq!(trace.stacks(size).len(), 1000);
        trace.all_come_from(size, &[&at("leaf", "leaf")]);
        assert!(trace.stacks(size).iter().all(|stack| stack[1].starts_with("of_thread sites.c:")));
    }
}

#[test]
fn a_forked_child_has_sites_in_its_own_trace() {
    check_forked("fork");
}

#[test]
fn a_forked_child_has_sites_without_an_environment() {
    check_forked("clearenv");
}

fn check_forked(what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &[what]);
    trace.all_come_from(302, &[&at("leaf", "leaf"), &at("varying", "varying")]);
    let traces = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let child: Vec<_> = traces.filter(|path| name(path).ends_with(".hwt") && name(path) != "t.hwt").collect();
    assert_eq!(child.len(), 1);
    let child = Trace::at(&child[0]);
    assert_eq!(child.stacks(301).len(), 100);
    child.all_come_from(301, &[&at("leaf", "leaf"), &at("wide", "wide")]);
}

#[test]
fn other_stacks_than_the_threads_own_are_followed_to_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &["coroutine"]);
    assert_eq!(trace.stacks(401).len(), 100);
    trace.all_come_from(401, &[&at("leaf", "leaf"), &at("in_coroutine", "in_coroutine")]);
    trace.all_come_from(402, &[&at("leaf", "leaf")]);
    let trace = recorded(&folder, &["signals"]);
    assert_eq!(trace.stacks(501).len(), 100);
    #[cfg(target_arch = "x86_64")]
    for stack in trace.stacks(501) {
        assert_eq!(stack[..3], [at("leaf", "leaf"), at("handler", "handler"), "<signal>".to_owned()]);
        assert_eq!(stack.len(), 4, "the interrupted function is known, its stack is another one: {stack:#?}");
    }
    #[cfg(not(target_arch = "x86_64"))]
    trace.all_come_from(501, &[&at("leaf", "leaf"), &at("handler", "handler")]);
}

/// The trampoline of other processors is code of the kernel's, in no file.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_stack_of_a_handler_leads_on_to_what_was_interrupted() {
    for optimised in ["-O0", "-O2"] {
        let folder = tempfile::tempdir().unwrap();
        let options = [optimised, "-g", "-w", "-pthread", "-fno-builtin"];
        let program = compiled(folder.path(), "sites", SOURCE, &options);
        let (trace, output) = recorded_from(&program, "--sites=1", &["interruptions"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let handler = [at("leaf", "leaf"), at("on_signal", "on_signal"), "<signal>".to_owned()];
        let (interrupted, caller) = (at("victim", "victim"), at("middle", "middle"));
        trace.all_come_from(502, &[&handler[0], &handler[1], &handler[2], &interrupted, &caller]);
        for stack in trace.stacks(502) {
            assert!(stack[5..].iter().any(|frame| frame.contains("main sites.c:")), "{optimised}: {stack:#?}");
        }
        // In between are functions of the C library. Longer handlers leave less of the stack in its copy.
        let stacks = trace.stacks(503);
        let whole = stacks[0];
        assert_eq!(whole[..3], handler);
        assert!(whole.contains(&at("raising", "raising")), "{optimised}: {whole:#?}");
        assert!(stacks[..100].iter().all(|stack| *stack == whole));
        assert!(stacks.iter().all(|stack| whole.starts_with(stack)), "{optimised}: {stacks:#?}");
        let ends = |length: usize| stacks.iter().any(|stack| stack.len() == length);
        assert!(ends(2) && ends(3), "{optimised}: some end at the handler, and some at the signal");
    }
}

/// A library with a function `work` that allocates 701 bytes.
fn late_library(folder: &Path) -> PathBuf {
    let source = "#include <stdlib.h>\nvoid *volatile sink;\nvoid work(void) { sink = malloc(701); free(sink); }\n";
    compiled(folder, "late.so", source, &["-O2", "-g", "-shared", "-fPIC", "-fno-builtin"])
}

#[test]
fn a_library_loaded_late_is_resolved_when_the_program_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &["library", late_library(folder.path()).to_str().unwrap()]);
    trace.all_come_from(701, &["work late.so.c:3"]);
    assert!(trace.stacks(701)[0][1].starts_with("library sites.c:") || trace.stacks(701)[0][1].starts_with("main "));
}

#[test]
fn a_library_loaded_late_is_resolved_when_the_program_ends_before_its_calls_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &["behind", late_library(folder.path()).to_str().unwrap()]);
    trace.all_come_from(702, &[&at("leaf", "leaf"), &at("wide", "wide")]);
    trace.all_come_from(701, &["work late.so.c:3"]);
}

#[test]
fn a_crash_keeps_the_sites_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, output) = recorded_with(&folder, "--sites=1", &["crash"]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", stderr(&output));
    assert_eq!(trace.stacks(601).len(), 100);
    trace.all_come_from(601, &[&at("leaf", "leaf"), &at("wide", "wide")]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_stack_ends_where_code_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(&folder, &["generated"]);
    for stack in trace.stacks(401) {
        assert_eq!(stack, [at("leaf", "leaf"), at("in_coroutine", "in_coroutine")]);
    }
}

#[test]
fn sites_are_recorded_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, output) = recorded_with(&folder, "--times", &["chains"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(trace.sites.is_none() && trace.requests.iter().all(|request| request.1.is_none()));
}

#[test]
fn sites_and_times_go_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--times", "--sites=1", "-o"]).arg(&path).arg("--").arg(program(folder.path()));
    assert!(command.arg("chains").status().unwrap().success());
    Trace::at(&path).all_come_from(101, &[&at("leaf", "leaf"), &at("wide", "wide")]);
    let mut reader = Reader::new(File::open(&path).unwrap()).unwrap().with_times();
    while reader.next_event().unwrap().is_some() {
        assert!(reader.time().is_some());
    }
}

#[test]
fn a_real_program_has_plausible_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--sites=1", "-o"]).arg(&path).env("PYTHONMALLOC", "malloc");
    let script = "import json; json.loads('[' + ','.join(['1.5'] * 5000) + ']')";
    let output = command.args(["--", "python3", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = Trace::at(&path);
    let stacks: Vec<&Vec<String>> = trace.requests.iter().filter_map(|request| request.1.as_ref()).collect();
    let with = |part: &str| stacks.iter().filter(|stack| stack.iter().any(|frame| frame.contains(part))).count();
    let bare = trace.requests.iter().enumerate().filter(|(_, request)| request.1.is_none());
    let bare: Vec<(usize, u64)> = bare.map(|(position, request)| (position, request.0)).collect();
    assert!(bare.is_empty(), "without a stack, by position and size: {bare:?} of {}", trace.requests.len());
    assert!(stacks.len() > 10_000, "{}", stacks.len());
    assert!(with("PyFloat") >= 5000, "{} of {} stacks have to do with numbers", with("PyFloat"), stacks.len());
    assert!(with("Py") * 10 > stacks.len() * 9, "{} of {} stacks are Python's", with("Py"), stacks.len());
}

#[test]
fn a_newline_in_the_name_of_a_program_hides_no_names() {
    let folder = tempfile::tempdir().unwrap();
    let (odd, trace) = (folder.path().join("two\nlines"), folder.path().join("t.hwt"));
    fs::copy(program(folder.path()), &odd).unwrap();
    let output =
        heapwright().args(["record", "--sites=1", "-o"]).arg(&trace).arg("--").arg(&odd).arg("chains").output();
    assert_eq!(output.as_ref().unwrap().status.code(), Some(0), "{}", stderr(&output.unwrap()));
    let trace = Trace::at(&trace);
    let stacks = trace.requests.iter().filter_map(|(_, stack)| stack.as_ref());
    let named = stacks.filter(|stack| stack.iter().any(|frame| frame.contains(" sites.c:"))).count();
    assert!(named > 5, "{named} of {}", trace.requests.len());
}
