//! `heapwright watch`: a program's heap on the terminal while it runs, or that of a trace, explained (`trace`).
//!
//! The program does nothing for it. Its drop-in library says in its own memory where the heap's metadata is (a beacon); we
//! read the memory of the process from outside. From the bottom up: `sight` (the beacon, found), `sample` and `slabs` (a copy of what
//! the heap knows), `view` and `picture` (a part of it, drawn), `history`, `watched` and `family` (processes over time),
//! `log` and `program` (what runs and what it prints), `terminal`, `panels`, `classes`, `screen` and `live` (what the user sees),
//! `plain` (the same as text, once).

mod classes;
mod family;
mod history;
mod live;
mod log;
mod panels;
mod picture;
mod plain;
mod program;
mod sample;
mod screen;
mod sight;
mod slabs;
mod terminal;
#[cfg(test)]
mod tests;
mod trace;
mod view;
mod watched;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;

use self::live::{End, Live};
use self::program::{Output, Plan, Program, Session};
use self::terminal::Terminal;
use crate::policy;
use crate::run::{failed, launch, program as file};

pub const EXAMPLES: &str = "\
Examples:
  heapwright watch -- python3 job.py                 under the default malloc
  heapwright watch -p worst -- g++ -c big.cpp        the compiler proper is found, too
  heapwright watch --pid 4711                        a process under `heapwright run`, say
  heapwright watch gcc.hwt -p first -p best          a trace, explained, under two policies
  heapwright watch --once --after 2 -- python3 x.py  one picture after two seconds, as text

Keys: q quit, z and Z zoom, up, down, PgUp and PgDn move, 0 the whole heap, Tab another process (another
policy), space pause. For a trace: left and right step, + and - speed, g go to an event, s other policy.

The program is not slowed down: its memory is read from outside. Its output is shown below its heap,
or goes to a file; it reads standard input unless that is the terminal.

Exit code: the program's own, or its signal. 127: there is no such program. 126: it cannot be
executed. 125: heapwright itself failed. With --pid: 0, or 1 when its heap cannot be seen.";

/// What `watch` may be told.
#[derive(Args)]
pub struct Arguments {
    /// A trace, as written by `heapwright record`, to be replayed and explained instead of a program.
    #[arg(value_name = "TRACE", conflicts_with_all = ["program", "pid", "output", "detach", "seed", "json", "after"])]
    pub trace: Option<PathBuf>,

    /// How blocks are placed: the default malloc (`cached`) unless told otherwise. For a trace: first fit; two policies are shown side by side.
    #[arg(long, short, value_name = "POLICY", value_parser = PossibleValuesParser::new(policy::drop_in()))]
    pub policy: Vec<String>,

    /// Begin after this event of the trace, and stand still.
    #[arg(long, value_name = "EVENT", requires = "trace")]
    pub at: Option<u64>,

    /// The seed of random fit.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Watch a process that runs under libheapwright.so already.
    #[arg(long, value_name = "PID", conflicts_with_all = ["program", "output", "detach", "seed"])]
    pub pid: Option<u32>,

    /// Write the program's output to this file; its last lines are shown all the same.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Leave the program running when watching ends; its output has to go to a file.
    #[arg(long, requires = "output")]
    pub detach: bool,

    /// Print one picture as text instead.
    #[arg(long)]
    pub once: bool,

    /// When to print it: so many seconds after the start, or when the program ends before that.
    #[arg(long, value_name = "SECONDS", requires = "once", default_value_t = 1.0, value_parser = seconds)]
    pub after: f64,

    /// Print one JSON object instead of a picture: {"schema": 1, "results": [ ... ]}.
    #[arg(long, requires = "once")]
    pub json: bool,

    /// The program and its arguments.
    #[arg(value_name = "PROGRAM", last = true)]
    pub program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, as in 0.5".to_owned())?;
    if (0.0..=1e6).contains(&seconds) { Ok(seconds) } else { Err("between 0 and a million seconds".to_owned()) }
}

/// Watches what was asked for.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(path) = &arguments.trace {
        let Arguments { policy, at, once, .. } = arguments;
        return trace::run(&trace::Plan { path, policies: policy, at: *at, once: *once });
    }
    if let Some(pid) = arguments.pid {
        return watch_process(arguments, pid);
    }
    if arguments.program.is_empty() {
        bail!("what is to be watched? `heapwright watch -- PROGRAM`, `--pid PID` or a trace");
    }
    ensure!(arguments.policy.len() < 2, "a program runs under one policy; a trace of it can be watched under two");
    Ok(watch_program(arguments).unwrap_or_else(|error| failed(&error)))
}

fn watch_process(arguments: &Arguments, pid: u32) -> Result<ExitCode> {
    let mut live = Live::of_process(pid);
    live.look();
    if let Some(unseen) = live.family.shown().unseen {
        bail!("process {pid} cannot be watched: {unseen}");
    }
    if arguments.once {
        print(arguments, &live)?;
        return Ok(ExitCode::SUCCESS);
    }
    let end = live.run(&mut Terminal::take()?)?;
    Ok(match end {
        End::Signal(signal) => launch::end_by(signal),
        End::Ended(_) | End::Left => ExitCode::SUCCESS,
    })
}

fn watch_program(arguments: &Arguments) -> Result<ExitCode> {
    // Taken before the program starts, which would run for nobody otherwise.
    let mut terminal = if arguments.once { None } else { Some(Terminal::take()?) };
    let plan = Plan {
        policy: arguments.policy.first().map_or(policy::CACHED, String::as_str),
        seed: arguments.seed,
        output: match &arguments.output {
            Some(path) => Output::File(path),
            None if arguments.once => Output::PassedOn,
            None => Output::Shown,
        },
        session: if arguments.once { Session::Ours } else { Session::Own },
        command: &arguments.program,
    };
    let live = Live::of_program(Program::start(&plan)?, arguments.detach);
    let end = match &mut terminal {
        Some(terminal) => live.run(terminal),
        None => look_once(arguments, live),
    };
    drop(terminal);
    Ok(match end? {
        End::Ended(status) => launch::end_as(status),
        End::Left => ExitCode::SUCCESS,
        End::Signal(signal) => launch::end_by(signal),
    })
}

/// How often the heap is looked at before the one picture is printed.
const PAUSE: Duration = Duration::from_millis(20);

/// Prints one picture at the time asked for, or at the program's end, and waits for that.
fn look_once(arguments: &Arguments, mut live: Live) -> Result<End> {
    loop {
        live.look();
        if live.is_over() || live.ran.as_secs_f64() >= arguments.after {
            break;
        }
        thread::sleep(PAUSE);
    }
    let printed = print(arguments, &live).with_context(|| match file::obstacle_of(&arguments.program[0]) {
        Some(obstacle) => format!("nothing can be seen: {obstacle}"),
        None => format!("nothing was seen of {}", arguments.program[0].display()),
    });
    let Some(program) = &mut live.program else { return printed.map(|()| End::Left) };
    let status = program.wait()?;
    printed.map(|()| End::Ended(status))
}

fn print(arguments: &Arguments, live: &Live) -> Result<()> {
    let shown = live.family.shown();
    let Some(sample) = &shown.sample else {
        match shown.unseen {
            Some(unseen) => bail!("process {}: {unseen}", shown.pid),
            None => bail!("process {}: it was not looked at", shown.pid),
        }
    };
    if arguments.json {
        plain::print_json(shown, sample)?
    } else {
        plain::print(shown, sample)?
    }
    Ok(())
}
