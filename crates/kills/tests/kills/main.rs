//! Kills processes in the middle of operations on a shared heap and sees whether the others can go on.
//!
//! `cargo test --package heapwright-kills` judges a sample of the states that an eighth of the operations pass through
//! (which eighth, is drawn in each run) for buddy and best fit, with real kills at samples. `.ci/kills` runs the full
//! form, for chosen policies: every state, a real SIGKILL at every instruction, 10,000 kills among busy processes,
//! 100,000 damaged segments, and the time that recovery takes.
//!
//! Stepping needs x86-64: on other processors a stop between the two halves of an atomic operation makes it begin
//! again, for ever, and breakpoints are other instructions.

mod apart;
mod census;
mod child;
mod corruption;
mod creation;
mod fates;
mod film;
mod heap;
mod ledger;
mod pin;
mod random;
mod recovery_time;
mod route;
mod scenario;
mod stepping;
mod subject;
mod toy;
mod trials;
mod victim;
mod witness;
mod worker;

use std::fmt::Display;
use std::process::ExitCode;

fn main() -> ExitCode {
    if cfg!(not(target_arch = "x86_64")) {
        println!("kills at single instructions need x86-64: nothing is tested here");
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = apart::serve(trials::all()) {
        return ended;
    }
    let arguments = libtest_mimic::Arguments::from_args();
    libtest_mimic::run(&arguments, trials::all().into_iter().map(apart::trial).collect()).exit_code()
}

/// Says of an error what was being done.
fn words<E: Display>(doing: &str) -> impl Fn(E) -> String {
    move |error| format!("{doing}: {error}")
}
