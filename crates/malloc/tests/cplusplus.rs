//! C++ operators that programs and libraries replace: forms that are not replaced end in those that are.

mod support;

use std::path::{Path, PathBuf};

use heapwright_testkit::library::tool;
use support::{code, compile, compile_as, complaints, is_emulated, library, run};

/// The variables of each kind of heap: the default one, a policy, the hardened one.
const HEAPS: [(&str, &str); 3] =
    [("HEAPWRIGHT_POLICY", "cached"), ("HEAPWRIGHT_POLICY", "first"), ("HEAPWRIGHT_HARDEN", "1")];

fn runs(program: &Path, arguments: &[&str], text: &str) {
    for heap in HEAPS {
        let output = run(program, arguments, &[heap]);
        assert_eq!(code(&output), 0, "{arguments:?} {heap:?}: {}", complaints(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), text);
    }
}

fn runs_replaced(variant: &str) {
    let name = format!("replaced-{variant}");
    let program = compile_as(&name, "replaced.cc", &[&format!("-D{}", variant.to_uppercase())]);
    runs(&program, &[variant], "replaced: ok");
}

#[test]
fn every_plain_form_ends_in_the_basic_ones_of_the_program() {
    runs_replaced("basic");
}

#[test]
fn every_aligned_form_ends_in_the_basic_aligned_ones_of_the_program() {
    runs_replaced("aligned");
}

#[test]
fn array_forms_end_in_the_array_forms_of_the_program_and_others_do_not() {
    runs_replaced("array");
}

#[test]
fn forms_that_nothing_ends_in_are_replaced_alone() {
    runs_replaced("nothrow");
    runs_replaced("sized");
}

#[test]
fn nothing_is_replaced() {
    runs_replaced("nothing");
}

/// A static C++ library brings its own forms, which end in its own.
#[test]
fn programs_with_a_static_library_replace_them_too() {
    let program = compile_as("replaced-static", "replaced.cc", &["-DBASIC", "-static-libstdc++", "-static-libgcc"]);
    runs(&program, &["basic"], "replaced: ok");
}

/// The preloaded library comes before others, which therefore replace nothing; all forms agree on that.
#[test]
fn a_library_that_replaces_forms_is_replaced_itself() {
    let replacing = compile_as("libreplacing.so", "replaced.cc", &["-DBASIC", "-DLIBRARY", "-shared", "-fPIC"]);
    let folder = replacing.parent().expect("it lies in a folder").to_str().expect("a path of text");
    let flags = ["-DUSER", &format!("-L{folder}"), "-lreplacing", &format!("-Wl,-rpath,{folder}")];
    runs(&compile_as("replaced-by-library", "replaced.cc", &flags), &["nothing"], "replaced: ok");
    let plugin = replacing.to_str().expect("a path of text");
    runs(&compile("late.c", &["-ldl"]), &[plugin, "uses_those_before"], "late: ok");
}

/// A program that is linked with the library instead of having it preloaded.
#[test]
fn programs_that_are_linked_with_the_library_replace_forms() {
    if is_emulated() {
        return;
    }
    let folder = library().path().parent().expect("it lies in a folder").to_str().expect("a path of text");
    for variant in ["basic", "aligned", "array"] {
        let (define, path) = (format!("-D{}", variant.to_uppercase()), format!("-Wl,-rpath,{folder}"));
        let flags = [&define, "-Wl,--no-as-needed", &format!("-L{folder}"), "-lheapwright", &path];
        let program = compile_as(&format!("replaced-linked-{variant}"), "replaced.cc", &flags);
        let output = std::process::Command::new(&program).arg(variant).output().expect("it runs");
        assert_eq!(code(&output), 0, "{variant}: {}", complaints(&output));
    }
}

fn plugin() -> PathBuf {
    compile_as("late.so", "late.cc", &["-shared", "-fPIC"])
}

/// The C++ library is found when it is needed: programs in C load it late, and for their plugins only.
#[test]
fn plugins_of_programs_in_c_get_exceptions() {
    let (program, plugin) = (compile("late.c", &["-ldl"]), plugin());
    for function in ["throws_bad_alloc", "returns_null"] {
        runs(&program, &[plugin.to_str().expect("a path of text"), function], "late: ok");
    }
}

/// Functions of Rust must have no frame when a handler throws, see `throwing`.
#[test]
fn operator_new_jumps_to_what_throws() {
    let path = library().path().to_str().expect("a path of text");
    let text = tool("objdump", &["-d", "--no-show-raw-insn", path]);
    for name in ["<_Znwm>:", "<_ZnwmSt11align_val_t>:"] {
        let function =
            text.split("\n\n").find(|function| function.lines().next().is_some_and(|head| head.contains(name)));
        let function = function.unwrap_or_else(|| panic!("{name} is not there"));
        let mut instructions = function.lines().filter_map(|line| line.split('\t').nth(1));
        let is_call = |text: &str| text.starts_with("call") || text.starts_with("bl ") || text.starts_with("blr");
        assert!(!instructions.any(is_call), "{function}");
    }
}

/// The forms that others end in by default. Calls of them have to go through the dynamic linker.
const ENDS: [&str; 7] =
    ["_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t", "_ZdlPv", "_ZdaPv", "_ZdlPvSt11align_val_t"];

#[test]
fn forms_call_others_through_the_dynamic_linker() {
    let relocations = tool("readelf", &["-rW", library().path().to_str().expect("a path of text")]);
    for name in ENDS {
        let is_bound_late = |line: &str| {
            (line.contains("GLOB_DAT") || line.contains("JUMP_SLO")) && line.contains(&format!(" {name} + 0"))
        };
        assert!(relocations.lines().any(is_bound_late), "{name}: {relocations}");
    }
}
