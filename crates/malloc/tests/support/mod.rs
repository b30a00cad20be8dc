//! Programs in C and C++ compiled and run with the library preloaded, here or under an emulator.
//!
//! `HEAPWRIGHT_TEST_LIBRARY` is the library to test (built by cargo when not set), `HEAPWRIGHT_TEST_TOOLS` the prefix of the
//! compiler's name, `HEAPWRIGHT_TEST_RUNNER` the emulator's command line; `.ci/aarch64` sets them.

#![allow(dead_code, reason = "each test file uses a part")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

pub const POLICIES: [&str; 8] = ["first", "next", "best", "worst", "random", "buddy", "good", "mapped"];

/// Longer than anything here takes; a program that hangs is ended then.
const SECONDS: &str = "300";

fn setting(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The library under test.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| setting("HEAPWRIGHT_TEST_LIBRARY").map_or_else(build_library, PathBuf::from))
}

fn build_library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--package", "heapwright-malloc", "--profile", "preload", "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the library does not build");
    target.join("preload/libheapwright.so")
}

/// The output of one of the compiler's tools, which must succeed.
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let prefix = setting("HEAPWRIGHT_TEST_TOOLS").unwrap_or_default();
    let output =
        Command::new(format!("{prefix}{name}")).args(arguments).output().expect("the compiler's tools are installed");
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tools print text")
}

/// Whether programs run under an emulator.
pub fn is_emulated() -> bool {
    setting("HEAPWRIGHT_TEST_RUNNER").is_some()
}

/// Compiles `tests/programs/SOURCE` with `flags`, without warnings, and returns where the result is.
pub fn compile(source: &str, flags: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let test = env::current_exe().expect("this test has a name");
    let machine = setting("HEAPWRIGHT_TEST_TOOLS").unwrap_or_else(|| "native".to_owned());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(machine).join(test.file_name().expect("and a file"));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    let result = folder.join(source.replace('.', "-"));
    if !result.exists() || modified(&result) < modified(&path) {
        let (compiler, standard) =
            if source.ends_with(".cc") { ("g++", "-std=gnu++17") } else { ("gcc", "-std=gnu11") };
        let paths = [path.to_str().expect("a path of text"), "-o", result.to_str().expect("a path of text")];
        let common = [standard, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread"];
        tool(compiler, &[&common, flags, &paths].concat());
    }
    result
}

fn modified(path: &Path) -> std::time::SystemTime {
    path.metadata().and_then(|metadata| metadata.modified()).expect("the file is there")
}

/// Runs `program` with the library preloaded and `variables` set.
pub fn run(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let library = library().to_str().expect("a path of text");
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

/// What a program printed on standard error.
pub fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program's exit code, or 128 and the number of the signal that ended it, as a shell tells it.
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
