//! Pages of 16 and 64 KiB, as far as qemu's user-mode emulation has them (`-p`): only under an emulator. Locked memory,
//! limits and what the emulator's own kernel does with its shorter pages are not covered.

mod support;

use std::io::Write;
use std::process::Command;

use heapwright_testkit::library::setting;
use support::{code, compile, complaints, library};

/// A program that has the shim's `mincore`. It is linked in: with long pages the emulated loader cannot preload two
/// libraries.
fn exercise(page: &str, heap: &str) {
    const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/shim.c");
    let Some(runner) = setting("HEAPWRIGHT_TEST_RUNNER") else {
        // Not by a macro: the test harness hides what they print.
        let _ = writeln!(std::io::stderr(), "long pages skipped: no emulator (.ci/aarch64 runs it)");
        return;
    };
    let program = compile("exercise.c", &["-rdynamic", SHIM]);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "300"]);
    for word in runner.split_whitespace() {
        command.arg(word);
        if word.contains("qemu-") {
            command.args(["-p", page]);
        }
    }
    command.args(["-E", &format!("LD_PRELOAD={}", library().path().display()), "-E", "SHIM=pages"]);
    if !heap.is_empty() {
        command.args(["-E", heap]);
    }
    let output = command.arg(program).args(["pages", page]).output().expect("timeout is installed");
    assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{page} {heap}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "exercised\n");
}

/// Makes a test of each heap with each length.
macro_rules! tests {
    ($($name:ident: $page:literal $heap:literal)*) => { $(
        #[test]
        fn $name() {
            exercise($page, $heap);
        }
    )* };
}

tests! {
    cached_16_kib: "16384" ""
    cached_64_kib: "65536" ""
    hardened_16_kib: "16384" "HEAPWRIGHT_HARDEN=1"
    hardened_64_kib: "65536" "HEAPWRIGHT_HARDEN=1"
    best_16_kib: "16384" "HEAPWRIGHT_POLICY=best"
    best_64_kib: "65536" "HEAPWRIGHT_POLICY=best"
}
