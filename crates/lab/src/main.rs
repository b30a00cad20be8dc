//! `heapwright`: run any program under a placement policy, and compare policies and allocators by figures.

mod allocator;
mod bench;
mod child;
mod cli;
mod heaps;
mod number;
mod peers;
mod policy;
mod preload;
mod programs;
mod progress;
mod reproduce;
mod results;
mod rules;
mod stats;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};

/// The exit code of a command that cannot do what was asked for reasons of its own. `run`, like `env`, must be told
/// apart from the program it runs; the other commands use 1.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.color.write_global();
    let outcome = match cli.command {
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "heapwright", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::BenchChild(task) => bench::worker::serve(&task).map(|()| ExitCode::SUCCESS),
        Command::Child { job } => child::serve(&job).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        anstream::eprintln!("heapwright: {error:#}");
        ExitCode::from(FAILED)
    })
}
