//! Other libraries beside the malloc: loaded while the program runs, or preloaded too.

mod support;

use std::fs::{copy, create_dir_all};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use support::{POLICIES, code, compile, complaints, is_emulated, library, run_for};

/// The settings of the heaps under test.
fn heaps() -> impl Iterator<Item = Vec<(&'static str, &'static str)>> {
    let policies = POLICIES.into_iter().map(|policy| vec![("HEAPWRIGHT_POLICY", policy)]);
    [vec![], vec![("HEAPWRIGHT_HARDEN", "1")]].into_iter().chain(policies)
}

#[test]
fn libraries_that_prefer_their_own_dependencies_have_the_programs_malloc() {
    let library = compile("deepbound_library.c", &["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/inner"]);
    let folder = library.parent().expect("a folder").join("inner");
    create_dir_all(&folder).expect("the folder can be made");
    copy(&library, folder.join("libinner.so")).expect("the library can be copied");
    let program = compile("deepbound.c", &["-ldl"]);
    for heap in heaps() {
        let output = run_for(60, &program, &[library.to_str().expect("a path of text")], &heap);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{heap:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "exchanged\n", "{heap:?}");
    }
}

#[test]
fn functions_of_the_c_library_may_be_others_that_allocate() {
    if is_emulated() {
        return;
    }
    let program = compile("exercise.c", &[]);
    let other = compile("allocating.c", &["-shared", "-fPIC"]);
    let preloaded = format!("{}:{}", library().path().display(), other.display());
    for heap in heaps().chain([vec![("HEAPWRIGHT_PURGE", "thread")], vec![("HEAPWRIGHT_LIMIT", "512M")]]) {
        let output = run_for(60, &program, &[], &[&heap[..], &[("LD_PRELOAD", &preloaded)]].concat());
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{heap:?}");
    }
}

/// `reallocarray`, which a program need not replace with the rest, ends in the program's `realloc`.
#[test]
fn a_program_with_a_malloc_of_its_own_gets_no_block_of_another() {
    let program = compile("own_realloc.c", &["-fno-builtin"]);
    for heap in heaps() {
        let output = run_for(60, &program, &[], &heap);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{heap:?}");
    }
}

/// A program hands the preloaded library on to its children, which may be linked with musl. What musl does not have
/// must not be needed.
#[test]
fn programs_of_another_c_library_have_this_malloc_too() {
    if is_emulated() {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/two_threads.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two_threads-musl");
    let compiled = Command::new("musl-gcc").args(["-fno-builtin", "-pthread", "-o"]).args([&program, &source]).status();
    if compiled.is_err() {
        // Not by a macro: the test harness hides what they print.
        let _ = writeln!(std::io::stderr(), "another C library skipped: musl-gcc is not installed (musl-tools)");
        return;
    }
    for heap in heaps() {
        let output = run_for(60, &program, &[], &heap);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{heap:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "two threads\n", "{heap:?}");
    }
}
