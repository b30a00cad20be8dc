//! The files with the code of a process, for formats whose stacks have addresses only.

use std::fmt;

/// Finds places of code in files.
pub trait CodeFiles: fmt::Debug + Send + Sync {
    /// Returns what each file says of the code at an offset in it; `None` where the file cannot be read, or has no code
    /// there.
    fn locate(&self, places: &[(&str, u64)]) -> Vec<Option<Located>>;
}

/// A place of code in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The address in the file, as `addr2line` takes it.
    pub address: u64,
    /// Its function, file and line, with those of inlined calls: `inner file.c:7 in outer file.c:20`.
    pub name: Option<String>,
}
