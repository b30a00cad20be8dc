//! `heapwright-bench launch …` starts a program and measures it, `heapwright-bench work …` is a workload, `heapwright-bench count …` calls malloc and free to be
//! counted.

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
        _ => Err("this program is started by `heapwright bench malloc`; start that".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heapwright-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
