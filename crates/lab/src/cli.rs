//! What may be typed. What is meant by it is each command's own affair.

use anstream::ColorChoice;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Decide how memory is placed, by figures of your own program.
#[derive(Parser)]
#[command(name = "heapwright", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// When to use colour; `auto` is on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Measure policies and allocators on built-in workloads.
    Bench(crate::bench::Arguments),
    /// Measure one allocator on one workload, as told on standard input.
    #[command(name = crate::bench::worker::COMMAND, hide = true)]
    BenchChild(crate::bench::worker::Task),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Do a job under whatever allocator this process was started with, and print its result.
    #[command(name = crate::child::COMMAND, hide = true)]
    Child {
        /// The job, as JSON.
        job: String,
    },
}

/// When to use colour.
#[derive(Clone, Copy, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Also in a file or a pipe.
    Always,
    /// Nowhere.
    Never,
}

impl Color {
    /// Makes this the choice for everything printed from now on.
    pub fn write_global(self) {
        match self {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
        .write_global();
    }
}
