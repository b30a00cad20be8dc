//! Another process, read where its memory lies. Nothing in it is changed: pages that are not in memory stay so.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::without_provenance_mut;

mod ending;
mod pages;
mod state;
mod stopped;

pub use ending::Ending;
pub use pages::{PAGE, PageMap, PageState, read_present};
pub use stopped::Stopped;

use anyhow::Result;
use heapwright_os::{ForeignError, read_foreign};

use self::pages::copy;
use self::state::{denied, remedy};
use crate::files::open_plain;
use crate::names::printable;

/// Bytes of the head of a page.
pub const HEAD: usize = 16;

/// Ranges that the system reads in one call.
const MOST_PARTS: usize = 1024;

/// A thread of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// Its number in the namespace of its process.
    pub id_inside: u32,
    /// Its name.
    pub name: String,
    /// Its stack pointer, unless it runs.
    pub stack_pointer: Option<u64>,
    /// Where its thread-local storage is, when its registers are known.
    pub control_block: Option<u64>,
}

/// Another process.
pub struct Target {
    pid: u32,
    /// The thread by which its memory is reached: the main thread may have ended.
    reader: u32,
    page_map: PageMap,
}

impl Target {
    /// Opens process `pid` for reading.
    ///
    /// # Errors
    /// When it does not exist, has no memory, or this process is not permitted to read it.
    pub fn open(pid: u32) -> Result<Target> {
        let reader = state::reader_of(pid)?;
        let page_map = PageMap::open(reader).map_err(|error| denied(pid, &error))?;
        let target = Target { pid, reader, page_map };
        target.smaps()?;
        Ok(target)
    }

    /// Returns its `smaps`, the text in which the kernel describes its mappings.
    ///
    /// # Errors
    /// When it has ended, or this process is not permitted to read it.
    pub fn smaps(&self) -> Result<String> {
        let bytes = fs::read(format!("/proc/{}/smaps", self.reader)).map_err(|error| denied(self.pid, &error))?;
        if bytes.is_empty() {
            return Err(state::ended(self.pid));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Checks that it still has its memory: then what was not read before was not there.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check_life(&self) -> Result<()> {
        let maps = File::open(format!("/proc/{}/maps", self.reader)).and_then(|mut maps| maps.read(&mut [0; 1]));
        if maps.is_ok_and(|read| read > 0) { Ok(()) } else { Err(state::ended(self.pid)) }
    }

    /// Returns the name of its program.
    pub fn name(&self) -> String {
        fs::read(format!("/proc/{}/comm", self.pid)).map_or_else(|_| String::new(), |name| printable(&name))
    }

    /// Opens its program's file, in its container.
    pub fn program(&self) -> Option<File> {
        File::open(format!("/proc/{}/exe", self.reader)).ok()
    }

    /// Returns the first bytes of its program's file.
    pub fn program_head(&self) -> Option<[u8; 20]> {
        let mut head = [0; 20];
        self.program()?.read_exact_at(&mut head, 0).ok()?;
        Some(head)
    }

    /// Opens a file that it has mapped, in its container; `None` when it is there no longer, or is no plain file.
    pub fn mapped_file(&self, name: &str) -> Option<File> {
        open_plain(Path::new(&format!("/proc/{}/root{name}", self.reader))).ok()
    }

    /// Returns where `count` pages are, from the page that contains `address` on.
    pub fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        self.page_map.pages(address, count)
    }

    /// Copies memory from `address` on. Pages that are not in memory are left as they are in `bytes`, and not touched.
    /// Returns whether every byte was copied.
    ///
    /// The page map is asked first. A page that leaves memory between the two calls is brought back by the second.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(bytes.len() as u64) else { return false };
        let mut complete = true;
        for (part, state) in self.page_map.parts(address..end) {
            let bytes = &mut bytes[(part.start - address) as usize..(part.end - address) as usize];
            complete &= state == PageState::Present && copy(self.reader, part.start, bytes).is_ok();
        }
        complete
    }

    /// Copies the first [`HEAD`] bytes of the pages at `starts`, all in memory. Returns those that could be read.
    pub fn heads(&self, starts: &[u64]) -> Vec<(u64, [u8; HEAD])> {
        let mut found = Vec::with_capacity(starts.len());
        let mut left = starts;
        while !left.is_empty() {
            let part = &left[..left.len().min(MOST_PARTS)];
            let mut heads = vec![[0; HEAD]; part.len()];
            let there = |&start: &u64| libc::iovec { iov_base: without_provenance_mut(start as usize), iov_len: HEAD };
            let there: Vec<libc::iovec> = part.iter().map(there).collect();
            let here = libc::iovec { iov_base: heads.as_mut_ptr().cast(), iov_len: HEAD * part.len() };
            let (pid, count) = (self.reader as libc::pid_t, there.len() as libc::c_ulong);
            // SAFETY: the local range is `heads`; the remote ones are only read, and the system checks them.
            let read = unsafe { libc::process_vm_readv(pid, &raw const here, 1, there.as_ptr(), count, 0) };
            let complete = usize::try_from(read).unwrap_or(0) / HEAD;
            found.extend(part.iter().copied().zip(heads).take(complete));
            // A page that cannot be read ends the call, and is passed over.
            left = &left[part.len().min(complete + 1)..];
        }
        found
    }

    /// Returns the threads of the process.
    pub fn threads(&self) -> Vec<Thread> {
        state::threads(self.pid).unwrap_or_default().into_iter().filter_map(|id| self.thread(id)).collect()
    }

    fn thread(&self, id: u32) -> Option<Thread> {
        // A program may have cut the name of a thread within a character.
        let file = |name: &str| fs::read(format!("/proc/{}/task/{id}/{name}", self.pid));
        let text = |name: &str| file(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let name = printable(&file("comm").ok()?);
        let status = text("status").ok()?;
        let own = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().next_back();
        // The stack pointer is the last word but one, unless the thread runs.
        let call = text("syscall").unwrap_or_default();
        let pointer = call.split_ascii_whitespace().rev().nth(1).and_then(|word| word.strip_prefix("0x"));
        let stack_pointer = pointer.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Some(Thread { id, id_inside: own?.parse().ok()?, name, stack_pointer, control_block: None })
    }

    /// Returns why the memory at `address` cannot be read, `None` if it can.
    pub fn refusal(&self, address: u64) -> Option<String> {
        match read_foreign(self.reader, usize::try_from(address).ok()?, &mut [0]) {
            Err(ForeignError::Denied) => Some(remedy(self.pid)),
            Err(ForeignError::Gone) => Some(state::ended(self.pid).to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;
    use std::process::Command;

    #[test]
    fn pages_that_were_never_touched_stay_so() {
        let pages = Pages::map(4 * PAGE as usize).unwrap();
        // SAFETY: the page is mapped and belongs to this test.
        unsafe { pages.start().add(PAGE as usize).write(7) };
        let target = Target::open(std::process::id()).unwrap();
        let start = pages.start().as_ptr().addr() as u64;
        let mut bytes = vec![1; 4 * PAGE as usize];
        assert!(!target.read(start, &mut bytes));
        assert_eq!((bytes[0], bytes[PAGE as usize]), (1, 7));
        use PageState::{Absent, Present};
        assert_eq!(target.pages(start, 4), [Absent, Present, Absent, Absent]);
    }

    #[test]
    fn heads_of_pages_are_read_but_for_those_that_are_not_mapped() {
        let pages = Pages::map(2000 * PAGE as usize).unwrap();
        let start = pages.start().as_ptr().addr() as u64;
        for page in 0..2000 {
            // SAFETY: the page is mapped and belongs to this test.
            unsafe { pages.start().add(page * PAGE as usize).cast::<u64>().write(page as u64) };
        }
        let mut starts: Vec<u64> = (0..2000).map(|page| start + page * PAGE).collect();
        starts.insert(5, PAGE);
        starts.insert(1024, PAGE);
        let heads = Target::open(std::process::id()).unwrap().heads(&starts);
        let numbers = heads.iter().map(|(_, head)| u64::from_le_bytes(head[..8].try_into().unwrap()));
        assert!(numbers.eq(0..2000));
        assert!(heads.iter().enumerate().all(|(page, (at, _))| *at == start + page as u64 * PAGE));
    }

    #[test]
    fn threads_have_names_and_stack_pointers() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let target = Target::open(child.id()).unwrap();
        let mut child = child;
        let thread = loop {
            match &target.threads()[..] {
                [thread] if thread.name == "sleep" && thread.stack_pointer.is_some() => break thread.clone(),
                _ => {}
            }
        };
        assert_eq!((thread.id, thread.id_inside), (child.id(), child.id()));
        let stack = target.smaps().unwrap();
        let stack = stack.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let (first, last) = stack.split(' ').next().unwrap().split_once('-').unwrap();
        let bound = |digits| u64::from_str_radix(digits, 16).unwrap();
        assert!((bound(first)..bound(last)).contains(&thread.stack_pointer.unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_does_not_exist_is_reported() {
        let error = Target::open(0x3fff_fff0).err().unwrap();
        assert_eq!(error.to_string(), "there is no process 1073741808");
    }
}
