//! Stack frames as traces name them: `function file.c:10`, inlined calls as `inner a.c:7 in outer b.c:20`.

use std::fmt;

/// The beginning of the texts of frames of Python functions.
const PYTHON: &str = "python:";

/// A function in a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function's demangled name; the place in the module where no name is known, as `libfoo.so+0x12`.
    pub function: String,
    /// The source file, without folders.
    pub file: Option<String>,
    /// The line of the call in the source file.
    pub line: Option<u32>,
    /// The program or library that contains the code.
    pub module: Option<String>,
}

impl Frame {
    /// Returns the frames of one address, the innermost first: `text` is the address, as in `libfoo.so+0x12`, and
    /// `name` what the trace names there.
    pub fn of(text: &str, name: Option<&str>) -> Vec<Frame> {
        if let (Some(name), true) = (name, text.starts_with(PYTHON)) {
            return vec![Frame { module: Some("python".to_owned()), ..Frame::named(name) }];
        }
        let module = text.rsplit_once("+0x").map(|(module, _)| module.to_owned());
        match name {
            None => vec![Frame { function: text.to_owned(), module, ..Frame::default() }],
            Some(name) => inlined(name).map(|name| Frame { module: module.clone(), ..Frame::named(name) }).collect(),
        }
    }

    /// Returns the frame that a name such as `function file.c:10` describes.
    fn named(name: &str) -> Frame {
        let (function, file, line) = match name.rsplit_once(' ') {
            Some((function, place)) if is_place(place) => {
                let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
                (function, Some(file.to_owned()), line.parse().ok())
            }
            _ => (name, None, None),
        };
        Frame { function: function.to_owned(), file, line, module: None }
    }

    /// Whether it is that of a Python function.
    pub fn is_python(&self) -> bool {
        self.module.as_deref() == Some("python")
    }

    /// Whether its code is CPython's.
    pub fn is_interpreter(&self) -> bool {
        let name = self.module.as_deref().unwrap_or_default();
        let version = name.strip_prefix("libpython").or_else(|| name.strip_prefix("python"));
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Returns the place in the source, as in `file.c:10`.
    pub fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(self.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.function)?;
        match (self.place(), &self.module) {
            (Some(place), _) => write!(out, " {place}"),
            (None, Some(module)) if !self.function.contains("+0x") => write!(out, " ({module})"),
            _ => Ok(()),
        }
    }
}

/// Returns whether a word is a source file, with or without a line, and not the end of a function's name.
fn is_place(word: &str) -> bool {
    let (file, line) = word.rsplit_once(':').unwrap_or((word, "0"));
    let is_file = !file.is_empty() && !file.ends_with(':') && !file.contains(['(', ')', '<', '>', ',', '*', '&']);
    is_file && line.bytes().all(|byte| byte.is_ascii_digit()) && (word.contains(':') || file.contains('.'))
}

/// Returns the names of inlined calls, the innermost first. Only ` in ` behind a place separates them: names of
/// functions may contain it.
fn inlined(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(name);
    std::iter::from_fn(move || {
        let all = rest?;
        let separates = |at: &usize| all[..*at].rsplit_once(' ').is_some_and(|(_, place)| is_place(place));
        let end = all.match_indices(" in ").map(|(at, _)| at).find(separates);
        rest = end.map(|at| &all[at + " in ".len()..]);
        Some(end.map_or(all, |at| &all[..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, name: Option<&str>) -> Vec<String> {
        Frame::of(text, name).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_taken_apart() {
        let frames = Frame::of("a.out+0x10", Some("inner(int, char) a.c:7 in outer<(lambda in f)> b.cpp:20"));
        assert_eq!(frames.len(), 2);
        assert_eq!((frames[0].function.as_str(), frames[0].place().as_deref()), ("inner(int, char)", Some("a.c:7")));
        assert_eq!(frames[1].function, "outer<(lambda in f)>");
        assert_eq!((frames[1].file.as_deref(), frames[1].line), (Some("b.cpp"), Some(20)));
        assert_eq!(frames[1].module.as_deref(), Some("a.out"));
    }

    #[test]
    fn names_without_places_stay_whole() {
        assert_eq!(shown("libc.so.6+0x5", None), ["libc.so.6+0x5"]);
        assert_eq!(shown("libc.so.6+0x5", Some("fopen")), ["fopen (libc.so.6)"]);
        let name = "void* operator new(unsigned long)";
        assert_eq!(shown("x+0x5", Some(name)), [format!("{name} (x)")]);
        assert_eq!(shown("x+0x5", Some("a::b in c::d")), ["a::b in c::d (x)"]);
        assert_eq!(shown("0x7f00", None), ["0x7f00"]);
        assert_eq!(shown("json.py", Some("")), [""]);
    }
}
