//! Call sites of requests. Each is a list of stack frames, the innermost first; a stack frame is a text.
//!
//! A frame of definitions: `length of the texts, as a number | texts, each followed by a zero | for each site the count
//! of its stack frames, and their numbers`. Texts and sites are numbered from 0 over the whole trace.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Fault, WriteError};
use crate::number;

/// The limit of the definitions of a trace in memory, in bytes as [`cost`] counts them. The names of stack frames have
/// the same limit, counted separately.
pub(crate) const LIMIT: usize = 64 << 20;

/// The longest definition of one site, in bytes.
const LONGEST: usize = 1 << 20;

/// A call site of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u32);

impl SiteId {
    /// Returns the number of the site, from 0 in the order of definition.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// Returns the memory that a text or a site of this length takes, in bytes.
fn cost(length: usize) -> usize {
    length + 32
}

/// The definitions of a trace that is being written.
#[derive(Default)]
pub(crate) struct Definitions {
    /// The number of each text.
    frames: HashMap<Box<str>, u32>,
    sites: u32,
    retained: usize,
    names_retained: usize,
    /// The definitions that have not been written yet.
    texts: Vec<u8>,
    lists: Vec<u8>,
}

impl Definitions {
    /// Defines a site. Does not deduplicate: the same frames defined twice are two sites.
    pub(crate) fn define(&mut self, frames: &[&str]) -> Result<SiteId, WriteError> {
        let length = frames.iter().map(|frame| frame.len() + 8).sum::<usize>();
        let cost = frames.iter().map(|frame| cost(frame.len())).sum::<usize>() + cost(4 * frames.len());
        if length > LONGEST || self.retained + cost > LIMIT {
            return Err(WriteError::TooMuch { what: "call sites", limit: LIMIT });
        }
        number::put(&mut self.lists, frames.len() as u64);
        self.retained += self::cost(4 * frames.len());
        for frame in frames {
            let number = self.number_of(frame);
            number::put(&mut self.lists, u64::from(number));
        }
        self.sites += 1;
        Ok(SiteId(self.sites - 1))
    }

    fn number_of(&mut self, frame: &str) -> u32 {
        if let Some(&number) = self.frames.get(frame) {
            return number;
        }
        let number = self.frames.len() as u32;
        self.frames.insert(frame.into(), number);
        self.retained += cost(frame.len());
        // A zero byte ends a text.
        self.texts.extend(frame.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
        self.texts.push(0);
        number
    }

    /// Counts the name of a stack frame against [`LIMIT`]; fails if the names exceed it.
    pub(crate) fn count_name(&mut self, frame: &str, name: &str) -> Result<(), WriteError> {
        let cost = cost(frame.len()) + cost(name.len());
        if cost > LONGEST || self.names_retained + cost > LIMIT {
            return Err(WriteError::TooMuch { what: "names of stack frames", limit: LIMIT });
        }
        self.names_retained += cost;
        Ok(())
    }

    /// Returns the number of sites.
    pub(crate) fn sites(&self) -> u32 {
        self.sites
    }

    pub(crate) fn has(&self, site: SiteId) -> bool {
        site.0 < self.sites
    }

    /// Returns how much of the room for definitions is taken, in eighths of [`LIMIT`], rounded down.
    pub(crate) fn eighths(&self) -> usize {
        self.retained / (LIMIT / 8)
    }

    /// Returns the length in bytes of the definitions that have not been written yet.
    pub(crate) fn length(&self) -> usize {
        self.texts.len() + self.lists.len()
    }

    /// Returns the contents of a frame with the definitions that have not been written yet, and clears them.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length() + 8);
        number::put(&mut bytes, self.texts.len() as u64);
        bytes.append(&mut self.texts);
        bytes.append(&mut self.lists);
        bytes
    }
}

/// Consecutive rows in one vector.
struct Rows<T> {
    all: Vec<T>,
    ends: Vec<usize>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows { all: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Rows<T> {
    fn get(&self, number: usize) -> Option<&[T]> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.all[start..end])
    }

    fn end_row(&mut self) {
        self.ends.push(self.all.len());
    }
}

/// The sites that the reader has read so far.
#[derive(Default)]
pub(crate) struct SiteTable {
    texts: Rows<u8>,
    sites: Rows<u32>,
    retained: usize,
    names: BTreeMap<String, String>,
    names_retained: usize,
}

impl SiteTable {
    /// Returns the texts of the site's stack frames, the innermost first; none if the site is not defined.
    pub(crate) fn frames(&self, site: SiteId) -> impl Iterator<Item = &str> {
        self.frame_numbers(site).iter().map(|&frame| self.text(frame))
    }

    /// Returns the numbers of the texts of the site's stack frames, the innermost first; none if the site is not
    /// defined.
    pub(crate) fn frame_numbers(&self, site: SiteId) -> &[u32] {
        self.sites.get(site.0 as usize).unwrap_or_default()
    }

    /// Returns the text of this number; empty if there is none.
    pub(crate) fn text(&self, number: u32) -> &str {
        let text = self.texts.get(number as usize).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Returns the name of the stack frame of this text, if the trace has one.
    pub(crate) fn name(&self, frame: &str) -> Option<&str> {
        self.names.get(frame).map(String::as_str)
    }

    pub(crate) fn len(&self) -> usize {
        self.sites.ends.len()
    }

    /// Returns the site of this number; `None` if it is not defined.
    pub(crate) fn site(&self, number: u64) -> Option<SiteId> {
        (number < self.len() as u64).then_some(SiteId(number as u32))
    }

    /// Adds the texts and sites of a frame of definitions.
    pub(crate) fn define(&mut self, contents: &[u8]) -> Result<(), Fault> {
        let mut rest = contents;
        let length = number::take(&mut rest).and_then(|length| usize::try_from(length).ok()).ok_or(Fault::Site)?;
        let (texts, mut lists) = rest.split_at_checked(length).ok_or(Fault::Site)?;
        self.define_texts(texts)?;
        while !lists.is_empty() {
            self.define_site(&mut lists)?;
        }
        Ok(())
    }

    fn define_texts(&mut self, texts: &[u8]) -> Result<(), Fault> {
        let Some((0, _)) = texts.split_last().map(|(&last, rest)| (last, rest)) else {
            return if texts.is_empty() { Ok(()) } else { Err(Fault::Site) };
        };
        for text in texts[..texts.len() - 1].split(|&byte| byte == 0) {
            std::str::from_utf8(text).map_err(|_| Fault::Site)?;
            self.charge(text.len())?;
            self.texts.all.extend_from_slice(text);
            self.texts.end_row();
        }
        Ok(())
    }

    fn define_site(&mut self, lists: &mut &[u8]) -> Result<(), Fault> {
        let length = number::take(lists).filter(|&length| length <= lists.len() as u64).ok_or(Fault::Site)?;
        self.charge(4 * length as usize)?;
        let defined = self.texts.ends.len() as u64;
        for _ in 0..length {
            let frame = number::take(lists).filter(|&frame| frame < defined).ok_or(Fault::Site)?;
            self.sites.all.push(frame as u32);
        }
        self.sites.end_row();
        Ok(())
    }

    fn charge(&mut self, length: usize) -> Result<(), Fault> {
        self.retained += cost(length);
        if self.retained <= LIMIT { Ok(()) } else { Err(Fault::Site) }
    }

    /// Adds the names of a frame of names.
    pub(crate) fn name_frames<'n>(&mut self, names: impl Iterator<Item = (&'n str, &'n str)>) -> Result<(), Fault> {
        for (frame, name) in names {
            self.names_retained += cost(frame.len()) + cost(name.len());
            if self.names_retained > LIMIT {
                return Err(Fault::Texts);
            }
            self.names.insert(frame.to_owned(), name.to_owned());
        }
        Ok(())
    }
}
