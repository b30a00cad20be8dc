//! Reads the memory of a watched process.

use heapwright_host::target::{PageMap, PageState};
use heapwright_os::{ForeignError, read_foreign};

use super::location::Unseen;

/// Reads `count` bytes at `address` of process `pid`. Nothing is changed: pages that were never touched are zeroes, and
/// those in swap are not brought back. Where the system has no page maps, every page is read.
///
/// # Errors
/// [`Unseen::Swapped`] when a part is in swap; else when the process has ended or cannot be read.
pub fn read_bytes(pid: u32, address: u64, count: usize) -> Result<Vec<u8>, Unseen> {
    let (bytes, complete) = read_present(pid, address, count)?;
    if complete { Ok(bytes) } else { Err(Unseen::Swapped) }
}

/// Reads `count` bytes at `address` of process `pid`, with zeroes for pages that are not in memory. Returns whether
/// nothing of it is in swap.
pub fn read_present(pid: u32, address: u64, count: usize) -> Result<(Vec<u8>, bool), Unseen> {
    let range = address..address.checked_add(count as u64).ok_or(Unseen::NotAHeap)?;
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

fn copy(pid: u32, address: u64, bytes: &mut [u8]) -> Result<(), Unseen> {
    let mut read = 0;
    while read < bytes.len() {
        match read_foreign(pid, address as usize + read, &mut bytes[read..])? {
            0 => return Err(Unseen::NotAHeap),
            more => read += more,
        }
    }
    Ok(())
}

/// The page map of a process that has ended is empty. No process has memory at address 1.
fn check_life(pid: u32) -> Result<(), Unseen> {
    match read_foreign(pid, 1, &mut [0]) {
        Err(error @ (ForeignError::Gone | ForeignError::Denied)) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwright_host::memory::Pages;
    use heapwright_host::target::PAGE;

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
        let bytes = read_bytes(std::process::id(), start + 8, 3 * PAGE as usize).unwrap();
        let touched: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        assert_eq!((touched, bytes.len()), (vec![PAGE as usize - 8], 3 * PAGE as usize));
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
        assert_eq!(read_bytes(std::process::id(), start, 3 * PAGE as usize), Err(Unseen::Swapped));
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
        assert_eq!((ended, read_bytes(child.id(), 1 << 20, 8)), (0, Err(Unseen::Gone)));
        child.wait().unwrap();
        assert_eq!(read_bytes(0x3fff_fff0, 1 << 20, 8), Err(Unseen::Gone));
    }
}
