//! Memory that is analysed: of a live process, or a copy.

pub use heapwright_host::target::{HEAD, PAGE, PageState};

use std::ops::Range;

use heapwright_host::target::Target;

/// Bytes that are read at a time.
const WINDOW: u64 = 64 << 10;

/// The memory of a process.
pub trait Memory {
    /// Copies memory from `address` on; returns whether every byte was known.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// Returns where `count` pages are, from the page that contains `address` on.
    fn pages(&self, address: u64, count: usize) -> Vec<PageState>;

    /// Returns the first [`HEAD`] bytes of pages at `starts`, all in memory, as far as they are known.
    fn heads(&self, starts: &[u64]) -> Vec<(u64, [u8; HEAD])> {
        let head = |&start: &u64| {
            let mut head = [0; HEAD];
            self.read(start, &mut head).then_some((start, head))
        };
        starts.iter().filter_map(head).collect()
    }

    /// Returns the word at `address`.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Returns the words of `range`; what is not in memory is 0.
    fn words(&self, range: &Range<u64>) -> Vec<u64> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        self.read(range.start, &mut bytes);
        bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
    }
}

impl Memory for Target {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        Target::read(self, address, bytes)
    }

    fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        Target::pages(self, address, count)
    }

    fn heads(&self, starts: &[u64]) -> Vec<(u64, [u8; HEAD])> {
        Target::heads(self, starts)
    }
}

/// Returns how many pages `range` has, those included that it has a part of.
pub fn page_count(range: &Range<u64>) -> usize {
    (range.end.div_ceil(PAGE)).saturating_sub(range.start / PAGE) as usize
}

/// Reads words of memory in address order, a window at a time.
pub struct Words<'m, M> {
    memory: &'m M,
    start: u64,
    bytes: Vec<u8>,
    present: Vec<PageState>,
    /// How many windows may still be read: damaged memory must not lead to and fro forever.
    windows: u64,
}

impl<'m, M: Memory> Words<'m, M> {
    /// Returns a reader of `bytes` of memory.
    pub fn new(memory: &'m M, bytes: u64) -> Words<'m, M> {
        let windows = bytes / WINDOW * 4 + 1024;
        Words { memory, start: u64::MAX, bytes: vec![0; WINDOW as usize], present: Vec::new(), windows }
    }

    /// Returns the word at `address`, a multiple of 8, unless its page is not in memory.
    pub fn at(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        if address < self.start || address - self.start >= WINDOW {
            self.windows = self.windows.checked_sub(1)?;
            self.start = address / PAGE * PAGE;
            self.present = self.memory.pages(self.start, (WINDOW / PAGE) as usize);
            self.bytes.fill(0);
            self.fill();
        }
        let at = (address - self.start) as usize;
        if self.present[at / PAGE as usize] != PageState::Present {
            return None;
        }
        Some(u64::from_le_bytes(self.bytes[at..at + 8].try_into().ok()?))
    }

    /// Reads the pages of the window that are in memory. One that cannot be read must not hide those behind it.
    fn fill(&mut self) {
        let mut at = 0;
        for run in self.present.chunk_by_mut(|one, other| one == other) {
            let bytes = &mut self.bytes[at..at + run.len() * PAGE as usize];
            let start = self.start + at as u64;
            at += bytes.len();
            if run[0] != PageState::Present || self.memory.read(start, bytes) {
                continue;
            }
            let pages = bytes.chunks_exact_mut(PAGE as usize).zip((start..).step_by(PAGE as usize));
            for ((page, address), state) in pages.zip(run) {
                if !self.memory.read(address, page) {
                    *state = PageState::Absent;
                }
            }
        }
    }
}
