//! `cargo xtask`: the commands for developing Heapwright. `cargo xtask --list` prints them.

mod bars;
mod limits;
mod surroundings;
mod truth;
mod workspace;

use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use heapwright_host::child::{self, Job};

use self::workspace::workspace;

/// The jobs that child processes of this executable do.
const JOBS: [Job; 3] =
    [heapwright_reproduce::child::JOB, heapwright_workloads::worker::JOB, heapwright_workloads::shared::worker::JOB];

/// Commands for developing Heapwright.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    /// List the commands, one per line
    #[arg(long)]
    list: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands. Those without arguments of their own pass all arguments to a script.
#[derive(Subcommand)]
enum Command {
    /// Measure the project's own goals (bars) and judge each one
    Bars(bars::Arguments),
    /// Measure limits, bounded operations and retained memory of the drop-in library against the system's malloc
    Surroundings(surroundings::Arguments),
    /// Measure the smallest memory limit of a control group under which real programs finish, under every malloc
    Limits(limits::Arguments),
    /// Compare predictions of replays with real runs of whole programs; writes docs/truth.md
    Truth(truth::Arguments),
    /// All checks that must pass before a merge: tests, format, lints, documentation, invariants (.ci/run)
    #[command(disable_help_flag = true)]
    Ci(Arguments),
    /// The slow checks, all or those named: kills, races, interpreters, fuzzing, soak; hours (.ci/nightly)
    #[command(disable_help_flag = true)]
    Nightly(Arguments),
    /// Licences, duplicates and sources of dependencies; the oldest supported Rust (.ci/dependencies)
    #[command(disable_help_flag = true)]
    Dependencies(Arguments),
    /// The invariants of ARCHITECTURE.md that a search of the sources can check (.ci/house)
    #[command(disable_help_flag = true)]
    House(Arguments),
    /// Kill tests of the shared heap: SIGKILL at every instruction; half an hour per policy (.ci/kills)
    #[command(disable_help_flag = true)]
    Kills(Arguments),
    /// Stress tests of the cached heap, 30 minutes by default (.ci/soak)
    #[command(disable_help_flag = true)]
    Soak(Arguments),
    /// Model checking of locks and cached heaps: every interleaving of a few threads, by loom (.ci/loom)
    #[command(disable_help_flag = true)]
    Loom(Arguments),
    /// Search for undefined behaviour in the engine and the fixed heap, by Miri (.ci/miri)
    #[command(disable_help_flag = true)]
    Miri(Arguments),
    /// Search for data races in the cached heap, by ThreadSanitizer (.ci/races)
    #[command(disable_help_flag = true)]
    Races(Arguments),
    /// Conformance tests of the preload library on aarch64, under qemu (.ci/aarch64)
    #[command(disable_help_flag = true)]
    Aarch64(Arguments),
    /// Fuzzing of everything that parses, and of the engine (fuzz/run)
    #[command(disable_help_flag = true)]
    Fuzz(Arguments),
    /// Real programs under the preload library, compared with runs without it (.ci/real-programs)
    #[command(disable_help_flag = true)]
    RealPrograms(Arguments),
    /// Build the mallocs with which ours is compared (bench/peers/make)
    #[command(disable_help_flag = true)]
    Peers(Arguments),
    /// Record the corpus of traces again (corpus/record)
    #[command(disable_help_flag = true)]
    Corpus(Arguments),
}

/// The arguments of a script.
#[derive(clap::Args)]
struct Arguments {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    all: Vec<String>,
}

fn main() -> ExitCode {
    if let Some(ended) = child::serve(&JOBS) {
        return ended;
    }
    let outcome = match Cli::parse() {
        Cli { list: false, command: Some(command) } => run(&command),
        _ => {
            list();
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        heapwright_show::eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Bars(arguments) => bars::run(arguments),
        Command::Surroundings(arguments) => surroundings::run(arguments),
        Command::Limits(arguments) => limits::run(arguments),
        Command::Truth(arguments) => truth::run(arguments),
        Command::Ci(arguments) => execute(".ci/run", arguments),
        Command::Nightly(arguments) => execute(".ci/nightly", arguments),
        Command::Dependencies(arguments) => execute(".ci/dependencies", arguments),
        Command::House(arguments) => execute(".ci/house", arguments),
        Command::Kills(arguments) => execute(".ci/kills", arguments),
        Command::Soak(arguments) => execute(".ci/soak", arguments),
        Command::Loom(arguments) => execute(".ci/loom", arguments),
        Command::Miri(arguments) => execute(".ci/miri", arguments),
        Command::Races(arguments) => execute(".ci/races", arguments),
        Command::Aarch64(arguments) => execute(".ci/aarch64", arguments),
        Command::Fuzz(arguments) => execute("fuzz/run", arguments),
        Command::RealPrograms(arguments) => execute(".ci/real-programs", arguments),
        Command::Peers(arguments) => execute("bench/peers/make", arguments),
        Command::Corpus(arguments) => execute("corpus/record", arguments),
    }
}

/// Replaces this process by a script of the workspace. Returns only when the script cannot be executed.
fn execute(script: &str, arguments: &Arguments) -> Result<ExitCode> {
    let error = process::Command::new(workspace()?.join(script)).args(&arguments.all).exec();
    Err(error).with_context(|| format!("cannot execute {script}"))
}

/// Prints every command with what it does.
fn list() {
    for command in Cli::command().get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        heapwright_show::println!("cargo xtask {:14} {about}", command.get_name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_are_passed_to_scripts_as_they_are() {
        let cli = Cli::parse_from(["cargo xtask", "soak", "--minutes", "1", "--help"]);
        let Some(Command::Soak(arguments)) = cli.command else { panic!("another command") };
        assert_eq!(arguments.all, ["--minutes", "1", "--help"]);
    }
}
