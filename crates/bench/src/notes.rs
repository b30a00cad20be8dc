//! The figures that a workload reports itself.

use std::fmt;

/// Figures by name, in the order in which they were added.
#[derive(Default)]
pub struct Notes {
    lines: Vec<(&'static str, u64)>,
}

impl Notes {
    /// Adds a figure.
    pub fn add(&mut self, name: &'static str, figure: u64) {
        self.lines.push((name, figure));
    }

    /// Returns whether there is a figure of this name.
    pub fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|(other, _)| *other == name)
    }
}

impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(name, figure)| writeln!(f, "{name} {figure}"))
    }
}
