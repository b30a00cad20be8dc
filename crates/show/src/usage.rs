//! Errors of usage that are found after the arguments were parsed.

use clap::Error;
use clap::error::ErrorKind;

/// Prints `message` as clap prints its own errors and ends the process with exit code 2.
pub fn refuse(message: &str) -> ! {
    let text = format!("{message}\n\nFor more information, try '--help'.\n");
    Error::raw(ErrorKind::ValueValidation, text).exit()
}
