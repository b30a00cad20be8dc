//! Other libraries beside the malloc: loaded while the program runs, or preloaded too.

mod support;

use std::fs::{copy, create_dir_all};

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
