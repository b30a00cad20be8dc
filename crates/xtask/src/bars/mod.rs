//! The bars: the project's own goals, measured and judged.
//!
//! Each module measures one suite through the public API of `heapwright-suite` and judges its rows: `engine` (placement
//! engines and heaps in a fixed region), `malloc` (the drop-in library against other mallocs), `shared` (the heap that
//! processes share, against Boost.Interprocess). `recorder` (what a recorded program costs over the program alone)
//! measures by itself.

mod bar;
mod engine;
mod judgement;
mod malloc;
mod recorder;
mod shared;

use std::process::ExitCode;

use anyhow::Result;
use heapwright_host::interruption;
use heapwright_show::results;
use serde_json::Value;

use self::judgement::{Outcome, Settings};

/// The arguments of `cargo xtask bars`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The suite to measure; all by default
    #[command(subcommand)]
    suite: Option<Suite>,

    /// Number of measurement rounds; more rounds reduce the noise
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,

    /// Print one JSON object instead of tables
    #[arg(long, global = true)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bars                       all bars, in half an hour
  cargo xtask bars engine --rounds 9     placement engines and fixed heaps, with more rounds
  cargo xtask bars malloc --full         the drop-in library, all of the work, five times
  cargo xtask bars shared --json         the shared heap, for a program to read
  cargo xtask bars recorder              what `heapwright record` costs, with target/release/heapwright

Exit code: 0 when every bar holds, 1 when one fails or was not measured, 130 after Ctrl-C.";

#[derive(clap::Subcommand)]
enum Suite {
    /// Placement engines and heaps in a fixed region
    Engine,
    /// The drop-in library against other mallocs
    Malloc(malloc::Arguments),
    /// The heap that processes share, against Boost.Interprocess
    Shared,
    /// What a recorded program costs over the program alone
    Recorder(recorder::Arguments),
}

/// Measures the selected suites and judges their bars.
///
/// # Errors
/// When a suite cannot be measured at all.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let output = if arguments.json { heapwright_suite::Output::Nothing } else { heapwright_suite::Output::Tables };
    let settings = Settings { rounds: arguments.rounds, output };
    let judgements = match &arguments.suite {
        Some(Suite::Engine) => vec![engine::judge(settings)?],
        Some(Suite::Malloc(selection)) => vec![malloc::judge(selection, settings)?],
        Some(Suite::Shared) => vec![shared::judge(settings)?],
        Some(Suite::Recorder(arguments)) => vec![recorder::judge(arguments, settings)?],
        None => vec![
            engine::judge(settings)?,
            malloc::judge(&malloc::Arguments::default(), settings)?,
            shared::judge(settings)?,
            recorder::judge(&recorder::Arguments::default(), settings)?,
        ],
    };
    let has = |outcome| judgements.iter().any(|judgement| judgement.outcome == outcome);
    let code = match (has(Outcome::Interrupted), has(Outcome::SomeFail)) {
        (true, _) => interruption::exit_code(),
        (_, true) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    };
    if arguments.json {
        let bars: Vec<Value> = judgements.into_iter().flat_map(|judgement| judgement.bars).collect();
        results::print(&bars)?;
    }
    Ok(code)
}
