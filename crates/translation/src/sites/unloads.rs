//! Code that is unloaded later than the calls that are being read: what the system lists at its addresses now may be
//! another library's.
//!
//! Before a library is unloaded, the process asks for all calls so far to be read, and waits for a while. As long as a
//! question is open, the calls may be older than the list.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use heapwright_stream::Entry;

use crate::stream::Stream;

/// What is known of unloaded code.
pub struct Unloads {
    stream: Arc<Stream>,
    /// The code whose unloading was read, since no question was open.
    passed: Vec<Range<u64>>,
}

impl Unloads {
    pub fn of(stream: Arc<Stream>) -> Unloads {
        Unloads { stream, passed: Vec::new() }
    }

    /// Notes that the unloading of code was read.
    pub fn pass(&mut self, code: &Range<u64>) {
        if self.is_question_open() {
            self.passed.push(code.clone());
        }
    }

    /// Returns the code whose unloading is still to be read. To be asked after the mappings were listed. Of what was
    /// read before the question, some may be among it.
    pub fn pending(&mut self) -> Vec<Range<u64>> {
        let mut pending = Vec::new();
        if !self.is_question_open() {
            self.passed.clear();
            return pending;
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
        pending
    }

    fn is_question_open(&self) -> bool {
        let header = self.stream.header();
        !header.is_answered(header.asked())
    }
}
