//! Each test in a process of its own with a single thread, as many at once as there are processors.
//!
//! A test forks, and traces what it has forked: both need a process with one thread, and most of the time one of the
//! two waits for the other.

use std::env::{current_exe, var};
use std::process::{Command, ExitCode, Output};
use std::sync::{PoisonError, RwLock};

use libtest_mimic::Trial;

use crate::trials::{Outcome, Processors, Test};

/// Names the test for which a process was made.
const NAME: &str = "HEAPWRIGHT_KILLS_TEST";

/// Held for writing by a test that has the machine for itself.
static MACHINE: RwLock<()> = RwLock::new(());

/// Does the test for which this process was made; `None` when it was made for none.
pub fn serve(tests: Vec<Test>) -> Option<ExitCode> {
    let name = var(NAME).ok()?;
    let Some(test) = tests.into_iter().find(|test| test.name == name) else {
        eprintln!("there is no test \"{name}\"");
        return Some(ExitCode::FAILURE);
    };
    Some(match (test.work)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{name}: {}", failed.message().unwrap_or("failed"));
            ExitCode::FAILURE
        }
    })
}

/// Returns the test for the harness, which does it in another process.
pub fn trial(test: Test) -> Trial {
    let Test { name, is_full, processors, .. } = test;
    Trial::test(name.clone(), move || run(&name, processors)).with_ignored_flag(is_full)
}

fn run(name: &str, processors: Processors) -> Outcome {
    let Output { status, stdout, stderr } = match processors {
        Processors::Some => {
            let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
            output_of(name)?
        }
        Processors::All => {
            let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
            output_of(name)?
        }
    };
    // What a test says stays together.
    println!("{name}\n{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if status.success() { Ok(()) } else { Err(format!("its process ended with {status}").into()) }
}

fn output_of(name: &str) -> Result<Output, String> {
    let program = current_exe().map_err(|error| format!("this program: {error}"))?;
    Command::new(&program).env(NAME, name).output().map_err(|error| format!("{}: {error}", program.display()))
}
