//! `heapwright run`: runs an unmodified program under a policy and prints its heap's statistics at the end.

pub mod arguments;
mod inherited;
pub mod launch;
pub mod program;
mod statistics;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anstream::StripStream;
use anyhow::{Result, bail};

use self::statistics::Gathered;
use crate::arguments::RunArgs;
use heapwright_allocators::policy;
use heapwright_allocators::preload;
use heapwright_allocators::rules;
use heapwright_host::descriptors;
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::Shown;
use heapwright_host::process::is_of_no_known_format;
use heapwright_host::temporary::Folder;
use heapwright_placement::PolicyKind;
use heapwright_show::usage::{self, Misuse};

/// Exit code of a failure of heapwright itself, as in `env` and shells: distinct from the usual codes of programs.
pub const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What is wrong with a file that the system refuses to execute with `ENOEXEC`.
const NO_FORMAT: &str = "it is neither a program for this system nor a script that begins with #!";

/// Runs the program and exits as it does: with its exit code, or by its signal.
pub fn run(args: &RunArgs) -> ExitCode {
    match run_and_report(args) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn run_and_report(args: &RunArgs) -> Result<ExitCode> {
    let reports = Folder::new("run")?;
    // Checked first, so that an unwritable path fails before the program runs.
    let program = program::find(&args.program);
    let read = [program.as_deref(), args.rules.file(), args.library.as_deref()];
    let sources: Vec<&Path> = read.into_iter().flatten().collect();
    let check = |path: &Path| Destination::of(path, Contents::Other, &sources);
    let output = args.output.as_deref().map(check).transpose()?;
    let mut command = prepared(args, &reports)?;
    statistics::ensure_room(reports.path())?;
    let finished = match launch::to_the_end(&mut command) {
        Ok(finished) => finished,
        Err(error) => return Err(NotStarted::because(&args.program, &error).into()),
    };
    let gathered = Gathered::from(reports.path(), finished.pid)?;
    if gathered.own.is_none() && program::is_refused_by_library(&command, finished.status) {
        // The library has said why.
        return Ok(launch::end_as(finished.status));
    }
    match &gathered.own {
        None if gathered.is_own_cut && finished.status.signal().is_none() => {
            let name = args.program.shown();
            bail!("the statistics of {name} in {} are incomplete: {}", reports.path().shown(), program::WHY_CUT)
        }
        None => heapwright_show::eprintln!("heapwright: {}", program::why_unreported(&args.program, finished.status)),
        Some(report) if !report.has_mallocs() => {
            heapwright_show::eprintln!("heapwright: {}", program::why_without_calls(&args.program, report.program()));
        }
        Some(_) => {}
    }
    let mut text = Vec::new();
    statistics::write(&mut text, &gathered, args.stats)?;
    match output {
        Some(destination) => {
            let mut plain = StripStream::new(Vec::new());
            plain.write_all(&text)?;
            destination.write(&plain.into_inner())?;
        }
        None => anstream::stderr().write_all(&text)?,
    }
    // When this process ends by a signal, no destructors run.
    drop(reports);
    Ok(launch::end_as(finished.status))
}

/// Returns the command that starts the program under the drop-in library, with every process reporting into `reports`.
fn prepared(args: &RunArgs, reports: &Folder) -> Result<Command> {
    /// What stands for the number of a process in the path of a file of statistics.
    const NUMBER: &[u8] = b"%p";
    if reports.path().as_os_str().as_bytes().windows(NUMBER.len()).any(|part| part == NUMBER) {
        bail!(
            "the statistics cannot be written to {}: %p stands for the number of a process; name another directory by \
             TMPDIR",
            reports.path().shown()
        );
    }
    let mut report = OsString::from("json:");
    report.push(reports.path().join(statistics::FILE_PATTERN));
    let mut command = Command::new(&args.program);
    command.args(&args.args);
    let library = preload::loadable_library(args.library.as_deref())?;
    command.env(preload::LD_PRELOAD, in_front(&library));
    let policy = chosen_policy(args, &mut command)?;
    inherited::refuse_conflicts(args, &policy)?;
    command.env(preload::POLICY, &policy).env(preload::STATS, report);
    if let Some(seed) = args.seed {
        if policy != PolicyKind::Random.name() {
            let random = PolicyKind::Random.name();
            bail!(Misuse(format!(
                "--seed requires the policy {random}, not {}: add -p {random}, or leave out --seed",
                policy.shown()
            )));
        }
        command.env(preload::SEED, seed.to_string());
    }
    if let Some(measures) = &args.harden {
        if policy != policy::CACHED {
            bail!(Misuse(format!("--harden requires the policy {}: leave out --policy", policy::CACHED)));
        }
        command.env(preload::HARDEN, measures.join(","));
    }
    if let Some(reaction) = args.on_bad_free {
        command.env(preload::ON_BAD_FREE, reaction.name());
    }
    Ok(command)
}

/// Hands the rules on to the drop-in library, and returns the policy that goes with them.
fn chosen_policy(args: &RunArgs, command: &mut Command) -> Result<String> {
    if !args.rules.are_given() {
        let asked = args.policy.clone().map_or_else(inherited::policy_of_rules, |policy| Ok(Some(policy)))?;
        return Ok(asked.unwrap_or_else(|| policy::CACHED.to_owned()));
    }
    let (policy, set) = rules::of_program(&args.rules, args.policy.as_deref())?;
    command.env(preload::RULES, set.to_string());
    Ok(policy)
}

/// Returns the list of libraries to preload: `library`, then those that the caller preloads already.
pub fn in_front(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os(preload::LD_PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// Prints the error, and returns the exit code for it. Ends the process by an error of usage.
pub fn failed(error: &anyhow::Error) -> ExitCode {
    if error.is::<Misuse>() {
        usage::refuse(&format!("{error:#}"));
    }
    heapwright_show::eprintln!("heapwright: {}", descriptors::described(error));
    ExitCode::from(error.downcast_ref::<NotStarted>().map_or(FAILED, |not_started| not_started.code))
}

/// A program that could not be started, with the reason.
#[derive(Debug)]
pub struct NotStarted {
    code: u8,
    what: String,
}

impl NotStarted {
    /// Returns the error for what the system reported.
    pub fn because(name: &OsStr, error: &io::Error) -> NotStarted {
        if name.is_empty() {
            return NotStarted { code: NOT_FOUND, what: "cannot run a program whose name is empty".to_owned() };
        }
        let found = program::find(name);
        let is_directory = found.as_ref().is_some_and(|found| found.is_dir());
        let (code, why) = match error.kind() {
            ErrorKind::NotFound if found.is_some() => {
                (NOT_FOUND, "the interpreter that it names is missing".to_owned())
            }
            ErrorKind::NotFound => (NOT_FOUND, "there is no such program".to_owned()),
            ErrorKind::PermissionDenied if is_directory => (NOT_EXECUTABLE, "it is a directory".to_owned()),
            ErrorKind::PermissionDenied => (NOT_EXECUTABLE, "it may not be executed".to_owned()),
            _ if is_of_no_known_format(error) => (NOT_EXECUTABLE, NO_FORMAT.to_owned()),
            _ => (NOT_EXECUTABLE, format!("{error}{}", descriptors::advice(error))),
        };
        NotStarted { code, what: format!("cannot run {}: {why}", name.shown()) }
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl std::error::Error for NotStarted {}
