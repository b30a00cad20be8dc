//! The maps of perf: files in which just-in-time compilers name the code that they make, a line per function.
//!
//! ```text
//! 7feac4006500 10c JS:^work /app/index.js:2:22
//! ```
//!
//! A line has the beginning and the length in hexadecimal, and the name (`tools/perf/Documentation/jit-interface.txt`
//! of Linux). Code is moved and replaced: what a later line names takes the place of what earlier ones named there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Short;

/// The names of code at some addresses.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    addresses: BTreeSet<u64>,
    /// Functions with any of the addresses, by the beginning: the end and the name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// Returns a map that is to name the code at these addresses; it has no lines yet.
    ///
    /// # Examples
    /// ```
    /// use heapwright_names::PerfMap;
    ///
    /// let mut map = PerfMap::at([0x101f, 0x1020, 0x1028]);
    /// map.add_line(b"1000 20 JS:^work /app/index.js:2:22");
    /// map.add_line(b"1020 8 Stub:add");
    /// assert_eq!(map.name(0x101f), Some("work index.js:2"));
    /// assert_eq!(map.name(0x1020), Some("Stub:add"));
    /// assert_eq!(map.name(0x1028), None);
    /// ```
    pub fn at(addresses: impl IntoIterator<Item = u64>) -> PerfMap {
        PerfMap { addresses: addresses.into_iter().collect(), functions: BTreeMap::new() }
    }

    /// Reads the next line of a file. A line that is wrong is passed over.
    pub fn add_line(&mut self, line: &[u8]) {
        if let Some((code, name)) = function(line) {
            self.add(code, name);
        }
    }

    /// Returns where the function of a line begins and ends; `None` if the line is wrong.
    pub fn range(line: &[u8]) -> Option<Range<u64>> {
        function(line).map(|(code, _)| code)
    }

    /// Returns the name of the function that contains one of the addresses.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// Adds a function with any of the addresses, and removes those whose code it overwrites.
    fn add(&mut self, code: Range<u64>, name: &[u8]) {
        let overwritten = |functions: &BTreeMap<u64, (u64, String)>| {
            let (&start, (end, _)) = functions.range(..code.end).next_back()?;
            (*end > code.start).then_some(start)
        };
        while let Some(start) = overwritten(&self.functions) {
            self.functions.remove(&start);
        }
        if self.addresses.range(code.clone()).next().is_some() {
            self.functions.insert(code.start, (code.end, named(&String::from_utf8_lossy(name))));
        }
    }
}

/// Reads a line: where the code is, and the name.
fn function(line: &[u8]) -> Option<(Range<u64>, &[u8])> {
    let mut fields = line.trim_ascii().splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let digits = str::from_utf8(fields.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let (start, length) = (number()?, number()?);
    let name = fields.next().map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())?;
    Some((start..start.checked_add(length).filter(|&end| end > start)?, name))
}

/// Returns a name as others are shown. V8's have the kind of code in front, and the path, the line and the column
/// behind: `JS:^work /app/index.js:2:22` is `work index.js:2`.
fn named(name: &str) -> String {
    let of_script = || {
        let name = ["JS:", "LazyCompile:", "Function:", "Script:"].iter().find_map(|kind| name.strip_prefix(kind))?;
        let (function, place) = name.trim_start_matches(['~', '^', '+', '*']).rsplit_once(' ')?;
        let mut parts = place.rsplitn(3, ':');
        let (column, line, path) = (parts.next()?, parts.next()?, parts.next()?);
        column.parse::<u32>().ok()?;
        line.parse::<u32>().ok()?;
        let function = if function.is_empty() { "(anonymous)" } else { function };
        Some(format!("{function} {}:{line}", path.rsplit('/').next().unwrap_or(path)))
    };
    Short::of(&of_script().unwrap_or_else(|| name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(addresses: &[u64], text: &[u8]) -> PerfMap {
        let mut map = PerfMap::at(addresses.iter().copied());
        text.split(|&byte| byte == b'\n').for_each(|line| map.add_line(line));
        map
    }

    #[test]
    fn later_functions_take_the_place_of_earlier_ones() {
        let addresses = [0x10, 0x17, 0x18, 0x27, 0x28, 0x30, 0x3f, 0x40];
        let map = map(&addresses, b"10 10 a\n20 10 b\n30 10 c\n18 10 d\n");
        let names = addresses.map(|address| map.name(address));
        assert_eq!(names, [None, None, Some("d"), Some("d"), None, Some("c"), Some("c"), None]);
    }

    #[test]
    fn only_functions_that_are_asked_for_take_memory() {
        // The second overwrites the first and is not asked for itself.
        let map = map(&[0x10, 0x40], b"10 10 a\n18 10 b\n40 8 c\n50 8 d\n");
        assert_eq!((map.functions.len(), map.name(0x10), map.name(0x40)), (1, None, Some("c")));
    }

    #[test]
    fn lines_that_are_wrong_are_passed_over() {
        let wrong = b"\n10\n10 x a\n10 0 a\n10 8 \nffffffffffffffff 8 a\n0x10 0x8 good name\n\xff\xfe";
        assert_eq!(map(&[0x10], wrong).name(0x10), Some("good name"));
    }

    #[test]
    fn names_of_scripts_have_file_and_line() {
        for (name, expected) in [
            ("JS:~outer /tmp/n.js:3:15", "outer n.js:3"),
            ("JS:* file:///a/b/m.mjs:1:1", "(anonymous) m.mjs:1"),
            ("LazyCompile:*Foo.bar node:fs:10:2", "Foo.bar node:fs:10"),
            ("JS:^nowhere", "JS:^nowhere"),
            ("Builtin:Call", "Builtin:Call"),
            ("void [Lib] A::B(int)[Tier0]", "void [Lib] A::B(int)[Tier0]"),
        ] {
            assert_eq!(named(name), expected);
        }
    }
}
