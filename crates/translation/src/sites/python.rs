//! The frames of Python functions: their names, and the stacks that they form.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use heapwright_stream::Paths;

use super::redaction::Redaction;
use crate::merge::PythonName;

/// The beginning of the texts of such frames.
pub const TEXT: &str = "python:";

/// Frames by hash, stacks by number.
#[derive(Default)]
pub struct PythonFrames {
    frames: HashMap<u64, Frame, foldhash::fast::RandomState>,
    /// The first frame of each text: instructions of one line, and copies of a function, are one frame in sites.
    firsts: HashMap<Arc<str>, u64, foldhash::fast::RandomState>,
    /// Numbers of stacks by their hashes, from 1 on.
    numbers: HashMap<u64, u32, foldhash::fast::RandomState>,
    stacks: Vec<Box<[u64]>>,
    /// Stacks whose numbers are in the table.
    told: HashSet<u64, foldhash::fast::RandomState>,
}

/// A frame.
struct Frame {
    /// What it is called in sites, which no other place in a source has.
    text: Arc<str>,
    /// The first frame of this text.
    first: u64,
    /// `function file.py:10`.
    name: String,
}

impl PythonFrames {
    /// The most frames and the most stacks that are remembered.
    const MOST: usize = 1 << 20;

    /// Adds the name of a frame; returns whether it was not known.
    pub fn add_name(&mut self, name: &PythonName<'_>, redaction: Redaction) -> bool {
        if self.frames.contains_key(&name.hash) || self.frames.len() == PythonFrames::MOST {
            return false;
        }
        let (path, function) = (String::from_utf8_lossy(name.file), String::from_utf8_lossy(name.function));
        // Blanks and brackets, as of `<frozen os>`, would separate the parts of a name.
        let file = path.rsplit('/').next().unwrap_or(&path).replace(['<', '>'], "").replace(' ', "-");
        let place = match redaction {
            Redaction::Nothing => &*path,
            Redaction::Private => &*file,
        };
        let text: Arc<str> = format!("{TEXT}{place}:{function}:{}", name.line).into();
        let name_of_frame = format!("{function} {file}:{}", name.line);
        let first = *self.firsts.entry(text.clone()).or_insert(name.hash);
        self.frames.insert(name.hash, Frame { text, first, name: name_of_frame });
        true
    }

    /// Returns the hash of a stack and its number, which it is given if it has none; `None` when there are too many.
    pub fn number_of(&mut self, hashes: &[u64]) -> (u64, Option<u32>) {
        let hash = Paths::hash_of_python_stack(hashes);
        if let Some(&number) = self.numbers.get(&hash) {
            return (hash, Some(number));
        }
        if self.stacks.len() == PythonFrames::MOST {
            return (hash, None);
        }
        self.stacks.push(hashes.into());
        let number = self.stacks.len() as u32;
        self.numbers.insert(hash, number);
        (hash, Some(number))
    }

    /// Returns whether this is the first call for a stack.
    pub fn is_new(&mut self, hash: u64) -> bool {
        self.told.insert(hash)
    }

    /// Returns the frames of a stack, innermost first, each as the hash of the first frame of its text; none for number
    /// 0.
    pub fn frames(&self, number: u32) -> impl Iterator<Item = u64> + '_ {
        let stack = (number as usize).checked_sub(1).and_then(|index| self.stacks.get(index));
        let first = |hash: &u64| self.frames.get(hash).map_or(*hash, |frame| frame.first);
        stack.into_iter().flat_map(move |stack| stack.iter().map(first))
    }

    /// Returns the text of a frame in sites, if the hash is that of a frame.
    pub fn text(&self, hash: u64) -> Option<&Arc<str>> {
        self.frames.get(&hash).map(|frame| &frame.text)
    }

    /// Returns the names of all frames, by their texts.
    pub fn names(&self) -> impl Iterator<Item = (&str, String)> {
        self.frames.values().map(|frame| (&*frame.text, frame.name.clone()))
    }
}
