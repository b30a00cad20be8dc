//! What is printed: to standard output, where a failure ends the command, and to standard error, where it does not.
//!
//! The macros [`print!`](crate::print!), [`println!`](crate::println!) and [`eprintln!`](crate::eprintln!) format as
//! those of the standard library. Styles are removed where there are no colours.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::path::Path;
use std::process;

use heapwright_host::cleanup;
use heapwright_host::names::Shown;
use heapwright_host::process::reason_of_failed_write;

/// Exit code when standard output cannot be written. (A closed pipe ends the command by SIGPIPE.)
const FAILED: i32 = 1;

/// Prints to standard output. A failure ends the process with a message; the standard library would panic.
#[macro_export]
macro_rules! print {
    ($($arguments:tt)*) => {
        $crate::output::print(::std::format_args!($($arguments)*))
    };
}

/// Prints a line to standard output, as [`print!`](crate::print!) does.
#[macro_export]
macro_rules! println {
    () => {
        $crate::output::print(::std::format_args!("\n"))
    };
    ($($arguments:tt)*) => {
        $crate::output::print(::std::format_args!("{}\n", ::std::format_args!($($arguments)*)))
    };
}

/// Prints a line to standard error. A failure is ignored: there is no place to report it.
#[macro_export]
macro_rules! eprintln {
    ($($arguments:tt)*) => {
        $crate::output::print_error(::std::format_args!($($arguments)*))
    };
}

/// Prints to standard output; ends the process when that fails.
pub fn print(text: Arguments<'_>) {
    let mut out = anstream::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        fail(&error);
    }
}

/// Prints a line to standard error if that is possible.
pub fn print_error(text: Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Warns that a trace has only a part of what its program did, which is used: what can be read before the `damage`, or
/// what was recorded before an early end.
pub fn warn_of_part(trace: &Path, damage: Option<&impl Display>, incomplete: Option<&str>) {
    if let Some(damage) = damage {
        print_error(format_args!("heapwright: {}: {damage}, and used", trace.shown()));
    }
    if let Some(why) = incomplete {
        print_error(format_args!("heapwright: {} is incomplete, the program went on: {why}", trace.shown()));
    }
}

/// Ends the process because standard output cannot be written.
pub fn fail(error: &io::Error) -> ! {
    print_error(format_args!("heapwright: {}", failure(error)));
    cleanup::remove_all();
    process::exit(FAILED)
}

/// Describes why standard output cannot be written. Ends the process by SIGPIPE if its reader has ended.
pub fn failure(error: &io::Error) -> io::Error {
    let reason = reason_of_failed_write(error);
    io::Error::new(error.kind(), format!("standard output cannot be written: {reason}"))
}
