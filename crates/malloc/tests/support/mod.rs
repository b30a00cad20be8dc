//! Programs in C and C++ compiled and run with the library preloaded, here or under an emulator.
//!
//! Environment variables, set by `.ci/aarch64`: `HEAPWRIGHT_TEST_LIBRARY` is the library to test (built by cargo when
//! not set), `HEAPWRIGHT_TEST_TOOLS` the prefix of the compiler's name, `HEAPWRIGHT_TEST_RUNNER` the emulator's command
//! line.

#![allow(dead_code, reason = "each test file uses a part")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

use heapwright_testkit::library::{C_HEADERS, Library, setting, tool};

pub const POLICIES: [&str; 8] = ["first", "next", "best", "worst", "random", "buddy", "good", "mapped"];

/// The time limit of a program, after which it counts as hanging.
const SECONDS: &str = "300";

/// The library under test, built once.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| match setting("HEAPWRIGHT_TEST_LIBRARY") {
        Some(path) => Library::at(path.into()),
        None => Library::build("heapwright-malloc", "libheapwright.so", env!("CARGO_TARGET_TMPDIR")),
    })
}

/// Whether programs run under an emulator.
pub fn is_emulated() -> bool {
    setting("HEAPWRIGHT_TEST_RUNNER").is_some()
}

/// Compiles `tests/programs/SOURCE` with `flags`, without warnings, and returns where the result is.
pub fn compile(source: &str, flags: &[&str]) -> PathBuf {
    compile_as(&source.replace('.', "-"), source, flags)
}

/// As [`compile`], with the result called `name`, for a source that is compiled with several sets of flags.
pub fn compile_as(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let test = env::current_exe().expect("this test has a name");
    let machine = setting("HEAPWRIGHT_TEST_TOOLS").unwrap_or_else(|| "native".to_owned());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(machine).join(test.file_name().expect("and a file"));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    let result = folder.join(name);
    let headers =
        std::fs::read_dir(C_HEADERS).expect("the headers are there").map(|header| modified(&header.unwrap().path()));
    let newest_source = headers.fold(modified(&path), Ord::max);
    if !result.exists() || modified(&result) < newest_source {
        let (compiler, standard) =
            if source.ends_with(".cc") { ("g++", "-std=gnu++17") } else { ("gcc", "-std=gnu11") };
        let paths = [path.to_str().expect("a path of text"), "-o", result.to_str().expect("a path of text")];
        let common =
            [standard, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread", "-I", C_HEADERS];
        tool(compiler, &[&common[..], &paths, flags].concat());
    }
    result
}

fn modified(path: &Path) -> std::time::SystemTime {
    path.metadata().and_then(|metadata| metadata.modified()).expect("the file is there")
}

/// Runs `program` with the library preloaded and `variables` set.
pub fn run(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let library = library().path().to_str().expect("a path of text");
    let assignments: Vec<String> =
        [("LD_PRELOAD", library)].iter().chain(variables).map(|(name, value)| format!("{name}={value}")).collect();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", SECONDS]);
    match setting("HEAPWRIGHT_TEST_RUNNER") {
        Some(runner) => {
            command.args(runner.split_whitespace());
            for assignment in &assignments {
                command.args(["-E", assignment]);
            }
        }
        None => {
            command.arg("env").args(&assignments);
        }
    }
    command.arg(program).args(arguments).output().expect("timeout and env are installed")
}

/// Returns what a program printed on standard error.
pub fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the program's exit code, or 128 plus the number of the signal that ended it, as in a shell.
pub fn code(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0))
}

/// Runs the test `$body` once for each policy, as a test of its own.
#[macro_export]
macro_rules! under_every_policy {
    ($body:path) => {
        $crate::under_every_policy! { $body: first next best worst random buddy good mapped cached }
    };
    ($body:path: $($policy:ident)*) => { $(
        #[test]
        fn $policy() {
            $body(stringify!($policy));
        }
    )* };
}
