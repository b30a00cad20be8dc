//! Errors of usage that are found after the arguments were parsed.

use std::error;
use std::fmt;

use clap::Error;
use clap::error::ErrorKind;

/// An error of usage: a command that fails by it prints it by [`refuse`].
#[derive(Debug)]
pub struct Misuse(pub String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Misuse {}

/// Returns an error with this message that is printed as clap's own errors are.
pub fn error(message: &str) -> Error {
    Error::raw(ErrorKind::ValueValidation, format!("{message}\n\nFor more information, try '--help'.\n"))
}

/// Prints `message` as clap prints its own errors and ends the process with exit code 2.
pub fn refuse(message: &str) -> ! {
    error(message).exit()
}
