//! The rows of `heapwright sites` and `heapwright diff`: which blocks are together, how rows are named, and what is
//! said where the figures are not those of the whole program.

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{compiled, heapwright};
use heapwright_trace::import::SNAPSHOT;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

/// Writes a trace in which each stack requests as many blocks of 100 bytes as it is given; a frame is its text and
/// name.
fn trace_of(path: &Path, about: &About, stacks: &[(&[(&str, &str)], u64)]) {
    let mut writer = Writer::new(File::create(path).unwrap(), about).unwrap();
    for (frames, blocks) in stacks {
        let texts: Vec<&str> = frames.iter().map(|(text, _)| *text).collect();
        let site = writer.define_site(&texts).unwrap();
        for _ in 0..*blocks {
            writer.from_site(site).unwrap();
            writer.allocate(Kind::Malloc, 100, 16).unwrap();
        }
    }
    for (text, name) in stacks.iter().flat_map(|(frames, _)| *frames) {
        writer.name_frame(text, name).unwrap();
    }
    writer.finish().unwrap();
}

fn run(words: &[&str], traces: &[&Path]) -> Output {
    let output = heapwright().arg(words[0]).args(traces).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(words: &[&str], traces: &[&Path]) -> Value {
    serde_json::from_slice(&run(&[words, &["--json", "--limit", "0"]].concat(), traces).stdout).unwrap()
}

/// Returns the names of the rows.
fn names(words: &[&str], traces: &[&Path]) -> Vec<String> {
    let results = json(words, traces)["results"].take();
    let mut names: Vec<String> =
        results.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A program of which two builds differ in lines, folders and name.
fn build(folder: &Path, build: &str, line: u32) -> PathBuf {
    let path = folder.join(format!("{build}.hwt"));
    let text = |number: u32| format!("{build}+{number:#x}");
    let at = |function: &str, line: u32| format!("{function}:{line}");
    let python = |file: &str| format!("python:/opt/{build}/{file}:<module>:{line}");
    let frames = [
        (text(1), at("helper a.cpp", line)),
        (text(2), at("helper b.cpp", line + 20)),
        (text(3), at("grow g.c", line + 5)),
        (text(4), at("grow g.c", line + 9)),
        (text(5), at("operator() l.cpp", line)),
        (text(6), at("operator() l.cpp", line + 3)),
        (text(7), at("operator() m.cpp", line)),
        (python("json/__init__.py"), at("<module> __init__.py", line)),
        (python("re/__init__.py"), at("<module> __init__.py", line)),
        (python("os.py"), at("<module> os.py", line)),
    ];
    let frames: Vec<[(&str, &str); 1]> = frames.iter().map(|(text, name)| [(text.as_str(), name.as_str())]).collect();
    let stacks: Vec<(&[(&str, &str)], u64)> = frames.iter().map(|frame| (&frame[..], u64::from(line))).collect();
    trace_of(&path, &About::of_program(build), &stacks);
    path
}

#[test]
fn functions_of_one_name_have_a_row_per_file() {
    let folder = TempDir::new().unwrap();
    let trace = build(folder.path(), "one", 10);
    let expected = [
        "<module> json/__init__.py:10",
        "<module> os.py:10",
        "<module> re/__init__.py:10",
        // Two lines: neither is that of all blocks.
        "grow g.c",
        "helper a.cpp:10",
        "helper b.cpp:30",
        // Nothing but the line tells two lambdas of a file apart.
        "operator() l.cpp:10",
        "operator() l.cpp:13",
        "operator() m.cpp:10",
    ];
    assert_eq!(names(&["sites"], &[&trace]), expected);
    let files = ["a.cpp", "b.cpp", "g.c", "json/__init__.py", "l.cpp", "m.cpp", "os.py", "re/__init__.py"];
    assert_eq!(names(&["sites", "--group", "file"], &[&trace]), files);
    let folded = String::from_utf8(run(&["sites", "--folded"], &[&trace]).stdout).unwrap();
    for line in ["helper a.cpp 1000", "helper b.cpp 1000", "grow 2000", "<module> re/__init__.py 1000"] {
        assert!(folded.lines().any(|found| found == line), "{line}: {folded}");
    }
}

#[test]
fn rows_of_another_build_are_found_by_function_and_file() {
    let folder = TempDir::new().unwrap();
    let (before, after) = (build(folder.path(), "one", 10), build(folder.path(), "two", 12));
    let rows = json(&["diff"], &[&before, &after])["results"].take();
    for row in rows.as_array().unwrap() {
        assert_eq!(row["state"], "", "{row}");
        assert_eq!(row["after"]["churn"]["blocks"].as_u64().unwrap() % 12, 0, "{row}");
    }
    let expected = [
        // The lines are not those of both builds.
        "<module> json/__init__.py",
        "<module> os.py",
        "<module> re/__init__.py",
        "grow g.c",
        "helper a.cpp",
        "helper b.cpp",
        "operator() l.cpp",
        "operator() m.cpp",
    ];
    assert_eq!(names(&["diff"], &[&before, &after]), expected);
    let page = String::from_utf8(run(&["diff", "-o", "-"], &[&before, &after]).stdout).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "nothing but the page");
}

/// Of a function that is inlined in one build, debug information may have only the last part of the name.
#[test]
fn a_function_that_another_build_inlines_is_the_same() {
    let folder = TempDir::new().unwrap();
    let [before, after] = ["one", "two"].map(|name| folder.path().join(name).with_extension("hwt"));
    trace_of(&before, &About::default(), &[(&[("one+0x1", "load a.cpp:4 in main a.cpp:9")], 3)]);
    let whole = [("two+0x1", "a::load(int, char) a.cpp:5"), ("two+0x2", "main a.cpp:9")];
    trace_of(&after, &About::default(), &[(&whole, 4)]);
    for traces in [[&*before, &*after], [&*after, &*before]] {
        assert_eq!(names(&["diff"], &traces), ["a::load(int, char) a.cpp"]);
        assert_eq!(json(&["diff"], &traces)["results"][0]["state"], "");
    }
}

#[test]
fn pprof_has_a_function_per_file() {
    let Ok(tool) = Command::new("go").args(["tool", "-n", "pprof"]).output() else {
        eprintln!("skipped: go is not installed");
        return;
    };
    let folder = TempDir::new().unwrap();
    let (trace, profile) = (build(folder.path(), "one", 10), folder.path().join("p.pb.gz"));
    run(&["export", "--to", "pprof", "-o", profile.to_str().unwrap()], &[&trace]);
    let mut tool = Command::new(String::from_utf8(tool.stdout).unwrap().trim());
    let output = tool.args(["-top", "-nodefraction=0"]).arg(&profile).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    for name in ["helper a.cpp", "helper b.cpp", "<module> re/__init__.py"] {
        assert!(table.lines().any(|line| line.trim_end().ends_with(name)), "{name}: {table}");
    }
}

/// A C++ program in whose debug information lambdas have no name of their own.
#[test]
fn lambdas_have_the_names_of_their_symbols() {
    let folder = TempDir::new().unwrap();
    let (source, program) = (folder.path().join("l.cpp"), folder.path().join("l"));
    let text = "#include <cstdlib>\nvoid *volatile sink;\nint main() {\n\
        auto one = [](int n) __attribute__((noinline)) { sink = malloc(n); };\n\
        auto two = [](int n) __attribute__((noinline)) { sink = malloc(2 * n); };\n one(1000); two(1000); }\n";
    fs::write(&source, text).unwrap();
    let built = Command::new("c++").args(["-O1", "-g", "-fno-builtin", "-o"]).arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no compiler of C++");
        return;
    }
    let output = heapwright().args(["sites", "--json", "--"]).arg(&program).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    for name in
        ["main::{lambda(int)#1}::operator()(int) const l.cpp:4", "main::{lambda(int)#2}::operator()(int) const l.cpp:5"]
    {
        assert!(found.contains(name), "{name}: {found}");
    }
}

/// Returns the rows of a program as it runs, each with the calls of its functions.
fn calls_of(program: &Path) -> Vec<(String, u64)> {
    let output = heapwright().args(["sites", "--every", "1", "--json", "--limit", "0", "--"]).arg(program).output();
    let data: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let row = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row["churn"]["blocks"].as_u64().unwrap());
    data["results"].as_array().unwrap().iter().map(row).collect()
}

/// Functions of the standard library with template arguments that are local to a function or a file.
#[test]
fn containers_of_local_types_belong_to_the_functions_that_use_them() {
    let folder = TempDir::new().unwrap();
    let (source, program) = (folder.path().join("l.cpp"), folder.path().join("l"));
    let text = "#include <functional>\n#include <vector>\n#define OUTER __attribute__((noinline)) void\n\
        #define FILL(n, one) std::vector<decltype(one)> all; for (int i = 0; i < n; i++) all.push_back(one); \\\n\
        __asm__ volatile(\"\" : : \"r\"(&all) : \"memory\")\n\
        namespace { struct Item { char bytes[100]; }; }\nvolatile int sink;\n\
        OUTER in_file() { FILL(64, Item{}); }\n\
        static OUTER in_static() { FILL(4, Item{}); }\n\
        OUTER in_function() { struct Local { char bytes[10]; }; FILL(1024, Local{}); }\n\
        OUTER in_lambda(int n) { auto lambda = [n](int x) { return x + n; }; FILL(16, lambda); }\n\
        OUTER in_object(int n) { char bytes[200] = {}; for (int i = 0; i < 6; i++) {\n\
        std::function<int(int)> call = [bytes, n](int x) { return bytes[x] + n; }; sink = call(i); } }\n\
        int main(int count, char **) { in_file(); in_static(); in_function(); in_lambda(count); in_object(count); }\n";
    fs::write(&source, text).unwrap();
    for options in [["-O2", "-g"], ["-O2", "-g1"], ["-O0", "-g"], ["-O2", "-gdwarf-4"]] {
        let built = Command::new("c++").args(options).arg("-o").arg(&program).arg(&source).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no compiler of C++");
            return;
        }
        let rows = calls_of(&program);
        // A vector grows by doubling.
        for (function, calls) in
            [("in_file()", 7), ("in_static()", 3), ("in_function()", 11), ("in_lambda(int)", 5), ("in_object(int)", 6)]
        {
            let of_function = rows.iter().filter(|(name, _)| name.starts_with(&format!("{function} l.cpp")));
            assert_eq!(of_function.map(|(_, calls)| calls).sum::<u64>(), calls, "{options:?} {function}: {rows:#?}");
        }
    }
}

/// Functions of the C library that return a block. With its debug information they have other names than without.
#[test]
fn blocks_of_the_c_library_belong_to_its_callers() {
    let folder = TempDir::new().unwrap();
    let (source, program) = (folder.path().join("c.cpp"), folder.path().join("c"));
    let text = "#include <cstring>\n#include <cstdlib>\n#include <exception>\n\
        #define OUTER __attribute__((noinline)) void\n\
        void *volatile sink;\n\
        OUTER copies(const char *text) { for (int i = 0; i < 10; i++) sink = strdup(text); }\n\
        OUTER shortens(const char *text) { for (int i = 0; i < 11; i++) sink = strndup(text, 2); }\n\
        OUTER throws(int n) { for (int i = 0; i < 12; i++) try { if (n) throw n; } catch (int) {} }\n\
        OUTER again(std::exception_ptr e) { for (int i = 0; i < 13; i++)\n\
        try { std::rethrow_exception(e); } catch (int) {} }\n\
        int main(int count, char **words) { copies(words[0]); shortens(words[0]); throws(count);\n\
        std::exception_ptr e; try { throw 1; } catch (int) { e = std::current_exception(); } again(e); }\n";
    fs::write(&source, text).unwrap();
    let built = Command::new("c++").args(["-O1", "-g", "-o"]).arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no compiler of C++");
        return;
    }
    let rows = calls_of(&program);
    for (function, calls) in
        [("copies(char const*)", 10), ("shortens(char const*)", 11), ("throws(int)", 12), ("again(", 13)]
    {
        let of_function = rows.iter().filter(|(name, _)| name.starts_with(function));
        assert_eq!(of_function.map(|(_, calls)| calls).sum::<u64>(), calls, "{function}: {rows:#?}");
    }
}

/// Functions that are inlined where they are called by name, and not where they are called by address. GCC's debug
/// information has only the last part of the names of some.
#[test]
fn a_function_that_is_inlined_in_places_is_one_row() {
    let folder = TempDir::new().unwrap();
    let (source, program) = (folder.path().join("i.cpp"), folder.path().join("i"));
    let text = "#include <cstdlib>\n#define GETS(name) void *name(int n) { void *p = malloc(n); K(p); return p; }\n\
        #define K(p) __asm__ volatile(\"\" : : \"r\"(p) : \"memory\")\n\
        static GETS(in_static)\nnamespace { GETS(in_namespace)\nstruct S {\n GETS(in_struct) };\n}\n\
        namespace pub {\n GETS(in_public) }\n\
        using F = void *(*)(int);\nF volatile one = in_static, two = in_namespace, three = pub::in_public;\n\
        void *(S::*volatile four)(int) = &S::in_struct;\n\
        int main() { S s; for (int i = 0; i < 3; i++) {\n\
        K(in_static(100)); K(in_namespace(100)); K(pub::in_public(100)); K(s.in_struct(100)); }\n\
        for (int i = 0; i < 4; i++) { K(one(100)); K(two(100)); K(three(100)); K((s.*four)(100)); } }\n";
    fs::write(&source, text).unwrap();
    for options in [["-O2", "-g"], ["-O0", "-g"], ["-O2", "-gdwarf-4"]] {
        let built = Command::new("c++").args(options).arg("-o").arg(&program).arg(&source).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no compiler of C++");
            return;
        }
        let mut rows = calls_of(&program);
        rows.sort();
        let functions = ["(anonymous namespace)::S::in_struct(int)", "(anonymous namespace)::in_namespace(int)"];
        for (row, function) in rows.iter().zip(functions.into_iter().chain(["in_static(int)", "pub::in_public(int)"])) {
            assert!(
                row.0.starts_with(&format!("{function} i.cpp:")) && row.1 == 7,
                "{options:?} {function}: {rows:#?}"
            );
        }
        assert_eq!(rows.len(), 4, "{options:?}: {rows:#?}");
    }
}

#[test]
fn a_stack_may_be_deep() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("deep.hwt");
    let texts: Vec<String> = (0..60_000).map(|number| format!("f{number}")).collect();
    let frames: Vec<(&str, &str)> = texts.iter().map(|text| (text.as_str(), text.as_str())).collect();
    trace_of(&trace, &About::default(), &[(&frames, 1)]);
    for tree in ["--tree", "--tree=bottom-up"] {
        let lines = String::from_utf8(run(&["sites", tree], &[&trace]).stdout).unwrap();
        assert_eq!(lines.lines().count(), 60_002);
    }
}

#[test]
fn results_are_all_that_is_printed() {
    let folder = TempDir::new().unwrap();
    let source = "#include <stdlib.h>\n#include <stdio.h>\nvoid *volatile sink;\n\
        int main(void) { sink = malloc(5000); puts(\"printed by the program\"); }\n";
    let program = compiled(folder.path(), "p", source, &["-O1", "-g", "-fno-builtin", "-w"]);
    for (words, result) in [
        (&["sites", "--json"][..], "{"),
        (&["sites", "--folded"], "_start"),
        (&["report", "--no-real", "-p", "first", "-o", "-"], "<!doctype html>"),
    ] {
        let output = heapwright().args(words).arg("--").arg(&program).output().unwrap();
        let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && said.contains("printed by the program"), "{words:?}: {said}");
        assert!(printed.contains(result) && !printed.contains("printed by the program"), "{words:?}: {printed}");
    }
    // A table is for people, and so is what the program prints.
    let output = heapwright().arg("sites").arg("--").arg(&program).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("printed by the program"));
}

#[test]
fn what_an_allocator_of_the_program_requests_belongs_to_its_callers() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("t.hwt");
    let of_rust = [
        ("p+0x1", "<my::Counted as core::alloc::global::GlobalAlloc>::alloc count.rs:7"),
        ("p+0x2", "__rustc::__rust_alloc"),
        ("p+0x3", "<alloc::raw_vec::RawVecInner>::finish_grow"),
        ("p+0x4", "my::load load.rs:3"),
    ];
    let of_cplusplus =
        [("p+0x5", "my::count(unsigned long) n.cpp:3"), ("p+0x6", "operator new(unsigned long) n.cpp:9")];
    let both = [&of_cplusplus[..], &[("p+0x7", "my::parse(int) p.cpp:8")]].concat();
    // Nothing else is known.
    let alone = of_cplusplus;
    trace_of(&trace, &About::default(), &[(&of_rust, 10), (&both, 10), (&alone, 10)]);
    let expected = ["my::count(unsigned long) n.cpp:3", "my::load load.rs:3", "my::parse(int) p.cpp:8"];
    assert_eq!(names(&["sites"], &[&trace]), expected);
    let page = String::from_utf8(run(&["report", "--no-real", "-p", "first", "-o", "-"], &[&trace]).stdout).unwrap();
    assert!(
        page.contains("my::parse(int) p.cpp:8") && !page.contains(" ← my::parse"),
        "sites begin with their callers"
    );
}

#[test]
fn what_an_extension_requests_belongs_to_the_python_function_that_called_it() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("t.hwt");
    let frames = [
        ("_multi.cpython-311.so+0x1", "default_malloc"),
        ("_multi.cpython-311.so+0x2", "array_zeros"),
        ("python3.11+0x3", "_PyEval_EvalFrameDefault"),
        ("python:/a/grid.py:make:6", "make grid.py:6"),
        ("python:/a/grid.py:<module>:9", "<module> grid.py:9"),
    ];
    trace_of(&trace, &About::default(), &[(&frames, 10)]);
    assert_eq!(names(&["sites"], &[&trace]), ["make grid.py:6"]);
    assert_eq!(names(&["sites", "--group", "line"], &[&trace]), ["make grid.py:6"]);
    assert_eq!(names(&["sites", "--group", "file"], &[&trace]), ["grid.py"]);
    assert_eq!(names(&["sites", "--group", "module"], &[&trace]), ["_multi.cpython-311.so"]);
    assert_eq!(names(&["sites", "--all-frames"], &[&trace]), ["default_malloc (_multi.cpython-311.so)"]);
    let stack = json(&["sites"], &[&trace])["results"][0]["stack"].take();
    assert_eq!(stack.as_array().unwrap().len(), 4, "{stack}");
    let folded = String::from_utf8(run(&["sites", "--folded"], &[&trace]).stdout).unwrap();
    assert_eq!(folded, "<module>;make;array_zeros;default_malloc 1000\n");
}

#[test]
fn what_the_sites_of_a_trace_lack_is_said() {
    let folder = TempDir::new().unwrap();
    let (trace, none) = (folder.path().join("t.hwt"), folder.path().join("none.hwt"));
    let mut about = About::default();
    about.set("sites", "of one request in 16: each chosen independently with this probability");
    about.set("sites-lacking", "of 9 requests, 3 lead nowhere. And more");
    let frames: [&[(&str, &str)]; 1] = [&[("p+0x1", "work p.c:3")]];
    trace_of(&trace, &about, &[(frames[0], 10)]);
    assert!(
        String::from_utf8(run(&["sites"], &[&trace]).stdout)
            .unwrap()
            .contains("\nof 9 requests, 3 lead nowhere. And more.\n")
    );
    assert_eq!(json(&["sites"], &[&trace])["trace"]["sites_lacking"], "of 9 requests, 3 lead nowhere. And more");
    let compared = String::from_utf8(run(&["diff"], &[&trace, &trace]).stdout).unwrap();
    assert!(compared.contains("t.hwt: of 9 requests, 3 lead nowhere. And more."), "{compared}");
    let page = String::from_utf8(run(&["report", "--no-real", "-p", "first", "-o", "-"], &[&trace]).stdout).unwrap();
    assert!(page.contains(r#""lacking":"of 9 requests, 3 lead nowhere. And more""#), "the page says it, too");
    trace_of(&none, &about, &[]);
    let refused = String::from_utf8(heapwright().arg("sites").arg(&none).output().unwrap().stderr).unwrap();
    assert!(refused.ends_with("none.hwt has no call sites: of 9 requests, 3 lead nowhere. And more\n"), "{refused}");
}

#[test]
fn a_recording_that_ended_early_is_called_incomplete() {
    let folder = TempDir::new().unwrap();
    let frames: [&[(&str, &str)]; 1] = [&[("p+0x1", "work p.c:3")]];
    let [whole, cut, snapshot] = ["whole", "cut", "snapshot"].map(|name| folder.path().join(format!("{name}.hwt")));
    trace_of(&whole, &About::default(), &[(frames[0], 10)]);
    let why = "its trace reached 16.0 MiB, the limit (--max-size)";
    let mut about = About::default();
    about.set("incomplete", why);
    trace_of(&cut, &about, &[(frames[0], 5)]);
    let mut about = About::default();
    about.set(SNAPSHOT, "yes");
    trace_of(&snapshot, &about, &[(frames[0], 5)]);

    let said = |words: &[&str], traces: &[&Path]| String::from_utf8(run(words, traces).stderr).unwrap();
    let expected = format!("cut.hwt is incomplete, the program went on: {why}\n");
    for words in [&["sites"][..], &["sites", "--tree"], &["sites", "--folded"], &["sites", "--json"]] {
        assert!(said(words, &[&cut]).ends_with(&expected), "{words:?}");
        assert_eq!(said(words, &[&whole]), "");
    }
    let (csv, page, small) = (folder.path().join("t.csv"), folder.path().join("t.html"), folder.path().join("s.hwt"));
    let [csv, page, small] = [&csv, &page, &small].map(|path| path.to_str().unwrap());
    for words in [
        &["compare", "--policies-only", "-p", "best"][..],
        &["replay", "-p", "best"],
        &["replay", "--real"],
        &["fit", "-p", "best"],
        &["sweep", "-p", "best", "-o", csv],
        &["minimize", "-p", "best", "--region", "16", "--budget", "1s", "-o", small],
        &["watch", "--once"],
        &["export", "--to", "csv"],
        &["export", "--to", "perfetto"],
        &["report", "--no-real", "-p", "best", "-o", page],
    ] {
        let text = said(words, &[&cut]);
        assert_eq!(text.matches(&expected).count(), 1, "{words:?}: {text}");
        // A sweep replaces no rows.
        let _ = fs::remove_file(csv);
        assert!(!said(words, &[&whole]).contains("incomplete"), "{words:?}");
    }
    assert_eq!(json(&["sites"], &[&cut])["trace"]["incomplete"], why);
    assert_eq!(json(&["sites"], &[&whole])["trace"]["incomplete"], Value::Null);
    let compared = json(&["diff"], &[&whole, &cut]);
    assert_eq!((&compared["before"]["incomplete"], &compared["after"]["incomplete"]), (&Value::Null, &why.into()));
    assert!(said(&["diff"], &[&whole, &cut]).ends_with(&expected));
    // What cannot be judged fails, as in `compare`: a job of a CI that was cut short is not a good one.
    let of_snapshot = "snapshot.hwt is a snapshot, which knows only what is held\n";
    // Bytes behind the end of a trace take nothing from it.
    let followed = folder.path().join("followed.hwt");
    fs::write(&followed, [&fs::read(&whole).unwrap()[..], b"more"].concat()).unwrap();
    let cases: [(&str, &Path, &Path, &str); 14] = [
        ("leaked > 1GiB", &followed, &followed, ""),
        ("leaked > +0", &cut, &followed, "cannot be judged: cut.hwt is incomplete\n"),
        ("leaked > 1GiB", &whole, &whole, ""),
        ("leaked > 1GiB", &whole, &cut, "cannot be judged: cut.hwt is incomplete\n"),
        ("calls > 0", &whole, &cut, "` holds: "),
        ("calls > 1GiB", &cut, &whole, ""),
        ("calls > +1GiB", &cut, &whole, ""),
        ("calls > +0", &cut, &whole, "cannot be judged: cut.hwt is incomplete\n"),
        // What is never freed in a part may be freed in the rest.
        ("leaked > 0", &whole, &cut, "cannot be judged: cut.hwt is incomplete\n"),
        ("leaked > +1GiB", &cut, &whole, "cannot be judged: cut.hwt is incomplete\n"),
        ("rounding > 1.5x", &cut, &whole, "cannot be judged: cut.hwt is incomplete\n"),
        ("leaked > 1GiB", &whole, &snapshot, of_snapshot),
        ("calls > +1GiB", &snapshot, &whole, of_snapshot),
        ("peak > 1GiB", &snapshot, &snapshot, ""),
    ];
    for (condition, before, after, expected) in cases {
        let output = diff_with_exit_code(condition, before, after);
        let said = String::from_utf8(output.stderr).unwrap();
        let reason = said.lines().filter(|line| line.contains('`')).collect::<Vec<_>>();
        assert_eq!(output.status.code(), Some(i32::from(!expected.is_empty())), "{condition}: {said}");
        assert_eq!(reason.len(), usize::from(!expected.is_empty()), "{condition}: {said}");
        assert!(said.contains(expected), "{condition}: {said}");
    }
    let printed = String::from_utf8(run(&["diff"], &[&whole, &snapshot]).stdout).unwrap();
    assert!(printed.contains("snapshot.hwt: A snapshot: what is held is known"), "{printed}");
    let page = String::from_utf8(run(&["diff", "-o", "-"], &[&snapshot, &cut]).stdout).unwrap();
    assert!(page.contains(&format!("cut.hwt: Incomplete, the program went on: {why}.")), "the page says it, too");
    assert!(page.contains("snapshot.hwt: A snapshot"), "the page says it, too");
}

fn diff_with_exit_code(condition: &str, before: &Path, after: &Path) -> Output {
    heapwright().args(["diff", "--fail-if", condition]).arg(before).arg(after).output().unwrap()
}

/// Half of the requests have a stack.
#[test]
fn what_is_exact_has_no_deviation() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("sampled.hwt");
    let source = "#include <stdlib.h>\nvoid *volatile sink;\n\
        int main(void) { for (int i = 0; i < 1000; ++i) sink = malloc(100); }\n";
    let program = compiled(folder.path(), "p", source, &["-O1", "-g", "-fno-builtin", "-w"]);
    let mut record = heapwright();
    record.args(["record", "--sites=2", "-o"]).arg(&trace).arg("--").arg(program);
    assert!(record.output().unwrap().status.success());
    for group in ["thread", "size"] {
        let printed = String::from_utf8(run(&["sites", "--group", group], &[&trace]).stdout).unwrap();
        assert!(!printed.contains('±'), "{printed}");
        let row = json(&["sites", "--group", group], &[&trace])["results"][0].take();
        assert_eq!(row["held_deviation"], Value::Null);
    }
    assert!(String::from_utf8(run(&["sites"], &[&trace]).stdout).unwrap().contains('±'));
    let page = String::from_utf8(run(&["report", "--no-real", "-p", "first", "-o", "-"], &[&trace]).stdout).unwrap();
    let (_, data) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let moments = &data["holders"]["moments"];
    let peak = &moments["rows"][moments["peak"].as_u64().unwrap() as usize];
    // Of n sampled blocks of 100 bytes.
    let sampled = peak["held"].as_f64().unwrap() / 200.0;
    let expected = 100.0 * (sampled * 2.0).sqrt();
    let found = peak["deviation"].as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 0.3, "{found} {expected}");
}
