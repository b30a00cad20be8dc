//! Stack frames as traces name them: `function file.c:10`, inlined calls as `inner a.c:7 in outer b.c:20`.

use std::fmt;

/// The beginning of the texts of frames of Python functions.
const PYTHON: &str = "python:";

/// What is shown where neither a file nor a module is known.
const UNKNOWN: &str = "(unknown)";

/// A function in a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function's demangled name; the place in the module where no name is known, as `libfoo.so+0x12`.
    pub function: String,
    /// The source file, without folders.
    pub file: Option<String>,
    /// The source file with its folders, where the trace has them: of Python functions.
    pub path: Option<String>,
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
            return vec![Frame { module: Some("python".to_owned()), path: path_of(text), ..Frame::named(name) }];
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
        Frame { function: function.to_owned(), file, line, ..Frame::default() }
    }

    /// Returns what a row of these blocks is named by when it is for a file, not for a function.
    pub fn without_function(&self) -> Frame {
        match (&self.file, &self.module) {
            (Some(_), _) => Frame { function: String::new(), line: None, module: None, ..self.clone() },
            (None, module) => {
                Frame { function: module.clone().unwrap_or_else(|| UNKNOWN.to_owned()), ..Frame::default() }
            }
        }
    }

    /// Returns the frame for all lines of its function. Functions without a name of their own, such as lambdas, keep
    /// the line: nothing else tells two of a file apart.
    pub fn whole_function(&self) -> Frame {
        Frame { line: self.line.filter(|_| self.is_nameless()), ..self.clone() }
    }

    /// Whether its function has no name, only an address.
    pub fn is_nameless_address(&self) -> bool {
        self.function.contains("+0x") && self.file.is_none()
    }

    /// Whether its name is one that many functions have: that of a lambda or a closure.
    fn is_nameless(&self) -> bool {
        let name = self.function.as_str();
        let of_python = self.is_python() && name.ends_with('>') && name != "<module>";
        of_python || name == "operator()" || name == "(anonymous)" || name.ends_with("{{closure}}")
    }

    /// Drops each part that another frame of the same function has otherwise.
    pub fn keep_common(&mut self, other: &Frame) {
        let common = self.path.as_deref().zip(other.path.as_deref()).and_then(|(one, other)| common_end(one, other));
        self.path = common.map(str::to_owned);
        let Frame { file, line, module, .. } = self;
        line.take_if(|line| Some(*line) != other.line);
        module.take_if(|module| Some(&*module) != other.module.as_ref());
        if file.take_if(|file| Some(&*file) != other.file.as_ref()).is_some() {
            *line = None;
        }
    }

    /// Returns the last `parts` names of the file's path; all if there are fewer.
    pub fn end_of_path(&self, parts: usize) -> Option<&str> {
        let path = self.path.as_ref().or(self.file.as_ref())?;
        let start = path.rmatch_indices('/').nth(parts.saturating_sub(1)).map_or(0, |(at, _)| at + 1);
        Some(&path[start..])
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
        self.place_in(self.file.as_deref())
    }

    fn place_in(&self, file: Option<&str>) -> Option<String> {
        let file = file?;
        Some(self.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
    }

    /// Returns the frame as it is shown with the last `parts` names of the file's path, and with the module.
    pub fn shown_with_path(&self, parts: usize) -> String {
        let place = self.place_in(self.end_of_path(parts));
        match &self.module {
            Some(module) if !self.is_python() && !self.function.contains("+0x") => {
                joined([self.function.as_str(), place.as_deref().unwrap_or(""), &format!("({module})")])
            }
            _ => joined([self.function.as_str(), place.as_deref().unwrap_or(""), ""]),
        }
    }
}

/// Returns the end that two paths have in common, if more than the name of the file.
fn common_end<'p>(one: &'p str, other: &str) -> Option<&'p str> {
    if one == other {
        return Some(one);
    }
    let ends = one.rmatch_indices('/').map(|(at, _)| &one[at + 1..]);
    let is_end = |end: &&str| other.strip_suffix(*end).is_some_and(|start| start.is_empty() || start.ends_with('/'));
    ends.take_while(is_end).last().filter(|end| end.contains('/'))
}

/// Joins words with blanks, those that are empty left out.
fn joined(words: [&str; 3]) -> String {
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the path in the text of a Python function, `python:/a/b.py:function:10`, if it has folders.
fn path_of(text: &str) -> Option<String> {
    let path = text.strip_prefix(PYTHON)?.rsplitn(3, ':').nth(2)?;
    path.contains('/').then(|| path.to_owned())
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.function)?;
        match (self.place(), &self.module) {
            (Some(place), _) if self.function.is_empty() => out.write_str(&place),
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
    fn frames_keep_what_they_have_in_common() {
        let python = |path: &str| Frame::of(&format!("python:{path}:load:7"), Some("load a.py:7")).swap_remove(0);
        let common = |one: &str, other: &str| {
            let mut frame = python(one);
            frame.keep_common(&python(other));
            frame.path
        };
        assert_eq!(common("/x/lib/b/a.py", "/y/b/a.py").as_deref(), Some("b/a.py"));
        assert_eq!(common("/x/b/a.py", "/y/xb/a.py"), None);
        assert_eq!(common("/x/b/a.py", "/x/b/a.py").as_deref(), Some("/x/b/a.py"));
        assert_eq!(common("b/a.py", "/y/b/a.py"), None);
        let mut frame = Frame::of("p+0x1", Some("f a.c:7")).swap_remove(0);
        frame.keep_common(&Frame::of("q+0x1", Some("f a.c:8"))[0]);
        assert_eq!(frame.to_string(), "f a.c");
        frame.keep_common(&Frame::of("q+0x1", Some("f b.c:8"))[0]);
        assert_eq!(frame.to_string(), "f");
    }

    #[test]
    fn functions_without_a_name_of_their_own_keep_the_line() {
        let line = |text: &str, name: &str| Frame::of(text, Some(name))[0].whole_function().line;
        for (text, name, expected) in [
            ("p+0x1", "work a.c:7", None),
            ("p+0x1", "main::{lambda()#1}::operator()() const a.cpp:7", None),
            ("p+0x1", "operator() a.cpp:7", Some(7)),
            ("p+0x1", "main::{{closure}} a.rs:7", Some(7)),
            ("python:/x/a.py:<module>:7", "<module> a.py:7", None),
            ("python:/x/a.py:work:7", "work a.py:7", None),
            ("python:/x/a.py:f.<locals>.<lambda>:7", "f.<locals>.<lambda> a.py:7", Some(7)),
        ] {
            assert_eq!(line(text, name), expected, "{name}");
        }
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
