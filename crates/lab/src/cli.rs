//! The command line. Each command defines its own arguments.

use std::any::TypeId;
use std::error::Error;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;

use anstream::ColorChoice;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use heapwright_allocators::peers::Peer;
use heapwright_host::names::Shown;
use heapwright_show::{terminal, usage};

/// The help is not wider, however wide the terminal.
const WIDTH: usize = 100;

/// Choose a memory allocator or placement policy from measurements of your own program.
#[derive(Parser)]
#[command(name = "heapwright", version, max_term_width = WIDTH, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    /// When to use colour; `auto` is on a terminal, unless NO_COLOR is set, and elsewhere if CLICOLOR_FORCE is.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,

    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  heapwright compare -- ./server --once           which allocator or policy suits the program?
  heapwright record -o t.hwt -- make              a trace of every allocation, for the commands below
  heapwright report t.hwt -o t.html               a page that shows and explains the heap
  heapwright sites -- ./server --once             which functions hold the memory at the peak?
  heapwright run --policy first -- sort big.txt   the program under first fit, statistics at exit
  PYTHONMALLOC=malloc heapwright compare -- python3 job.py
                                                  Python, with the objects of its own allocator
  heapwright help compare                         more on one command";

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Replay a trace under every policy and allocator, and recommend one.
    #[command(after_help = heapwright_compare::EXAMPLES)]
    Compare(Box<heapwright_compare::Arguments>),
    /// Run a program and record every call of its malloc family in a trace.
    #[command(after_help = heapwright_recording::EXAMPLES)]
    Record(heapwright_recording::Arguments),
    /// Show on one page what a recorded program does to its heap, under every policy.
    #[command(after_help = heapwright_report::EXAMPLES)]
    Report(heapwright_report::Arguments),
    /// Show which call sites hold a program's memory, never free it, or allocate most often.
    #[command(after_help = heapwright_sites::EXAMPLES)]
    Sites(heapwright_sites::Arguments),
    /// Compare two recordings by call site: what holds more, leaks more or allocates more often.
    #[command(after_help = heapwright_sites::diff::EXAMPLES)]
    Diff(heapwright_sites::diff::Arguments),
    /// Run a program under a policy and print the statistics of its heap.
    #[command(after_help = heapwright_run::arguments::EXAMPLES)]
    Run(heapwright_run::arguments::RunArgs),
    /// Watch a program's heap on the terminal while it runs.
    #[command(after_help = heapwright_watch::EXAMPLES)]
    Watch(heapwright_watch::Arguments),
    /// Show what the memory of a running process is, and what would bring it down.
    #[command(after_help = heapwright_inspect::EXAMPLES)]
    Inspect(heapwright_inspect::Arguments),
    /// Replay a recorded program's heap under every policy.
    #[command(after_help = crate::replay::EXAMPLES)]
    Replay(crate::replay::Arguments),
    /// Search for the shortest region in which a recorded program succeeds, under every policy.
    #[command(after_help = heapwright_simulate::fit::EXAMPLES)]
    Fit(heapwright_simulate::fit::Arguments),
    /// Reduce a trace to a minimal one that still shows a given behaviour.
    #[command(after_help = heapwright_simulate::minimize::EXAMPLES)]
    Minimize(heapwright_simulate::minimize::Arguments),
    /// Simulate every combination of policies, rules and regions, and write one row each.
    #[command(after_help = heapwright_simulate::sweep::EXAMPLES)]
    Sweep(heapwright_simulate::sweep::Arguments),
    /// Merge the shards of a sweep.
    #[command(after_help = heapwright_simulate::sweep::merge::EXAMPLES)]
    Merge(heapwright_simulate::sweep::merge::Arguments),
    /// Show the shortest calls on which one policy fails and another does not.
    #[command(after_help = heapwright_simulate::counterexample::EXAMPLES)]
    Counterexample(heapwright_simulate::counterexample::Arguments),
    /// Convert a trace of another tool to Heapwright's format.
    #[command(after_help = crate::import::EXAMPLES)]
    Import(crate::import::Arguments),
    /// Convert a trace to the format of another tool.
    #[command(after_help = crate::export::EXAMPLES)]
    Export(crate::export::Arguments),
    /// Create, inspect, check and repair segments of shared memory.
    #[command(subcommand, after_help = heapwright_shm::EXAMPLES)]
    Shm(heapwright_shm::Command),
    /// Measure policies and allocators on built-in workloads.
    #[command(after_help = heapwright_suite::EXAMPLES)]
    Bench(heapwright_suite::Arguments),
    /// Run the published experiments again and show every figure next to the published one.
    #[command(after_help = heapwright_reproduce::arguments::EXAMPLES)]
    Reproduce(heapwright_reproduce::arguments::ReproduceArgs),
    /// Print the completion script of a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Parses the arguments of this process.
///
/// # Errors
/// As clap prints them.
pub fn parse() -> Result<Cli, clap::Error> {
    let mut command = with_negative_numbers(Cli::command());
    let mut matches = command
        .try_get_matches_from_mut(std::env::args_os())
        .map_err(with_whole_paragraphs)
        .map_err(with_the_reason)
        .map_err(with_the_way_to_type_names)?;
    refuse_rows_of_one_name(&matches)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Says of a value that is no number what is allowed, instead of what the parser of numbers met.
fn with_the_reason(error: clap::Error) -> clap::Error {
    let reason = match error.source().and_then(|source| source.downcast_ref()).map(ParseIntError::kind) {
        None => return error,
        Some(IntErrorKind::Zero) => "the least is 1",
        Some(IntErrorKind::PosOverflow) => "the number is too large",
        Some(_) => "it must be a whole number, and not negative",
    };
    let of = |kind| error.get(kind).map(ContextValue::to_string).unwrap_or_default();
    let (value, argument) = (of(ContextKind::InvalidValue), of(ContextKind::InvalidArg));
    usage::error(&format!("invalid value '{value}' for '{argument}': {reason}"))
}

/// Says of an unexpected argument how names are typed that begin with a dash. What clap suggests, to put it behind
/// `--`, would make a program of it.
fn with_the_way_to_type_names(mut error: clap::Error) -> clap::Error {
    if error.get(ContextKind::Suggested).is_some() && error.kind() == ErrorKind::UnknownArgument {
        let tip = "a file whose name begins with '-' is typed with './' in front, and a program with '--' in front";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
    }
    error
}

/// Refuses allocators of one name, whose rows could not be told apart.
fn refuse_rows_of_one_name(matches: &ArgMatches) -> Result<(), clap::Error> {
    if let Some((_, of_command)) = matches.subcommand() {
        refuse_rows_of_one_name(of_command)?;
    }
    // Commands without this option have no such values.
    let given: Vec<&Peer> = matches.try_get_many("allocator").ok().flatten().into_iter().flatten().collect();
    for (at, peer) in given.iter().enumerate() {
        if let Some(other) = given[..at].iter().find(|other| other.name == peer.name) {
            let (other, peer) = (other.typed(), peer.typed());
            return Err(usage::error(&format!(
                "--allocator {} and --allocator {} have the same name: give one of them another",
                other.shown(),
                peer.shown()
            )));
        }
    }
    Ok(())
}

/// Prepares the help again if that is what is to be shown: with usage and examples that fit the terminal, which clap
/// does not wrap, or not well, and with the paragraphs below the examples joined, so that clap wraps each once. Without
/// need it would take longer than all else of a start.
fn with_whole_paragraphs(error: clap::Error) -> clap::Error {
    if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        return error;
    }
    let mut command = with_negative_numbers(Cli::command());
    // The usage of a subcommand is known then.
    command.build();
    let mut command = fitted(command, terminal::width().min(WIDTH));
    command.try_get_matches_from_mut(std::env::args_os()).err().unwrap_or(error)
}

/// Fits usage and examples to the terminal, and joins the lines of each paragraph below the examples.
fn fitted(mut command: clap::Command, columns: usize) -> clap::Command {
    let usage = command.render_usage().to_string();
    if usage.lines().any(|line| line.chars().count() > columns) {
        let usage = usage.trim_start_matches(USAGE);
        let wrapped = terminal::hanging(usage, columns, USAGE, MARGIN);
        command = command.override_usage(wrapped.trim_start_matches(USAGE).to_owned());
    }
    let below = command.get_after_help().map(|text| terminal::examples(&joined(&text.to_string()), columns));
    let command = below.into_iter().fold(command, clap::Command::after_help);
    command.mut_subcommands(|command| fitted(command, columns))
}

/// The heading of a usage, as clap writes it.
const USAGE: &str = "Usage: ";
/// The margin of the further lines of a usage.
const MARGIN: &str = "       ";

/// Joins lines that begin at the margin with the one before, if that does so too, and does not end with a colon or a
/// sentence.
fn joined(text: &str) -> String {
    let at_margin = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut joined = String::new();
    let mut before = "";
    for line in text.lines() {
        let goes_on = at_margin(before) && at_margin(line) && !before.ends_with([':', '.']);
        joined.push_str(if joined.is_empty() {
            ""
        } else if goes_on {
            " "
        } else {
            "\n"
        });
        joined.push_str(line);
        before = line;
    }
    joined
}

/// Lets clap take a negative number for the value that it is: it is then refused by the name of its option. Otherwise
/// clap takes it for an option, and says to type `--`, behind which there are programs.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.mut_args(with_negative_number).mut_subcommands(with_negative_numbers)
}

fn with_negative_number(argument: Arg) -> Arg {
    let kind = argument.get_value_parser().type_id();
    let is_a_name =
        [TypeId::of::<PathBuf>(), TypeId::of::<OsString>(), TypeId::of::<String>()].iter().any(|name| kind == *name);
    let takes_a_number = argument.get_action().takes_values() && !(argument.is_positional() && is_a_name);
    argument.allow_negative_numbers(takes_a_number)
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
    /// Applies this choice to all later output.
    pub fn write_global(self) {
        match self {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(heapwright completions bash)
  heapwright completions fish > ~/.config/fish/completions/heapwright.fish";
