//! `heapwright-bench launch …` starts and measures a program, `heapwright-bench work …` runs a workload, and
//! `heapwright-bench count …` calls malloc and free for an instruction counter.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use heapwright_bench::{COUNT, LAUNCH, WORK, count, launch, work};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((mode, rest)) if mode == LAUNCH => launch(rest),
        Some((mode, rest)) if mode == WORK => work(rest),
        Some((mode, rest)) if mode == COUNT => count(rest),
        _ => Err("`heapwright bench malloc` starts this program; run that command instead".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heapwright-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
