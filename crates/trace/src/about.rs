//! The metadata of a trace: a few named texts.

use std::collections::BTreeMap;

use crate::frame;
use crate::texts;

/// The name of the text that tells why the recording ended before the program did, at a limit for example.
pub const INCOMPLETE: &str = "incomplete";

/// The metadata of a trace: named texts such as the program, its arguments and the machine. Any other name is allowed.
///
/// ```
/// let mut about = heapwright_trace::About::of_program("gcc");
/// about.set("arguments", "-O2 -c hello.c");
/// assert_eq!(about.get("arguments"), Some("-O2 -c hello.c"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    texts: BTreeMap<String, String>,
}

impl About {
    /// The limit of all texts of a trace in memory, in bytes.
    pub(crate) const LIMIT: usize = frame::LONGEST;

    /// Returns metadata whose text `program` is `name`.
    #[must_use]
    pub fn of_program(name: &str) -> About {
        let mut about = About::default();
        about.set("program", name);
        about
    }

    /// Returns the text of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Returns why the recording ended before the program did, if it did so.
    #[must_use]
    pub fn incomplete(&self) -> Option<&str> {
        self.get(INCOMPLETE)
    }

    /// Sets the text of this name. Zero bytes become spaces, because they separate texts in files. All texts of a trace
    /// together may take 4 MiB, where each counts 64 bytes more than its length and that of its name.
    pub fn set(&mut self, name: &str, text: &str) {
        self.texts.insert(name.replace('\0', " "), text.replace('\0', " "));
    }

    /// Returns all names and texts, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.iter().for_each(|(name, text)| texts::put(&mut bytes, name, text));
        bytes
    }

    /// Adds the texts of a frame; returns `false` if the frame is invalid or the texts exceed [`About::LIMIT`].
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) -> bool {
        let Some(mut pairs) = texts::pairs(bytes) else { return false };
        let mut total = self.cost();
        pairs.all(|(name, text)| {
            total += cost(name, text);
            self.set(name, text);
            total <= Self::LIMIT
        })
    }

    /// Returns the memory that all texts take, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.iter().map(|(name, text)| cost(name, text)).sum()
    }
}

/// Returns the memory that a text and its name take, in bytes.
pub(crate) fn cost(name: &str, text: &str) -> usize {
    name.len() + text.len() + 64
}
