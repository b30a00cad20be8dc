//! Functions of which debug information has only the last part of the name: GCC's that are local to a file, where they
//! are inlined. Elsewhere the symbol has the whole name, with its namespaces and parameters.

use std::collections::HashMap;

use crate::frame::Frame;
use crate::internal::path;

/// Whole names by the last part, and by the file that the functions are in: more than one are in doubt.
pub struct WholeNames<'f> {
    by_part: HashMap<(String, &'f str), Vec<Whole<'f>>>,
}

/// A whole name, and its module.
type Whole<'f> = (&'f str, Option<&'f str>);

impl<'f> WholeNames<'f> {
    /// Returns the whole names among the functions of some frames.
    pub fn of(frames: impl Iterator<Item = &'f Frame>) -> WholeNames<'f> {
        let mut by_part: HashMap<_, Vec<Whole<'f>>> = HashMap::new();
        for frame in frames.filter(|frame| frame.function.contains('(')) {
            let Some(file) = frame.file.as_deref() else { continue };
            let path = path(&frame.function);
            let part = path.rsplit("::").next().unwrap_or_default().to_owned();
            let whole = (frame.function.as_str(), frame.module.as_deref());
            let wholes = by_part.entry((part, file)).or_default();
            if !wholes.contains(&whole) {
                wholes.push(whole);
            }
        }
        WholeNames { by_part }
    }

    /// Returns the whole name of a function of which a part is known, if there is just one in its file; of the frame's
    /// own module if `in_module`.
    pub fn name_of(&self, frame: &Frame, in_module: InModule) -> Option<&'f str> {
        let part = frame.function.as_str();
        if part.contains(['(', ' ', ':']) {
            return None;
        }
        let own = part.split('<').next().unwrap_or(part);
        let wholes = self.by_part.get(&(own.to_owned(), frame.file.as_deref()?))?;
        let mut fitting = wholes.iter().filter(|(whole, module)| {
            let is_there = in_module == InModule::Any || *module == frame.module.as_deref();
            is_there && (own == part || whole.contains(part))
        });
        let (whole, _) = fitting.next()?;
        fitting.all(|(other, _)| other == whole).then_some(whole)
    }
}

/// Where a whole name may come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InModule {
    /// From the same program or library.
    Same,
    /// From any: another build of it may have another name.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str) -> Frame {
        Frame::of("p+0x1", Some(name)).swap_remove(0)
    }

    #[test]
    fn a_part_is_completed_where_that_is_certain() {
        let known = [
            "load(std::vector<void*>&, int) a.cpp:4",
            "(anonymous namespace)::S::get(int) const a.cpp:7",
            "two(int) a.cpp:8",
            "two(char) a.cpp:9",
            "ns::one(int) a.cpp:8",
            "void make<int>(int) a.cpp:1",
            "void make<char>(char) a.cpp:1",
        ];
        let known = known.map(frame);
        let names = WholeNames::of(known.iter());
        let whole = |name: &str| names.name_of(&frame(name), InModule::Same);
        assert_eq!(whole("load a.cpp:5"), Some("load(std::vector<void*>&, int)"));
        assert_eq!(whole("get a.cpp:5"), Some("(anonymous namespace)::S::get(int) const"));
        assert_eq!(whole("one a.cpp:5"), Some("ns::one(int)"));
        assert_eq!(whole("make<int> a.cpp:1"), Some("void make<int>(int)"));
        for unclear in ["two a.cpp:8", "load b.cpp:5", "other a.cpp:1", "load", "load(int) a.cpp:4"] {
            assert_eq!(whole(unclear), None, "{unclear}");
        }
        let elsewhere = Frame { module: Some("q".to_owned()), ..frame("load a.cpp:5") };
        assert_eq!(names.name_of(&elsewhere, InModule::Same), None);
        assert!(names.name_of(&elsewhere, InModule::Any).is_some());
    }
}
