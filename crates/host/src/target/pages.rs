//! Where the pages of another process are.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use heapwright_os::{ForeignError, page_size, read_foreign};

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
        if page_size() as u64 != PAGE {
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

/// Reads `count` bytes at `address` of process `pid`, with zeroes for pages that are not in memory: they are not
/// touched. Returns whether nothing of it is in swap. Where the system has no page maps, every page is read.
///
/// # Errors
/// When the process has ended or cannot be read.
pub fn read_present(pid: u32, address: u64, count: usize) -> Result<(Vec<u8>, bool), ForeignError> {
    let range = address..address.checked_add(count as u64).ok_or(ForeignError::Unmapped)?;
    let parts = match PageMap::open(pid) {
        Ok(map) => map.parts(range),
        Err(_) => vec![(range, PageState::Present)],
    };
    if parts.iter().all(|(_, state)| *state == PageState::Absent) {
        check_life(pid)?;
    }
    let mut bytes = vec![0; count];
    for (part, _) in parts.iter().filter(|(_, state)| *state == PageState::Present) {
        copy(pid, part.start, &mut bytes[(part.start - address) as usize..(part.end - address) as usize])?;
    }
    Ok((bytes, parts.iter().all(|(_, state)| *state != PageState::Swapped)))
}

/// Copies memory that is present.
pub(super) fn copy(pid: u32, address: u64, bytes: &mut [u8]) -> Result<(), ForeignError> {
    let start = usize::try_from(address).map_err(|_| ForeignError::Unmapped)?;
    let mut done = 0;
    while done < bytes.len() {
        match read_foreign(pid, start + done, &mut bytes[done..])? {
            0 => return Err(ForeignError::Unmapped),
            more => done += more,
        }
    }
    Ok(())
}

/// The page map of a process that has ended is empty. No process has memory at address 1.
fn check_life(pid: u32) -> Result<(), ForeignError> {
    match read_foreign(pid, 1, &mut [0]) {
        Err(error @ (ForeignError::Gone | ForeignError::Denied)) => Err(error),
        _ => Ok(()),
    }
}

fn state(entry: u64) -> PageState {
    match entry {
        entry if entry & PRESENT != 0 => PageState::Present,
        entry if entry & SWAPPED != 0 => PageState::Swapped,
        _ => PageState::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;

    /// Returns four pages of which the second is touched.
    fn four_pages() -> (Pages, u64) {
        let pages = Pages::map(4 * PAGE as usize).unwrap();
        // SAFETY: the page is mapped and belongs to this test.
        unsafe { pages.start().add(PAGE as usize).write(7) };
        let start = pages.start().as_ptr().addr() as u64;
        (pages, start)
    }

    fn states(start: u64) -> Vec<PageState> {
        PageMap::open(std::process::id()).unwrap().pages(start, 4)
    }

    #[test]
    fn pages_that_were_never_touched_are_zeroes_and_stay_so() {
        use PageState::{Absent, Present};
        let (_pages, start) = four_pages();
        let (bytes, complete) = read_present(std::process::id(), start + 8, 3 * PAGE as usize).unwrap();
        let touched: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        assert_eq!((touched, bytes.len(), complete), (vec![PAGE as usize - 8], 3 * PAGE as usize, true));
        assert_eq!(states(start), [Absent, Present, Absent, Absent]);
    }

    #[test]
    fn what_is_in_swap_stays_there() {
        let (pages, start) = four_pages();
        // SAFETY: the pages are mapped; their contents stay.
        let said = unsafe { libc::madvise(pages.start().as_ptr().cast(), 4 * PAGE as usize, libc::MADV_PAGEOUT) };
        // A machine without swap, or with a kernel before 5.4, cannot say more.
        if said != 0 || states(start)[1] != PageState::Swapped {
            eprintln!("skipped: nothing goes to swap here");
            return;
        }
        let (bytes, complete) = read_present(std::process::id(), start, 3 * PAGE as usize).unwrap();
        assert!(!complete && bytes.iter().all(|&byte| byte == 0));
        assert_eq!(states(start)[1], PageState::Swapped);
        drop(pages);
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // SAFETY: an all-zero `siginfo_t` is valid, and the system writes to it.
        let ended = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, child.id(), &raw mut information, libc::WEXITED | libc::WNOWAIT)
        };
        // Its number is not free before it is waited for.
        assert_eq!((ended, read_present(child.id(), 1 << 20, 8)), (0, Err(ForeignError::Gone)));
        child.wait().unwrap();
        assert_eq!(read_present(0x3fff_fff0, 1 << 20, 8), Err(ForeignError::Gone));
    }
}
