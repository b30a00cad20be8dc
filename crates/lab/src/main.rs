//! `heapwright`: runs any program under a placement policy, and compares policies and allocators by measurements.

mod cli;
mod export;
mod import;
mod real;
mod replay;

use std::env;
use std::ffi::{OsString, c_int, c_void};
use std::process::ExitCode;

use clap::CommandFactory;
use heapwright_host::child::{self, Job};
use heapwright_host::descriptors::{described, let_output_without_a_place_fail};
use heapwright_host::interruption;
use heapwright_host::out_of_memory;
use heapwright_host::own_memory::OwnMemory;
use heapwright_host::program_allocator::ProgramAllocator;
use heapwright_host::threads::with_enough_stack;
use heapwright_show::usage::{self, Misuse};

use crate::cli::Cli;
use crate::cli::Command;

/// Exit code of a command that failed. (`run` has its own, distinct from those of programs.)
const FAILED: u8 = 1;

/// The jobs of child processes of this command. A replay begins before `main`, if the C library passes arguments to
/// constructors.
const JOBS: [Job; 4] = [
    heapwright_real::worker::JOB,
    heapwright_reproduce::child::JOB,
    heapwright_workloads::worker::JOB,
    heapwright_workloads::shared::worker::JOB,
];

static OWN: OwnMemory = OwnMemory::new();

#[global_allocator]
static ALLOCATOR: ProgramAllocator = ProgramAllocator::beside(&OWN);

/// Takes the place of the C library's function, which aborts without memory.
///
/// # Safety
/// As for the C library's.
// SAFETY: the name is that of a function with this signature, and this one does what that does.
#[unsafe(no_mangle)]
unsafe extern "C" fn __cxa_thread_atexit_impl(
    destructor: unsafe extern "C" fn(*mut c_void),
    object: *mut c_void,
    handle: *mut c_void,
) -> c_int {
    // SAFETY: as this function requires.
    unsafe { out_of_memory::note_end(destructor, object, handle, &OWN) }
}

/// The dynamic linker calls this before `main`.
// SAFETY: the section is a list of functions of this type, by the convention of the System V ABI.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = begin;

/// Keeps output from being lost in `/dev/null`, which Rust's runtime opens where there is no standard output; and
/// replays if this process was started for that: the heap under test has had no request before the first of the trace,
/// as that of the recorded process. Memory may be refused from here on, with the exit code of the command.
extern "C" fn begin() {
    let_output_without_a_place_fail();
    child::serve_before_main(&heapwright_real::worker::JOB, &OWN);
    OWN.begin();
    out_of_memory::end_with(exit_code_of_a_failure(env::args_os().skip(1)));
    OWN.end();
}

/// Returns the exit code of the command if it fails; its arguments need not be valid.
fn exit_code_of_a_failure(arguments: impl Iterator<Item = OsString>) -> u8 {
    let mut arguments = arguments.peekable();
    // The one option that may precede the command.
    while let Some(option) = arguments.next_if(|argument| argument.as_encoded_bytes().starts_with(b"--color")) {
        arguments.next_if(|_| option == "--color");
    }
    let command = arguments.next().unwrap_or_default();
    let runs_a_program = match command.to_str() {
        Some("run" | "record") => true,
        Some("watch") => arguments.skip_while(|argument| argument != "--").nth(1).is_some(),
        _ => false,
    };
    if runs_a_program { heapwright_run::FAILED } else { FAILED }
}

/// Prints the help, the version or a usage error, and ends the process.
fn end_with(error: &clap::Error) -> ! {
    match error.print() {
        Err(failure) if !error.use_stderr() => heapwright_show::output::fail(&failure),
        _ => std::process::exit(error.exit_code()),
    }
}

fn main() -> ExitCode {
    with_enough_stack(serve)
}

/// Does the job of a child process, or the command.
fn serve() -> ExitCode {
    if let Some(ended) = child::serve(&JOBS) {
        return ended;
    }
    if let Err(error) = heapwright_host::process::let_writes_fail() {
        heapwright_show::eprintln!("heapwright: signals cannot be handled: {error}");
        return ExitCode::from(FAILED);
    }
    out_of_memory::end_at_refusals_in_libraries(&OWN);
    let cli = cli::parse().unwrap_or_else(|error| end_with(&error));
    cli.color.write_global();
    let outcome = match cli.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "heapwright", &mut script);
            heapwright_show::print!("{}", String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(args) => Ok(heapwright_run::run(&args)),
        Command::Record(args) => Ok(heapwright_recording::run(&args)),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Compare(arguments) => heapwright_compare::run(&arguments),
        Command::Watch(arguments) => heapwright_watch::run(&arguments),
        Command::Inspect(arguments) => heapwright_inspect::run(&arguments),
        Command::Report(arguments) => heapwright_report::run(&arguments),
        Command::Sites(arguments) => heapwright_sites::run(&arguments),
        Command::Diff(arguments) => heapwright_sites::diff::run(&arguments, heapwright_report::changes::html),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Fit(arguments) => heapwright_simulate::fit::run(&arguments),
        Command::Minimize(arguments) => heapwright_simulate::minimize::run(&arguments),
        Command::Sweep(arguments) => heapwright_simulate::sweep::run(&arguments),
        Command::Merge(arguments) => heapwright_simulate::sweep::merge::run(&arguments),
        Command::Counterexample(arguments) => heapwright_simulate::counterexample::run(&arguments),
        Command::Reproduce(args) => heapwright_reproduce::run(&args),
        Command::Bench(arguments) => heapwright_suite::run(&arguments),
        Command::Shm(command) => heapwright_shm::run(&command),
    };
    outcome.unwrap_or_else(|error| {
        if interruption::came() {
            heapwright_show::eprintln!("heapwright: interrupted");
            return interruption::exit_code();
        }
        if error.is::<Misuse>() {
            usage::refuse(&format!("{error:#}"));
        }
        heapwright_show::eprintln!("heapwright: {}", described(&error));
        ExitCode::from(FAILED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_of_a_failure_is_that_of_the_command_before_its_arguments_are_parsed() {
        for (words, code) in [
            ("run -p first -- true", 125),
            ("record ls", 125),
            ("--color never run ls", 125),
            ("--color=never record ls", 125),
            ("--color run --color", 1),
            ("watch --once -- ls", 125),
            ("watch --once --pid 1", 1),
            ("watch t.hwt --", 1),
            ("compare -- run", 1),
            ("", 1),
        ] {
            let arguments = words.split_whitespace().map(OsString::from);
            assert_eq!(exit_code_of_a_failure(arguments), code, "{words}");
        }
    }
}
