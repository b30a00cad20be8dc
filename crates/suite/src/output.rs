//! What a suite prints.

/// What is printed while measuring, besides progress on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A table as soon as its rows are known.
    Tables,
    /// Nothing: the caller prints the rows.
    Nothing,
}
