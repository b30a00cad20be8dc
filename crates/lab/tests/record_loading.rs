//! `heapwright record` and what is loaded or linked beside its library: extensions, and other mallocs.

mod common;

use std::fs::{File, copy, create_dir, read_dir};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader};

/// Records a program into `t.hwt` in `folder`, and every other process beside it.
fn record(folder: &Path, program: &Path) -> Output {
    let mut command = heapwright();
    command.args(["record", "--min-events", "0", "-o"]).arg(folder.join("t.hwt")).arg("--").arg(program);
    command.output().unwrap()
}

/// Returns how many blocks of this size a program requested.
fn requests_of(size: u64, trace: &Path) -> usize {
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap();
    let events = std::iter::from_fn(|| reader.next_event().unwrap());
    events.filter(|event| matches!(event, Event::Allocate { size: found, .. } if *found == size)).count()
}

#[test]
fn blocks_of_libraries_that_prefer_their_own_dependencies_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let check = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../testkit/c");
    let source = include_str!("../../malloc/tests/programs/deepbound.c");
    let program = compiled(folder.path(), "deepbound", source, &["-ldl", check]);
    let source = include_str!("../../malloc/tests/programs/deepbound_library.c");
    let library = compiled(folder.path(), "outer", source, &["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/inner"]);
    create_dir(folder.path().join("inner")).unwrap();
    copy(&library, folder.path().join("inner/libinner.so")).unwrap();
    let trace = folder.path().join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "-o"]).arg(&trace).arg("--").arg(program).arg(library);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"exchanged\n"[..]), "{said}");
    // No block was made or freed where the recorder did not hear it.
    assert!(trace.exists() && !said.contains("by other means"), "{said}");
}

#[test]
fn programs_with_a_malloc_of_their_own_run_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let check = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../testkit/c");
    let source = include_str!("../../malloc/tests/programs/own_realloc.c");
    let program = compiled(folder.path(), "own_realloc", source, &["-fno-builtin", check]);
    let mut command = heapwright();
    command.args(["record", "-o"]).arg(folder.path().join("t.hwt")).arg("--").arg(program);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// Whether an alignment is refused differs from one version of the C library to another.
#[test]
fn every_alignment_is_granted_or_refused_as_without_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        compiled(folder.path(), "aligned", include_str!("programs/aligned.c"), &["-O1", "-w", "-fno-builtin"]);
    let unrecorded = Command::new(&program).output().unwrap();
    let mut command = heapwright();
    command.args(["record", "-o"]).arg(folder.path().join("t.hwt")).arg("--").arg(program);
    let recorded = command.output().unwrap();
    let [unrecorded, recorded] = [unrecorded, recorded].map(|output| String::from_utf8(output.stdout).unwrap());
    assert_eq!(recorded, unrecorded);
}

#[test]
fn operators_of_a_library_that_has_a_malloc_too_are_reported_as_missed() {
    let folder = tempfile::tempdir().unwrap();
    let shared = ["-O1", "-fno-builtin", "-shared", "-fPIC", "-w"];
    let library = |name: &str, source: &str| compiled(folder.path(), name, source, &shared);
    let real =
        "void *__libc_malloc(unsigned long);\nvoid *malloc(unsigned long size) { return __libc_malloc(size); }\n";
    let operator = "void *_Znwm(unsigned long size) { return __libc_malloc(size); }\n";
    let source = "void *_Znwm(unsigned long);\nvoid *malloc(unsigned long);\nvoid free(void *);\n\
        int main(void) { free(_Znwm(700)); free(malloc(701)); return 0; }";
    let recorded = |name: &str, libraries: &[&PathBuf]| {
        let libraries = libraries.iter().map(|library| library.to_str().unwrap());
        let flags: Vec<&str> =
            ["-O1", "-fno-builtin", "-w", "-Wl,--no-as-needed"].into_iter().chain(libraries).collect();
        let output = record(folder.path(), &compiled(folder.path(), name, source, &flags));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let trace = folder.path().join("t.hwt");
        (requests_of(700, &trace), requests_of(701, &trace), said.contains("`operator new`"))
    };
    let both = library("both.so", &format!("{real}{operator}"));
    assert_eq!(recorded("missed", &[&both]), (0, 1, true));
    // As of libstdc++: the operator is of another library, and calls malloc.
    let operator = operator.replace("__libc_malloc", "malloc");
    let apart = library("apart.so", &format!("void *malloc(unsigned long);\n{operator}"));
    assert_eq!(recorded("heard", &[&apart, &library("malloc.so", real)]), (1, 1, false));
}

/// The linker frees the text of its last error with the next look for a symbol.
#[test]
fn a_child_of_a_program_that_looked_for_a_symbol_in_vain_is_recorded_and_has_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n\
        #include <unistd.h>\nint main(void) {\n  if (dlsym(RTLD_DEFAULT, \"no_such_function\")) return 1;\n\
        pid_t child = fork();\n  int status;\n\
        if (child == 0) { alarm(30); free(malloc(710)); _exit(!dlerror()); }\n\
        return waitpid(child, &status, 0) != child || status != 0; }";
    let output = record(folder.path(), &compiled(folder.path(), "vain", source, &["-O1", "-fno-builtin"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let paths = read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let traces = paths.filter(|path| path.extension().is_some_and(|extension| extension == "hwt"));
    assert_eq!(traces.map(|trace| requests_of(710, &trace)).sum::<usize>(), 1, "{said}");
}
