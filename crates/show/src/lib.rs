//! What people see: tables, the terminal's width, numbers, progress, usage errors, and the JSON of `--json`.

pub mod number;
pub mod output;
pub mod progress;
pub mod results;
pub mod shell;
pub mod table;
pub mod terminal;
pub mod usage;
