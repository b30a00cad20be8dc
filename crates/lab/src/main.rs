//! `heapwright`: run any program under a placement policy, and compare policies and allocators by figures.

mod allocator;
mod bench;
mod child;
mod cli;
mod compare;
mod draft;
mod export;
mod fit;
mod heaps;
mod import;
mod minimize;
mod number;
mod parallel;
mod peers;
mod policy;
mod preload;
mod programs;
mod progress;
mod real;
mod record;
mod replay;
mod report;
mod reproduce;
mod results;
mod rules;
mod run;
mod shm;
mod stats;
mod sweep;
mod table;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};

/// The exit code of a command that could not do what it was asked. (`run` has its own, apart from those of programs.)
const FAILED: u8 = 1;

fn main() -> ExitCode {
    if real::worker::is_wanted() {
        return real::worker::main();
    }
    end_quietly_with_the_reader();
    let cli = Cli::parse();
    cli.color.write_global();
    let outcome = match cli.command {
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "heapwright", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(args) => Ok(run::run(&args)),
        Command::Record(args) => Ok(record::run(&args)),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::Minimize(arguments) => minimize::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Merge(arguments) => sweep::merge::run(&arguments),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::BenchChild(task) => bench::worker::serve(&task).map(|()| ExitCode::SUCCESS),
        Command::Shm(command) => shm::run(&command),
        Command::BenchSharedWorker(task) => bench::shared::worker::serve(&task).map(|()| ExitCode::SUCCESS),
        Command::Child { job } => child::serve(&job).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        anstream::eprintln!("heapwright: {error:#}");
        ExitCode::from(FAILED)
    })
}

/// Makes this process end when whoever reads its output has left (as `head` does), like any other program; Rust's
/// runtime would have every print fail instead.
fn end_quietly_with_the_reader() {
    // SAFETY: no other thread runs yet, and the default action needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
