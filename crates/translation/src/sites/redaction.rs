//! What a trace leaves out.

/// What a trace leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    /// Nothing.
    #[default]
    Nothing,
    /// Arguments, environment and paths; names of files stay.
    Private,
}
