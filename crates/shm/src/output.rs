//! Output on the terminal.

use std::io::{self, Write};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};

/// Prints `text` at once, however long it is, without its styles where there are no colours.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match AutoStream::choice(&out) {
        ColorChoice::Never => out.write_all(strip_str(text).to_string().as_bytes()),
        _ => out.write_all(text.as_bytes()),
    }
    .and_then(|()| out.flush())
    .map_err(|error| heapwright_show::output::failure(&error))
}

/// A part of a whole, as in "12.5 %".
pub fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}
