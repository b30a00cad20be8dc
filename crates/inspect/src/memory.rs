//! Memory that is analysed: of a live process, or a copy.

pub use heapwright_host::target::{PAGE, PageState};

use heapwright_host::target::Target;

/// Bytes that are read at a time.
const WINDOW: u64 = 64 << 10;

/// The memory of a process.
pub trait Memory {
    /// Copies memory from `address` on; returns whether every byte was known.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// Returns where `count` pages are, from the page that contains `address` on.
    fn pages(&self, address: u64, count: usize) -> Vec<PageState>;

    /// Returns the word at `address`.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}

impl Memory for Target {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        Target::read(self, address, bytes)
    }

    fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        Target::pages(self, address, count)
    }
}

/// A copy of parts of a process's memory.
#[derive(Default)]
pub struct Image {
    /// In address order, without overlaps.
    parts: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// Adds a part, behind all others.
    pub fn push(&mut self, address: u64, bytes: Vec<u8>) {
        debug_assert!(self.parts.last().is_none_or(|(start, bytes)| start + bytes.len() as u64 <= address));
        self.parts.push((address, bytes));
    }

    /// Returns the part that contains `address`, from there on.
    fn part(&self, address: u64) -> Option<&[u8]> {
        let behind = self.parts.partition_point(|(start, _)| *start <= address);
        let (start, bytes) = self.parts.get(behind.checked_sub(1)?)?;
        bytes.get(usize::try_from(address - start).ok()?..).filter(|rest| !rest.is_empty())
    }
}

impl Memory for Image {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let mut done = 0;
        while done < bytes.len() {
            let Some(part) = address.checked_add(done as u64).and_then(|at| self.part(at)) else { return false };
            let length = part.len().min(bytes.len() - done);
            bytes[done..done + length].copy_from_slice(&part[..length]);
            done += length;
        }
        true
    }

    fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        let state = |page: usize| match self.part(address / PAGE * PAGE + page as u64 * PAGE) {
            Some(_) => PageState::Present,
            None => PageState::Absent,
        };
        (0..count).map(state).collect()
    }
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
            let mut at = 0;
            for run in self.present.chunk_by(|one, other| one == other) {
                let end = at + run.len() * PAGE as usize;
                if run[0] == PageState::Present {
                    self.memory.read(self.start + at as u64, &mut self.bytes[at..end]);
                }
                at = end;
            }
        }
        let at = (address - self.start) as usize;
        if self.present[at / PAGE as usize] != PageState::Present {
            return None;
        }
        Some(u64::from_le_bytes(self.bytes[at..at + 8].try_into().ok()?))
    }
}
