//! Programs built to mislead a replay: each does something that a list of calls of malloc does not show, or that a
//! careless replay gets wrong.

use super::programs::{Executable, Group, Program};

const COMPILED: Program = Program {
    name: "",
    about: "",
    group: Group::Misleading,
    executable: Executable::Compiled(""),
    arguments: &[],
    settings: &[],
    files: &[],
    prepare: "",
};

/// A program that is compiled from the file of its name in `misleading`.
macro_rules! compiled {
    ($name:literal, $about:literal) => {
        Program {
            name: $name,
            about: $about,
            executable: Executable::Compiled(include_str!(concat!("misleading/", $name, ".c"))),
            ..COMPILED
        }
    };
}

/// The programs.
pub const MISLEADING: [Program; 13] = [
    compiled!("untouched", "9 threads: calloc of 64 MiB each, of which one byte is touched"),
    compiled!("pipeline", "a producer and four consumers"),
    compiled!("idle", "bursts with pauses of 300 ms between them"),
    compiled!("doubling", "a block that doubles until it is 64 MiB long"),
    compiled!("steps", "a block that grows by 256 KiB at a time to 16 MiB"),
    compiled!("forks", "four children, one after the other, that allocate too"),
    compiled!("churn", "200 short threads, one after the other"),
    compiled!("remote", "every block is freed by another thread"),
    compiled!("sparse", "long blocks, of which one page in eight is touched"),
    compiled!("survivors", "phases of one size each, of whose blocks 4 % survive"),
    compiled!("recycled", "calloc in memory that was used before"),
    compiled!("arena", "a mapping of 96 MiB, and 2 MiB from malloc"),
    Program {
        name: "jq-short",
        about: "jq, which starts and ends: loading its libraries is most of its work",
        executable: Executable::Installed("jq", "jq"),
        arguments: &["-n", "[1, 2] | add"],
        ..COMPILED
    },
];
