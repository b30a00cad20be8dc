//! The tables of memray (`memray transform csv`), one row per call stack, allocator and thread:
//!
//! ```text
//! allocator,num_allocations,size,tid,thread_name,stack_trace
//! MALLOC,2,128,1,MainThread (0x1),inner;/a/b.py;7|outer;/a/b.py;20
//! ```
//!
//! A table has the allocations that were live at the peak, or that were not freed (`--leaks`).

use std::collections::HashSet;
use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::limits::DEEPEST;
use super::lines::{Line, cut, file_name};
use super::snapshot::{Blocks, Snapshot};
use crate::event::Kind;

/// The first line of a table.
pub(super) const HEADING: &str = "allocator,num_allocations,size,tid,thread_name,stack_trace";

/// The memory limit of the names of frames, in bytes.
const LIMIT: usize = 64 << 20;

/// The rows read so far.
#[derive(Default)]
pub(super) struct Memray {
    snapshot: Snapshot,
    /// Frames that have a name.
    named: HashSet<String>,
    retained: usize,
}

impl Memray {
    pub(super) fn read<W: Write>(&mut self, line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        if line == HEADING {
            Snapshot::describe("memray", ledger)?;
            return Ok(Line::PassedOver);
        }
        if line.is_empty() {
            return Ok(Line::PassedOver);
        }
        let fields = fields(line);
        let Some([allocator, count, size, thread, _name, stack]) = &fields else {
            return Ok(Line::NotUnderstood);
        };
        let (Ok(count), Ok(bytes), Ok(thread)) = (count.parse(), size.parse(), thread.parse()) else {
            return Ok(Line::NotUnderstood);
        };
        let kind = if allocator.ends_with("CALLOC") { Kind::Calloc } else { Kind::Malloc };
        ledger.in_thread(thread);
        let site = self.site(stack, ledger)?;
        self.snapshot.add(&Blocks { kind, count, bytes }, site, ledger)
    }

    fn site<W: Write>(
        &mut self,
        stack: &str,
        ledger: &mut Ledger<'_, W>,
    ) -> Result<Option<crate::sites::SiteId>, ImportError> {
        let mut texts = Vec::new();
        for frame in stack.split('|').filter(|frame| !frame.is_empty()).take(DEEPEST) {
            let Some((text, name)) = described(frame) else { continue };
            if !self.named.contains(&text) {
                ledger.name_frame(&text, &name)?;
                self.retained += text.len() + 64;
                if self.retained > LIMIT {
                    return Err(ImportError::TooMuch { what: "stack frames" });
                }
                self.named.insert(text.clone());
            }
            texts.push(text);
        }
        if texts.is_empty() {
            return Ok(None);
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        ledger.define_site(&texts)
    }
}

/// Returns the text and the name of a frame, `function;file;line`, as recordings of Python have them.
fn described(frame: &str) -> Option<(String, String)> {
    let (rest, line) = frame.rsplit_once(';')?;
    let (function, path) = rest.split_once(';')?;
    let line: u64 = line.parse().ok()?;
    let (function, path) = (cut(function), cut(path));
    let file = file_name(path).replace(['<', '>'], "").replace(' ', "-");
    let origin = if path.ends_with(".py") || path.starts_with('<') { "python:" } else { "" };
    Some((format!("{origin}{path}:{function}:{line}"), format!("{function} {file}:{line}")))
}

/// Returns the fields of a row; a field in quotation marks may contain commas, and twice a quotation mark.
fn fields(line: &str) -> Option<[String; 6]> {
    let mut fields = Vec::with_capacity(6);
    let mut rest = Some(line);
    while let Some(text) = rest.take() {
        if fields.len() == 6 {
            return None;
        }
        let mut field = String::new();
        let behind = match text.strip_prefix('"') {
            None => {
                let end = text.find(',').unwrap_or(text.len());
                field.push_str(&text[..end]);
                &text[end..]
            }
            Some(mut quoted) => loop {
                let (part, behind) = quoted.split_once('"')?;
                field.push_str(part);
                match behind.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        quoted = more;
                    }
                    None => break behind,
                }
            },
        };
        fields.push(field);
        rest = match behind.strip_prefix(',') {
            Some(next) => Some(next),
            None if behind.is_empty() => None,
            None => return None,
        };
    }
    fields.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_are_read() {
        let read = |line| fields(line).map(|fields| fields.join("~"));
        assert_eq!(read("a,1,2,3,n,s").as_deref(), Some("a~1~2~3~n~s"));
        assert_eq!(read(r#"a,1,2,3,"n, ""x""",s"#).as_deref(), Some("a~1~2~3~n, \"x\"~s"));
        assert_eq!(read("a,1,2,3,n,").as_deref(), Some("a~1~2~3~n~"));
        for wrong in ["a,1,2,3,n", "a,1,2,3,n,s,t", r#"a,1,2,3,"n,s"#, r#"a,1,2,3,"n"x,s"#, ""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn frames_are_named_as_in_recordings() {
        let (text, name) = described("run;/a b/x y.py;7").unwrap();
        assert_eq!((text.as_str(), name.as_str()), ("python:/a b/x y.py:run:7", "run x-y.py:7"));
        assert_eq!(described("f;<frozen os>;3").unwrap().1, "f frozen-os:3");
        assert_eq!(described("f;g.c;3").unwrap().0, "g.c:f:3");
        assert_eq!(described("f;g.py"), None);
    }
}
