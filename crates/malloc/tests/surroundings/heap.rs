//! The heaps of the matrix, and how a program is started under one in a surrounding.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::case::{Case, Program};
use super::support::{code, compile, complaints, library};

/// The heap of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heap {
    /// The C library's, for comparison.
    System,
    /// The default.
    Cached,
    /// The default with every measure.
    Hardened,
    /// A policy.
    Best,
}

/// The heaps that must hold.
pub const OURS: [Heap; 3] = [Heap::Cached, Heap::Hardened, Heap::Best];

/// How a program ended in a surrounding.
pub enum Ending {
    /// With status 0, having printed this.
    Well(String),
    /// Otherwise, in words.
    Badly(String),
    /// The surrounding cannot be had here, for this reason.
    Skipped(String),
}

/// The status by which a program says that its surrounding cannot be had.
const SKIPPED: i32 = 77;

/// The status of `timeout` when the time is over, and of a program that it had to kill.
const TIMES_OUT: [i32; 2] = [124, 137];

impl Heap {
    /// Returns the environment variable that chooses this heap.
    pub fn variable(self) -> Option<&'static str> {
        match self {
            Heap::System | Heap::Cached => None,
            Heap::Hardened => Some("HEAPWRIGHT_HARDEN=1"),
            Heap::Best => Some("HEAPWRIGHT_POLICY=best"),
        }
    }

    /// Runs the case's program under this heap.
    pub fn run(self, case: &Case) -> Ending {
        let mut command = Command::new("timeout");
        command.args(["-k", "2", &case.seconds.to_string()]).arg(compile("under.c", &[])).args(case.surrounding);
        let shim = case.shim.map(|_| compile("shim.c", &["-shared", "-fPIC", "-ldl"]));
        let ours = (self != Heap::System).then(|| library().path().to_owned());
        let preloaded: Vec<String> = shim.into_iter().chain(ours).map(path_text).collect();
        if !preloaded.is_empty() {
            command.arg(format!("--preload={}", preloaded.join(":")));
        }
        command.args(self.variable().map(|variable| format!("--set={variable}")));
        command.args(case.shim.map(|change| format!("--set=SHIM={change}")));
        match &case.program {
            Program::Compiled(source, arguments) => command.arg(compile(source, &["-ldl"])).args(*arguments),
            Program::Installed(name, arguments) => command.arg(name).args(*arguments),
        };
        ending(&command.output().expect("timeout is installed"))
    }
}

fn path_text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a path of text")
}

fn ending(output: &Output) -> Ending {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match code(output) {
        0 => Ending::Well(printed),
        SKIPPED => Ending::Skipped(printed.trim().to_owned()),
        code if TIMES_OUT.contains(&code) => Ending::Badly(format!("hangs, or was killed (status {code})")),
        code => Ending::Badly(format!("status {code}: {}", complaints(output).trim())),
    }
}
