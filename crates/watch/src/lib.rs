//! `heapwright watch`: shows a running program's heap on the terminal, or replays a trace and explains it (`trace`).
//!
//! The program does not cooperate. Its drop-in library stores in its own memory where the heap's metadata is (a
//! beacon), and this command reads the memory of the process from outside. From the bottom up: `location` (finds the
//! beacon), `sample` and `slabs` (a copy of the heap's metadata), `view` and `picture` (the map of a part of the heap),
//! `history`, `watched` and `family` (processes over time), `log` and `program` (the program and its output),
//! `terminal`, `panels`, `classes`, `live`, `screen` and `interface` (the user interface), `plain` (one picture as
//! text).

mod classes;
mod family;
pub mod figures;
mod foreign;
mod history;
mod interface;
mod live;
mod location;
mod log;
mod panels;
mod picture;
mod plain;
mod program;
mod sample;
mod screen;
mod slabs;
mod terminal;
#[cfg(test)]
mod tests;
mod trace;
mod unseen;
mod view;
mod watched;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use self::live::{End, Live};
use self::program::{Output, Plan, Program, Session};
use self::sample::Sample;
use self::terminal::Terminal;
use self::unseen::Unseen;
use heapwright_allocators::policy;
use heapwright_allocators::rules::{self, RuleArguments};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::Shown;
use heapwright_host::process::why_unlisted;
use heapwright_rules::RuleSet;
use heapwright_run::launch::{self, Forwarded};
use heapwright_run::{failed, program as file};
use heapwright_show::number::parse_duration;
use heapwright_show::output::failure;
use heapwright_show::usage;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright watch -- python3 job.py                 under the default malloc
  heapwright watch -p worst -- g++ -c big.cpp        finds the compiler that g++ starts
  heapwright watch --pid 4711                        a process, for example of `heapwright run`
  heapwright watch gcc.hwt -p first,best             explains a trace under two policies
  heapwright watch gcc.hwt --rules report000         by the rules of a published allocator
  heapwright watch gcc.hwt -p best --quiz            asks where each block goes before it is shown
  heapwright watch --once --after 2 -- python3 x.py  one picture after two seconds, as text

Keys: q quit, z and Z zoom, up, down, PgUp and PgDn move, 0 the whole heap, Tab another process (another
policy), space pause. For a trace: left and right step, + and - speed, g go to an event, s other policy.
With --quiz: left, right and 1 to 9 choose a hole, Enter guesses, and goes on.

The program is not slowed down: its memory is read from outside. Its output is shown below its heap,
or goes to a file. It reads standard input unless that is the terminal.

Exit code: the program's own, or its signal; 0 when it is left running. 127: there is no such program.
126: it cannot be executed. 125: heapwright itself failed. With --pid: 0, or 1 when its heap cannot be
seen.";

/// Arguments of `watch`.
#[derive(Args)]
pub struct Arguments {
    /// A trace, as written by `heapwright record`, to replay and explain instead of a program.
    #[arg(value_name = "TRACE", conflicts_with_all = ["program", "pid", "output", "detach", "seed", "json", "after"])]
    pub trace: Option<PathBuf>,

    /// Placement policy [default: `cached`, the default malloc; for a trace: first fit]. A trace can be shown under two
    /// policies side by side: separated by a comma, or given one by one.
    #[arg(long, short, value_name = "POLICY", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(policy::drop_in()))]
    pub policy: Vec<String>,

    /// The rules of the heap.
    #[command(flatten)]
    pub rules: RuleArguments,

    /// Start after this event of the trace, paused.
    #[arg(long, value_name = "EVENT", requires = "trace")]
    pub at: Option<u64>,

    /// Guess first: before each placement of the trace is shown, choose the hole that the policy will take.
    #[arg(long, conflicts_with = "once")]
    pub quiz: bool,

    /// The seed of random fit, for a program: a trace is shown with seed 1.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Watch a process that already runs under libheapwright.so.
    #[arg(long, value_name = "PID", conflicts_with_all = ["program", "output", "detach", "seed"])]
    pub pid: Option<u32>,

    /// Write the program's output to this file; its last lines are still shown.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Leave the program running when watching ends, with --once after the picture; requires an output file.
    #[arg(long, requires = "output")]
    pub detach: bool,

    /// Print one picture as text. The command ends when the program does; with --detach, --pid or a trace, after the
    /// picture.
    #[arg(long)]
    pub once: bool,

    /// When to print it, after the start; earlier if the program ends.
    #[arg(long, value_name = "DURATION", requires = "once", default_value = "1s", value_parser = parse_duration)]
    pub after: Duration,

    /// Print one JSON object instead of a picture: {"schema": 1, "results": [ ... ]}.
    #[arg(long, requires = "once")]
    pub json: bool,

    /// The program and its arguments.
    #[arg(value_name = "PROGRAM", last = true)]
    pub program: Vec<OsString>,
}

/// Watches the given program, process or trace.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(path) = &arguments.trace {
        let Arguments { policy, rules, at, once, quiz, .. } = arguments;
        return trace::run(&trace::Plan { path, policies: policy, rules, at: *at, once: *once, quiz: *quiz });
    }
    if arguments.quiz {
        usage::refuse("--quiz asks about the placements of a TRACE: record the program first");
    }
    if arguments.at.is_some() {
        usage::refuse("--at names an event of a TRACE: record the program first");
    }
    if let Some(pid) = arguments.pid {
        if arguments.rules.are_given() || !arguments.policy.is_empty() {
            usage::refuse(&format!("process {pid} has its policy and rules already: leave them out"));
        }
        return watch_process(arguments, pid);
    }
    if arguments.program.is_empty() {
        usage::refuse("nothing to watch: give `-- PROGRAM`, `--pid PID` or a trace");
    }
    if arguments.policy.iter().any(|policy| *policy != arguments.policy[0]) {
        usage::refuse("a program runs under one policy; a trace of it can be watched under two");
    }
    Ok(watch_program(arguments).unwrap_or_else(|error| failed(&error)))
}

fn watch_process(arguments: &Arguments, pid: u32) -> Result<ExitCode> {
    let mut live = Live::of_process(pid);
    live.look();
    if let Some(unseen) = live.family.shown().unseen {
        let why = why_unlisted().map_or_else(|| unseen.to_string(), str::to_owned);
        bail!("process {pid} cannot be watched: {why}");
    }
    if arguments.once {
        print(arguments, &live, sampled(&live)?).map_err(|error| failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let end = interface::run(live, &mut Terminal::take()?)?;
    Ok(match end {
        End::Signal(signal) => launch::end_by(signal),
        End::Ended(_) | End::Left => ExitCode::SUCCESS,
    })
}

/// Where the heap of a program is shown.
enum Surface {
    /// On the terminal, whose reader takes signals.
    Screen(Terminal),
    /// As text, once. Signals are forwarded to the program.
    Text(Forwarded),
}

fn watch_program(arguments: &Arguments) -> Result<ExitCode> {
    let (policy, rules) = chosen_policy(arguments)?;
    let program = file::find(&arguments.program[0]);
    let sources: Vec<&Path> = program.as_deref().into_iter().chain(arguments.rules.file()).collect();
    let place =
        arguments.output.as_deref().map(|place| Destination::of(place, Contents::Other, &sources)).transpose()?;
    // Taken before the program starts: if it fails, the program need not run.
    let mut surface = if arguments.once {
        Surface::Text(Forwarded::listen().context("cannot listen for signals")?)
    } else {
        Surface::Screen(Terminal::take()?)
    };
    let plan = Plan {
        policy: &policy,
        rules,
        seed: arguments.seed,
        output: match &place {
            Some(place) => Output::File(place),
            None if arguments.once => Output::PassedOn,
            None => Output::Shown,
        },
        session: if arguments.once { Session::Ours } else { Session::Own },
        command: &arguments.program,
    };
    let live = Live::of_program(Program::start(&plan)?);
    let live = if arguments.detach { live.detached() } else { live };
    let end = match &mut surface {
        Surface::Screen(terminal) => interface::run(live, terminal),
        Surface::Text(signals) => look_once(arguments, live, signals),
    };
    drop(surface);
    Ok(match end? {
        End::Ended(status) => launch::end_as(status),
        End::Left => ExitCode::SUCCESS,
        End::Signal(signal) => launch::end_by(signal),
    })
}

/// Returns the policy of the program, and its rules if any were named.
fn chosen_policy(arguments: &Arguments) -> Result<(String, Option<RuleSet>)> {
    let named = arguments.policy.first().map(String::as_str);
    if !arguments.rules.are_given() {
        return Ok((named.unwrap_or(policy::CACHED).to_owned(), None));
    }
    let (policy, set) = rules::of_program(&arguments.rules, named)?;
    Ok((policy, Some(set)))
}

/// Interval between samples before the picture is printed.
const PAUSE: Duration = Duration::from_millis(20);

/// Prints one picture at the requested time, or at the program's end, and waits for that end, unless the program is to
/// be left. Forwards signals to the program meanwhile.
fn look_once(arguments: &Arguments, mut live: Live, signals: &mut Forwarded) -> Result<End> {
    /// How much later than requested the picture of a program is printed that has no heap yet.
    const LATER: Duration = Duration::from_secs(1);
    loop {
        live.look();
        let is_time = live.ran >= arguments.after && sampled(&live).is_ok() || live.ran >= arguments.after + LATER;
        if live.is_over() || is_time {
            break;
        }
        if let Some(program) = &mut live.program {
            signals.pending().for_each(|signal| program.signal(signal));
        }
        thread::sleep(PAUSE);
    }
    let printed = match sampled(&live) {
        Ok(sample) => print(arguments, &live, sample),
        Err(error) => {
            heapwright_show::eprintln!("heapwright: no heap to show{}", why_unseen(arguments, &live, &error));
            Ok(())
        }
    };
    let end = end_of(arguments, live, signals);
    // A closed pipe ends this command here, and not before the program.
    printed.map(|()| end).map_err(|error| failure(&error).into())
}

/// Returns of which program the heap was not seen, and why; to be put behind what that means.
fn why_unseen(arguments: &Arguments, live: &Live, error: &Error) -> String {
    let name = &arguments.program[0];
    if let Some(obstacle) = file::obstacle_of(name) {
        return format!(": {obstacle}");
    }
    let why = match live.family.shown().unseen {
        _ if live.is_over() => {
            "it ended before its heap was seen, and without its exit handlers (as _exit and signals do)"
        }
        Some(Unseen::NoHeap) => "it was started without LD_PRELOAD (env -i and sudo do this)",
        _ => return format!(" of {}: {error}", name.shown()),
    };
    format!(" of {}: {why}", name.shown())
}

/// Leaves the program or waits for its end, as the arguments say.
fn end_of(arguments: &Arguments, mut live: Live, signals: &mut Forwarded) -> End {
    let Some(program) = &mut live.program else { return End::Left };
    loop {
        if let Some(status) = program.ended() {
            return End::Ended(status);
        }
        if arguments.detach {
            program.let_go();
            return End::Left;
        }
        signals.pending().for_each(|signal| program.signal(signal));
        thread::sleep(PAUSE);
    }
}

/// Returns the last copy of the heap.
fn sampled(live: &Live) -> Result<&Sample> {
    let shown = live.family.shown();
    match (&shown.sample, shown.unseen) {
        (Some(sample), _) => Ok(sample),
        (None, Some(unseen)) => bail!("process {}: {unseen}", shown.pid),
        (None, None) => bail!("process {}: it was not sampled", shown.pid),
    }
}

fn print(arguments: &Arguments, live: &Live, sample: &Sample) -> io::Result<()> {
    let shown = live.family.shown();
    if arguments.json { plain::print_json(shown, sample) } else { plain::print(shown, sample) }
}
