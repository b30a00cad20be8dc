//! What a trace tells besides events: a few named texts.

use std::collections::BTreeMap;

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

    /// Sets the text of this name. Zero bytes, which separate texts in files, become spaces.
    pub fn set(&mut self, name: &str, text: &str) {
        self.texts.insert(name.replace('\0', " "), text.replace('\0', " "));
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|(name, text)| [name, "\0", text, "\0"]).flat_map(str::bytes).collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<About> {
        let text = std::str::from_utf8(bytes).ok()?;
        let parts: Vec<&str> = text.strip_suffix('\0').map_or_else(Vec::new, |text| text.split('\0').collect());
        if !parts.len().is_multiple_of(2) || (parts.is_empty() && !bytes.is_empty()) {
            return None;
        }
        let texts = parts.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
        Some(About { texts })
    }
}
