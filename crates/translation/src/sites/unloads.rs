//! Code that is unloaded later than the calls that are being read: what the system lists at its addresses now may be
//! another library's.
//!
//! Before a library is unloaded, the process asks for all calls so far to be read, and waits for a while. As long as a
//! question is open, the calls may be older than the list.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use heapwright_stream::{Entry, Mapping};

use crate::stream::Stream;

/// What is known of unloaded code.
pub struct Unloads {
    stream: Arc<Stream>,
    /// The code whose unloading was read, since no question was open.
    passed: Vec<Range<u64>>,
    /// Mappings that may have come later than the calls that were read when they were found.
    doubted: Vec<Doubted>,
    /// What was pending since the last of them was found, for as many questions and passed ones.
    scanned: Option<(u64, usize, Pending)>,
}

impl Unloads {
    pub fn of(stream: Arc<Stream>) -> Unloads {
        Unloads { stream, passed: Vec::new(), doubted: Vec::new(), scanned: None }
    }

    /// Notes that the unloading of code was read.
    pub fn pass(&mut self, code: &Range<u64>) {
        if self.is_question_open() {
            self.passed.push(code.clone());
        }
    }

    /// Keeps a mapping that may have come later than the calls that are read next.
    pub fn doubt(&mut self, mapping: &Mapping<'_>) {
        let mapping = Doubted::of(mapping);
        if mapping.is_executable && !self.doubted.contains(&mapping) {
            self.doubted.push(mapping);
            self.scanned = None;
        }
    }

    /// Calls `visit` for the mappings that are not in doubt any more. Returns whether any is left.
    pub fn each_certain(&mut self, visit: &mut dyn FnMut(&Mapping<'_>)) -> bool {
        if !self.doubted.is_empty() {
            let now = (self.stream.header().asked(), self.passed.len());
            let is_open = self.is_question_open();
            let known = self.scanned.take_if(|known| is_open && (known.0, known.1) == now);
            let pending = known.map_or_else(|| self.pending(), |(.., pending)| pending);
            let is_certain = |mapping: &mut Doubted| !pending.concerns(&mapping.range);
            self.doubted.extract_if(.., is_certain).for_each(|mapping| visit(&mapping.borrow()));
            self.scanned = Some((now.0, now.1, pending));
        }
        !self.doubted.is_empty()
    }

    /// Returns the code whose unloading is still to be read. To be asked after the mappings were listed. Of what was
    /// read before the question, some may be among it.
    pub fn pending(&mut self) -> Pending {
        let mut pending = Vec::new();
        if !self.is_question_open() {
            self.passed.clear();
            return Pending(pending);
        }
        let _all = self.stream.each_entry(|_, _, entry| {
            if let Entry::Unmapped { start, length } = entry {
                pending.push(start..start.saturating_add(length));
            }
            ControlFlow::Continue(())
        });
        for code in &self.passed {
            if let Some(at) = pending.iter().position(|other| other == code) {
                pending.swap_remove(at);
            }
        }
        Pending(pending)
    }

    /// Whether calls may be older than what is known of the mappings.
    pub fn is_question_open(&self) -> bool {
        let header = self.stream.header();
        !header.is_answered(header.asked())
    }
}

/// Code whose unloading is still to be read.
pub struct Pending(Vec<Range<u64>>);

impl Pending {
    /// Whether what is mapped at these addresses may have come later than the calls that are read next.
    pub fn concerns(&self, range: &Range<usize>) -> bool {
        let (start, end) = (range.start as u64, range.end as u64);
        self.0.iter().any(|code| start < code.end && code.start < end)
    }
}

/// A mapping, with its path.
#[derive(PartialEq, Eq)]
struct Doubted {
    range: Range<usize>,
    is_executable: bool,
    offset: u64,
    file: u32,
    path: Vec<u8>,
}

impl Doubted {
    fn of(mapping: &Mapping<'_>) -> Doubted {
        let &Mapping { ref range, is_executable, offset, file, path, .. } = mapping;
        Doubted { range: range.clone(), is_executable, offset, file, path: path.to_owned() }
    }

    fn borrow(&self) -> Mapping<'_> {
        let &Doubted { ref range, is_executable, offset, file, ref path } = self;
        Mapping { range: range.clone(), is_executable, is_guard: false, offset, file, path }
    }
}
