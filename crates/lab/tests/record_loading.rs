//! `heapwright record` and what is loaded or linked beside its library: extensions, and other mallocs.

mod common;

use std::fs::{copy, create_dir};
use std::process::Command;

use common::{compiled, heapwright};

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
