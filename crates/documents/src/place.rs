//! A fresh folder with what the pages take for granted, and commands run in it as if typed there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, OnceLock};

use heapwright_testkit::library::{compiled, place_program};
use tempfile::TempDir;

use crate::page::root;

/// Seconds after which a block of commands is ended: the longest takes 25 s of processor time, and the machine may be
/// busy.
const PATIENCE: &str = "300";

/// Stands between the outputs of two commands, followed by the exit code of the first.
const SEPARATOR: char = '\u{1e}';

/// The programs that pages run as examples of programs. Each is the same small one.
const PROGRAMS: [&str; 3] = ["bin/PROGRAM", "here/program", "here/server"];

/// Names that pages give to traces.
const TRACES: [(&str, &str); 2] = [("T.hwt", "ripgrep"), ("bad.hwt", "ripgrep")];

/// `cargo run --release -- ARGS` is the command itself. Other uses of cargo are checked by name only, not run.
const CARGO: &str = r#"#!/bin/sh
case "$*" in "run --release -- "*) shift 3; exec heapwright "$@";; esac
"#;

/// A program that allocates as many do: sizes of all kinds, some freed late and some never.
const PROGRAM: &str = "
#include <stdlib.h>
#include <string.h>
int main(void) {
    static char *kept[512];
    unsigned random = 1;
    for (int i = 0; i < 20000; ++i) {
        random = random * 1103515245u + 12345u;
        size_t size = 16 + (random >> 8) % 2000;
        char **slot = &kept[(random >> 20) % 512];
        free(*slot);
        *slot = malloc(size);
        if (*slot == NULL) return 1;
        memset(*slot, 1, size);
    }
    return 0;
}
";

/// What a command printed, and how it ended.
pub struct Outcome {
    /// Output and errors, as a terminal would show them.
    pub printed: String,
    /// The exit code; `None` for a signal.
    pub code: Option<i32>,
}

/// A folder of its own for commands: with a home, traces, a repository of git and the program under test.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// Makes the folder. `heapwright` makes the command, always the same one.
    pub fn of(heapwright: &dyn Fn() -> Command) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "home", "tmp", "here/corpus", "here/traces", "here/target/preload"] {
            fs::create_dir_all(place.at(folder)).unwrap();
        }
        symlink(heapwright().get_program(), place.at("bin/heapwright")).unwrap();
        place_program(&place.at("bin/cargo"), CARGO.as_bytes());
        for name in PROGRAMS {
            symlink(program(), place.at(name)).unwrap();
        }
        // Copies: a page may write to `T.hwt`.
        for entry in fs::read_dir(root().join("corpus")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.ends_with(".hwt") {
                fs::copy(entry.path(), place.at(&format!("here/corpus/{name}"))).unwrap();
                symlink(format!("corpus/{name}"), place.at(&format!("here/{name}"))).unwrap();
            }
        }
        for (name, trace) in TRACES {
            symlink(format!("corpus/{trace}.hwt"), place.at(&format!("here/{name}"))).unwrap();
        }
        for name in ["git", "ripgrep"] {
            symlink(format!("../corpus/{name}.hwt"), place.at(&format!("here/traces/{name}.hwt"))).unwrap();
        }
        symlink(library(heapwright), place.at("here/target/preload/libheapwright.so")).unwrap();
        symlink(library(heapwright), place.at("here/libheapwright.so")).unwrap();
        place
    }

    /// Runs the commands one after the other in one shell, and returns what each of them did.
    pub fn run(&self, commands: &[String]) -> Vec<Outcome> {
        let mut script = String::from("set -o pipefail\n");
        if commands.iter().any(|command| command.contains("git ")) {
            self.make_repository();
        }
        for command in commands {
            script += &format!("{command}\nprintf '\\036%s\\036' $?\n");
        }
        let printed = self.at("printed");
        let file = fs::File::create(&printed).unwrap();
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap_or_default());
        let status = Command::new("timeout")
            .args(["--kill-after=5", PATIENCE, "bash", "-c", &script])
            .current_dir(self.at("here"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.at("home"))
            .env("TMPDIR", self.at("tmp"))
            .env("LANG", "C.UTF-8")
            .env("HEAPWRIGHT_SBMEM", format!("heapwright-documents-{}", std::process::id()))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        let printed = String::from_utf8_lossy(&fs::read(printed).unwrap()).into_owned();
        let mut parts = printed.split(SEPARATOR);
        let mut outcomes: Vec<Outcome> = Vec::new();
        for _ in commands {
            let Some(printed) = parts.next().map(str::to_owned) else { break };
            let code = parts.next().and_then(|code| code.parse().ok());
            // A shell that did not get that far has an exit code of its own: 124 when time was up.
            outcomes.push(Outcome { printed, code: code.or(status.code()) });
        }
        outcomes
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Some history, so that `git log` has work to do.
    fn make_repository(&self) {
        if self.at("here/.git").exists() {
            return;
        }
        let mut history = String::new();
        for number in 0..200 {
            let message = format!("Change {number}\n");
            history += &format!(
                "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata {}\n{message}",
                1_600_000_000 + number,
                message.len()
            );
        }
        fs::write(self.at("tmp/history"), history).unwrap();
        let script = "git init -q -b main && git fast-import --quiet < ../tmp/history";
        let _ = Command::new("sh").args(["-c", script]).current_dir(self.at("here")).status().unwrap();
    }
}

/// Whether a program of this name is in the path.
pub fn is_here(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(program).exists())
}

/// The drop-in library that the command carries inside, where the command has put it.
fn library(heapwright: &dyn Fn() -> Command) -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let output = heapwright()
            .args(["run", "--output", "/dev/null", "--", "sh", "-c", "echo $LD_PRELOAD"])
            .output()
            .expect("the command runs");
        let library = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        assert!(library.exists(), "{} is not there", library.display());
        library
    })
}

fn program() -> &'static Path {
    static PROGRAM_PATH: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled(folder.path(), "program", PROGRAM, &["-O1"]);
        (folder, program)
    });
    &PROGRAM_PATH.1
}
