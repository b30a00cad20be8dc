//! Which libraries are loaded as other allocators.

use std::fs;
use std::path::Path;

use heapwright_trace::{About, Kind, Writer};
use tempfile::TempDir;

mod common;

const TRAITOR: &str = r#"
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fclose(fopen(MARK, "w")); }
"#;

/// A library that leaves a file where it is loaded.
fn traitor(folder: &Path, mark: &Path) {
    fs::create_dir_all(folder).unwrap();
    let mark = format!("-DMARK=\"{}\"", mark.display());
    let library = common::compiled(folder, "libtraitor", TRAITOR, &["-shared", "-fPIC", &mark]);
    fs::rename(&library, folder.join("libtraitor.so")).unwrap();
}

#[test]
fn libraries_below_the_current_directory_are_not_loaded() {
    let folder = TempDir::new().unwrap();
    let (mark, below, build) =
        (folder.path().join("loaded"), folder.path().join("a/b"), folder.path().join("a/bench/peers/build"));
    fs::create_dir_all(&below).unwrap();
    let mut writer = Writer::new(fs::File::create(below.join("t")).unwrap(), &About::of_program("small")).unwrap();
    writer.allocate(Kind::Malloc, 16, 16).unwrap();
    writer.finish().unwrap();
    traitor(&build, &mark);
    for folder in [&below, &folder.path().join("a")] {
        for words in
            ["replay --real -p first", "compare --rounds 1 --no-latencies -p first", "report -p first --rounds 1"]
        {
            let mut command = common::heapwright();
            command.args(words.split(' ')).arg(below.join("t")).current_dir(folder).env_remove("HEAPWRIGHT_PEERS");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(!String::from_utf8_lossy(&output.stdout).contains("traitor"), "{words}");
            assert!(!mark.exists(), "{words} loaded the library");
        }
    }
    // It is a library that would have been loaded.
    let mut command = common::heapwright();
    command.args(["replay", "--real", "-p", "first"]).arg(below.join("t")).env("HEAPWRIGHT_PEERS", &build);
    assert!(command.output().unwrap().status.success());
    assert!(mark.exists());
}
