//! What the tests of the command share.

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use heapwright_trace::{About, Kind, Writer};

/// The command, with nothing in the environment that would change what it does.
pub fn heapwright() -> Command {
    let mut command = Command::new(cargo_bin!("heapwright"));
    for variable in
        ["LD_PRELOAD", "HEAPWRIGHT_POLICY", "HEAPWRIGHT_RULES", "HEAPWRIGHT_STATS", "HEAPWRIGHT_LIBRARY", "NO_COLOR"]
    {
        command.env_remove(variable);
    }
    command
}

#[allow(unused_imports, reason = "each test file is a program of its own, and not all of them need this")]
pub use heapwright_testkit::library::{compiled, place_program};

/// A trace of `program` in which blocks of two call sites live and die.
#[allow(dead_code, reason = "each test file is a program of its own, and not all of them need this")]
pub fn trace_with_sites(path: &Path, program: &str) {
    let mut writer = Writer::new(fs::File::create(path).unwrap(), &About::of_program(program)).unwrap();
    let stacks = [&["a_function_with_quite_a_long_name", "main"][..], &["short", "a_caller_of_it", "main"]];
    let sites = stacks.map(|stack| writer.define_site(stack).unwrap());
    for size in 1..200 {
        writer.from_site(sites[size as usize % 2]).unwrap();
        let block = writer.allocate(Kind::Malloc, size * 16, 16).unwrap();
        if size % 3 == 0 {
            writer.free(block).unwrap();
        }
    }
    writer.finish().unwrap();
}
