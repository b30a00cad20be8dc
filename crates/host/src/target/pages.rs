//! Where the pages of another process are.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a page of the machines whose processes can be read.
pub const PAGE: u64 = 4096;

/// Bit of a page map's entry: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// Bit of a page map's entry: the page is in swap.
const SWAPPED: u64 = 1 << 62;

/// Where a page of another process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// In memory.
    Present,
    /// In swap.
    Swapped,
    /// Nowhere: it was never touched, or was given back.
    Absent,
}

/// The page map of a process, of the program that it runs when the map is opened.
pub struct PageMap(File);

impl PageMap {
    /// Opens the page map of the process that thread `id` belongs to.
    ///
    /// # Errors
    /// When there is no such thread, the system has no page maps or pages of another length, or this process is not
    /// permitted to read it.
    pub fn open(id: u32) -> io::Result<PageMap> {
        if heapwright_os::page_size() as u64 != PAGE {
            return Err(io::ErrorKind::Unsupported.into());
        }
        File::open(format!("/proc/{id}/pagemap")).map(PageMap)
    }

    /// Returns where `count` pages are, from the page that contains `address` on. Those that are not mapped are absent.
    pub fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        let mut entries = vec![0; count * 8];
        let mut read = 0;
        while let Ok(more @ 1..) = self.0.read_at(&mut entries[read..], address / PAGE * 8 + read as u64) {
            read += more;
        }
        entries.as_chunks().0.iter().map(|&entry| state(u64::from_ne_bytes(entry))).collect()
    }

    /// Splits `range` into the longest parts whose pages are all in one state.
    pub fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, PageState)> {
        let first = range.start / PAGE * PAGE;
        let pages = self.pages(first, range.end.saturating_sub(first).div_ceil(PAGE) as usize);
        let mut at = first;
        let part = |run: &[PageState]| {
            let start = at;
            at += run.len() as u64 * PAGE;
            (start.max(range.start)..at.min(range.end), run[0])
        };
        pages.chunk_by(|one, other| one == other).map(part).collect()
    }
}

fn state(entry: u64) -> PageState {
    match entry {
        entry if entry & PRESENT != 0 => PageState::Present,
        entry if entry & SWAPPED != 0 => PageState::Swapped,
        _ => PageState::Absent,
    }
}
