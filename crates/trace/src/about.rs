//! What a trace tells besides events: a few named texts.

use std::collections::BTreeMap;

use crate::frame;
use crate::texts;

/// Named texts: which program it was, with which arguments, on what, and whatever else somebody wants to note.
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
    /// The most that the texts of a trace may take in memory, in bytes.
    pub(crate) const LIMIT: usize = frame::LONGEST;

    /// What is told of a program of this name.
    #[must_use]
    pub fn of_program(name: &str) -> About {
        let mut about = About::default();
        about.set("program", name);
        about
    }

    /// The text of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Sets the text of this name. Zero bytes, which separate texts in files, become spaces. All texts of a trace together may
    /// take 4 MiB, 64 bytes more being counted for each.
    pub fn set(&mut self, name: &str, text: &str) {
        self.texts.insert(name.replace('\0', " "), text.replace('\0', " "));
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.iter().for_each(|(name, text)| texts::put(&mut bytes, name, text));
        bytes
    }

    /// Adds the texts of a frame; `false` when it holds something else, or more than a trace may.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) -> bool {
        let Some(mut pairs) = texts::pairs(bytes) else { return false };
        let mut held = self.cost();
        pairs.all(|(name, text)| {
            held += cost(name, text);
            self.set(name, text);
            held <= Self::LIMIT
        })
    }

    /// What they take in memory, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.iter().map(|(name, text)| cost(name, text)).sum()
    }
}

/// What a text and its name take in memory, in bytes.
pub(crate) fn cost(name: &str, text: &str) -> usize {
    name.len() + text.len() + 64
}
