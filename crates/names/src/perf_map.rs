//! The maps of perf: files in which just-in-time compilers name the code that they make, a line per function.
//!
//! ```text
//! 7feac4006500 10c JS:^work /app/index.js:2:22
//! ```
//!
//! A line has the beginning and the length in hexadecimal, and the name (`tools/perf/Documentation/jit-interface.txt`
//! of Linux). Code is moved and replaced: what a later line names takes the place of what earlier ones named there.

use std::collections::BTreeMap;

use super::Short;

/// The limit of functions.
const MOST: usize = 1 << 20;

/// Names of code by address.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    /// By the beginning: the end and the name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// Reads the lines of a map, up to 2²⁰ functions. Lines that are wrong are passed over.
    ///
    /// # Examples
    /// ```
    /// use heapwright_names::PerfMap;
    ///
    /// let map = PerfMap::of(b"1000 20 JS:^work /app/index.js:2:22\n1020 8 Stub:add\n");
    /// assert_eq!(map.name(0x101f), Some("work index.js:2"));
    /// assert_eq!(map.name(0x1020), Some("Stub:add"));
    /// assert_eq!(map.name(0x1028), None);
    /// ```
    pub fn of(text: &[u8]) -> PerfMap {
        let mut map = PerfMap::default();
        for line in text.split(|&byte| byte == b'\n') {
            if let Some((start, end, name)) = function(line)
                && map.functions.len() < MOST
            {
                map.add(start, end, name);
            }
        }
        map
    }

    /// Returns where the functions of a map begin and end, by line, those of wrong lines left out.
    pub fn ranges(text: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        text.split(|&byte| byte == b'\n').filter_map(function).map(|(start, end, _)| (start, end))
    }

    /// Returns the name of the function that contains an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// Adds a function, and removes those whose code it overwrites.
    fn add(&mut self, start: u64, end: u64, name: String) {
        while let Some((&other, _)) = self.functions.range(..end).next_back().filter(|(_, (last, _))| *last > start) {
            self.functions.remove(&other);
        }
        self.functions.insert(start, (end, name));
    }
}

/// Reads a line: the beginning, the end and the name.
fn function(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.trim().splitn(3, ' ');
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    let (start, length) = (number()?, number()?);
    let name = fields.next().map(str::trim).filter(|name| !name.is_empty())?;
    Some((start, start.checked_add(length).filter(|&end| end > start)?, named(name)))
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

    #[test]
    fn later_functions_take_the_place_of_earlier_ones() {
        let map = PerfMap::of(b"10 10 a\n20 10 b\n30 10 c\n18 10 d\n");
        let names = [0x10, 0x17, 0x18, 0x27, 0x28, 0x30, 0x3f, 0x40].map(|address| map.name(address));
        assert_eq!(names, [None, None, Some("d"), Some("d"), None, Some("c"), Some("c"), None]);
    }

    #[test]
    fn lines_that_are_wrong_are_passed_over() {
        let map = PerfMap::of(b"\n10\n10 x a\n10 0 a\n10 8 \nffffffffffffffff 8 a\n0x10 0x8 good name\n\xff\xfe");
        assert_eq!((map.functions.len(), map.name(0x10)), (1, Some("good name")));
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
