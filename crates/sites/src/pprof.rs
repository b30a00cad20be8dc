//! The profile format of pprof, a gzipped protocol buffer
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::analysis::Analysis;
use crate::frame::Frame;
use crate::tally::Tally;

/// A value of a sample: its name, its unit, and how a tally has it.
type Value = (&'static str, &'static str, fn(&Tally) -> u64);

/// The values of a sample. Names are those that Go's profiles use, where they have one.
const VALUES: [Value; 6] = [
    ("alloc_objects", "count", |tally| tally.churn.blocks),
    ("alloc_space", "bytes", |tally| tally.churn.bytes),
    ("inuse_objects", "count", |tally| tally.held.blocks),
    ("inuse_space", "bytes", |tally| tally.held.bytes),
    ("leaked_objects", "count", |tally| tally.live.blocks),
    ("leaked_space", "bytes", |tally| tally.live.bytes),
];

/// The name of the values that pprof shows unless another is chosen.
const USUAL: &str = "inuse_space";

/// Writes the profile of a trace: `inuse` is what was held at the moment of the analysis. Returns the number of stacks.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(analysis: &Analysis, out: impl Write) -> io::Result<u64> {
    let names = analysis.stacks.function_names().into_iter().map(shown).collect();
    let mut profile = Profile { names, ..Profile::default() };
    profile.strings.number("");
    for (name, unit, _) in VALUES {
        let value_type = profile.value_type(name, unit);
        profile.message.bytes(1, &value_type.0);
    }
    let mut stacks = 0;
    for (site, tally) in analysis.sites() {
        profile.add_sample(analysis, analysis.stacks.numbers(site), &tally);
        stacks += 1;
    }
    let usual = profile.strings.number(USUAL);
    profile.message.number(14, usual);
    let mut zipped = GzEncoder::new(out, Compression::default());
    zipped.write_all(&profile.finish().0)?;
    zipped.finish()?.flush()?;
    Ok(stacks)
}

/// Returns a name as pprof shows it: what is in angle brackets it takes for arguments of a template, and removes it.
fn shown(name: String) -> String {
    match name.strip_prefix('<').and_then(|name| name.strip_suffix('>')) {
        Some(inner) if !inner.contains(['<', '>']) => format!("[{inner}]"),
        _ => name,
    }
}

/// A profile under construction.
#[derive(Default)]
struct Profile {
    message: Message,
    strings: Strings,
    /// The name of the function of each frame. Tools add up what functions of one name have, also of several files.
    names: Vec<String>,
    /// Numbers of functions, by name and file.
    functions: HashMap<(u64, u64), u64>,
    /// Whether a frame's location has been written, by the frame's number.
    locations: Vec<bool>,
}

impl Profile {
    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(1, self.strings.number(name));
        message.number(2, self.strings.number(unit));
        message
    }

    fn add_sample(&mut self, analysis: &Analysis, stack: &[u32], tally: &Tally) {
        let mut sample = Message::default();
        for &frame in stack {
            self.add_location(frame, analysis.stacks.frame(frame));
            sample.number(1, u64::from(frame) + 1);
        }
        // A value of 0 has its place, too.
        VALUES.iter().for_each(|(_, _, value)| sample.any_number(2, value(tally)));
        self.message.bytes(2, &sample.0);
    }

    /// Writes the location of a frame unless it has been written.
    fn add_location(&mut self, number: u32, frame: &Frame) {
        let at = number as usize;
        if self.locations.len() <= at {
            self.locations.resize(at + 1, false);
        }
        if std::mem::replace(&mut self.locations[at], true) {
            return;
        }
        let mut line = Message::default();
        line.number(1, self.function(number, frame));
        line.number(2, frame.line.unwrap_or(0).into());
        let mut location = Message::default();
        location.number(1, u64::from(number) + 1);
        location.bytes(4, &line.0);
        self.message.bytes(4, &location.0);
    }

    fn function(&mut self, frame_number: u32, frame: &Frame) -> u64 {
        let name = self.strings.number(&self.names[frame_number as usize]);
        let own = self.strings.number(&frame.function);
        let file = self.strings.number(frame.file.as_deref().or(frame.module.as_deref()).unwrap_or(""));
        let next = self.functions.len() as u64 + 1;
        let number = *self.functions.entry((name, file)).or_insert(next);
        if number == next {
            let mut function = Message::default();
            function.number(1, number);
            function.number(2, name);
            function.number(3, own);
            function.number(4, file);
            self.message.bytes(5, &function.0);
        }
        number
    }

    fn finish(mut self) -> Message {
        self.strings.all.iter().for_each(|text| self.message.bytes(6, text.as_bytes()));
        self.message
    }
}

/// Strings by number.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// A message of protocol buffers: fields, each with its number.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn variable(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Adds a number, unless it is 0, which a missing field means.
    fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.any_number(field, number);
        }
    }

    fn any_number(&mut self, field: u64, number: u64) {
        self.variable(field << 3);
        self.variable(number.min(i64::MAX as u64));
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.variable(field << 3 | 2);
        self.variable(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_angle_brackets_is_not_the_arguments_of_a_template() {
        for (name, expected) in [
            ("<signal>", "[signal]"),
            ("<module>", "[module]"),
            ("<module> a.py", "<module> a.py"),
            ("<A as B<C>>", "<A as B<C>>"),
            ("f<int>", "f<int>"),
            ("<", "<"),
        ] {
            assert_eq!(shown(name.to_owned()), expected);
        }
    }
}
