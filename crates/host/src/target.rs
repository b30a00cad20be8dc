//! Another process, read where its memory lies. Nothing in it is changed: pages that are not in memory stay so.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{null_mut, without_provenance_mut};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use heapwright_os::{ForeignError, read_foreign};

/// Bytes of a page of the machines whose processes can be read.
pub const PAGE: u64 = 4096;

/// Bit of a page map's entry: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// Bit of a page map's entry: the page is in swap.
const SWAPPED: u64 = 1 << 62;

/// How long threads may take to stop: one that waits for a device does not stop before the device answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at whether a thread has stopped.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

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

/// Another process.
pub struct Target {
    pid: u32,
    page_map: File,
}

impl Target {
    /// Opens process `pid` for reading.
    ///
    /// # Errors
    /// When it does not exist, or this process is not permitted to read it.
    pub fn open(pid: u32) -> Result<Target> {
        if !fs::exists(format!("/proc/{pid}")).unwrap_or(false) {
            bail!("there is no process {pid}");
        }
        let page_map = File::open(format!("/proc/{pid}/pagemap")).map_err(|error| denied(pid, &error))?;
        let target = Target { pid, page_map };
        target.smaps()?;
        Ok(target)
    }

    /// Returns its `smaps`, the text in which the kernel describes its mappings.
    ///
    /// # Errors
    /// When it has ended, or this process is not permitted to read it.
    pub fn smaps(&self) -> Result<String> {
        let bytes = fs::read(format!("/proc/{}/smaps", self.pid)).map_err(|error| denied(self.pid, &error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the name of its program.
    pub fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// Returns the first bytes of its program's file, which is read inside its container.
    pub fn program_head(&self) -> Option<[u8; 20]> {
        let mut head = [0; 20];
        let file = File::open(format!("/proc/{}/exe", self.pid)).ok()?;
        file.read_exact_at(&mut head, 0).ok()?;
        Some(head)
    }

    /// Returns where `count` pages are, from the page that contains `address` on.
    pub fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        let mut entries = vec![0; count * 8];
        let mut read = 0;
        while let Ok(more @ 1..) = self.page_map.read_at(&mut entries[read..], address / PAGE * 8 + read as u64) {
            read += more;
        }
        entries.as_chunks().0.iter().map(|&entry| state(u64::from_ne_bytes(entry))).collect()
    }

    /// Copies memory from `address` on. Pages that are not in memory are left as they are in `bytes`, and not touched.
    /// Returns whether every byte was copied.
    ///
    /// The page map is asked first. A page that leaves memory between the two calls is brought back by the second.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(bytes.len() as u64) else { return false };
        let first = address / PAGE * PAGE;
        let pages = self.pages(first, (end - first).div_ceil(PAGE) as usize);
        let mut complete = true;
        let mut at = first;
        for run in pages.chunk_by(|one, other| one == other) {
            let behind = at + run.len() as u64 * PAGE;
            let (from, to) = (at.max(address), behind.min(end));
            let part = &mut bytes[(from - address) as usize..(to - address) as usize];
            complete &= run[0] == PageState::Present && self.copy(from, part);
            at = behind;
        }
        complete
    }

    /// Copies memory that is present.
    fn copy(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Ok(start) = usize::try_from(address) else { return false };
        let mut done = 0;
        while done < bytes.len() {
            match read_foreign(self.pid, start + done, &mut bytes[done..]) {
                Ok(more @ 1..) => done += more,
                _ => return false,
            }
        }
        true
    }

    /// Returns why the memory at `address` cannot be read, `None` if it can.
    pub fn refusal(&self, address: u64) -> Option<String> {
        match read_foreign(self.pid, usize::try_from(address).ok()?, &mut [0]) {
            Err(ForeignError::Denied) => Some(remedy(self.pid)),
            Err(ForeignError::Gone) => Some(format!("process {} has ended", self.pid)),
            _ => None,
        }
    }

    /// Stops all threads of the process until the value is dropped. If this process ends, however it does, the kernel
    /// lets them go on.
    ///
    /// # Errors
    /// When tracing is not permitted, or the process has ended.
    pub fn stop(&self) -> Result<Stopped> {
        let mut stopped = Stopped { threads: Vec::new() };
        let until = Instant::now() + PATIENCE;
        // Threads may start others until the last is stopped.
        loop {
            let before = stopped.threads.len();
            for thread in self.threads()? {
                if !stopped.threads.iter().any(|(one, _)| *one == thread) {
                    stopped.interrupt(thread).map_err(|error| denied(self.pid, &error))?;
                }
            }
            if stopped.threads.len() == before {
                break;
            }
            if let Some(thread) = stopped.wait(before, until) {
                bail!(
                    "thread {thread} of process {} did not stop within {} s (state {}): try again, or without --stop",
                    self.pid,
                    PATIENCE.as_secs(),
                    self.state_of(thread).unwrap_or('?')
                );
            }
        }
        if stopped.threads.is_empty() {
            bail!("process {} has no thread that can be stopped", self.pid);
        }
        Ok(stopped)
    }

    /// Returns the state of a thread, as in `/proc/PID/stat`.
    fn state_of(&self, thread: i32) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/task/{thread}/stat", self.pid)).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn threads(&self) -> Result<Vec<i32>> {
        let folder = fs::read_dir(format!("/proc/{}/task", self.pid))
            .with_context(|| format!("process {} has ended", self.pid))?;
        Ok(folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }
}

fn state(entry: u64) -> PageState {
    match entry {
        entry if entry & PRESENT != 0 => PageState::Present,
        entry if entry & SWAPPED != 0 => PageState::Swapped,
        _ => PageState::Absent,
    }
}

fn denied(pid: u32, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow::Error::msg(remedy(pid)),
        io::ErrorKind::NotFound => anyhow::anyhow!("process {pid} has ended"),
        _ => anyhow::anyhow!("process {pid} cannot be read: {error}"),
    }
}

fn remedy(pid: u32) -> String {
    format!(
        "the system does not permit reading process {pid}: run this command as root or with CAP_SYS_PTRACE; as the \
         same user it works where /proc/sys/kernel/yama/ptrace_scope is 0"
    )
}

/// Stopped threads of another process, which go on when the value is dropped.
pub struct Stopped {
    /// Threads, each with the signal that is delivered to it when it goes on, or 0.
    threads: Vec<(i32, i32)>,
}

impl Stopped {
    /// Asks `thread` to stop. One that has ended meanwhile is not an error.
    fn interrupt(&mut self, thread: i32) -> io::Result<()> {
        // SAFETY: seizing a thread reads and writes no memory of this process.
        if unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, null_mut::<u8>(), null_mut::<u8>()) } != 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) };
        }
        self.threads.push((thread, 0));
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, thread, null_mut::<u8>(), null_mut::<u8>()) };
        Ok(())
    }

    /// Waits until the threads from `first` on have stopped or ended; returns one that does not stop in time.
    fn wait(&mut self, first: usize, until: Instant) -> Option<i32> {
        for (thread, signal) in &mut self.threads[first..] {
            loop {
                let mut status = 0;
                // SAFETY: waitpid writes to `status` only.
                let changed = unsafe { libc::waitpid(*thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
                let is_interrupted = changed < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
                if changed != 0 && !is_interrupted {
                    // A thread may have stopped for a signal before it was interrupted. Letting go delivers it.
                    let is_for_signal = changed > 0 && libc::WIFSTOPPED(status) && status >> 16 == 0;
                    *signal = if is_for_signal { libc::WSTOPSIG(status) } else { 0 };
                    break;
                }
                if Instant::now() >= until {
                    return Some(*thread);
                }
                sleep(BETWEEN_LOOKS);
            }
        }
        None
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(thread, signal) in &self.threads {
            let signal = without_provenance_mut::<u8>(signal as usize);
            // SAFETY: detaching reads and writes no memory of this process. It fails for a thread that has ended, and
            // for one that has not stopped: the kernel lets that one go on when this process ends.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, thread, null_mut::<u8>(), signal) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;
    use std::process::{Command, Stdio};

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
    fn a_stopped_process_goes_on() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let target = Target::open(child.id()).unwrap();
        let state = || {
            let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            text.split(' ').nth(2).unwrap().to_owned()
        };
        for _ in 0..20 {
            let stopped = target.stop().unwrap();
            assert_eq!(state(), "t");
            drop(stopped);
            assert_ne!(state(), "t");
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn signals_reach_a_process_that_is_stopped_again_and_again() {
        let script = "n=0; trap 'n=$((n + 1))' USR1; echo ready; while [ $n -lt 40 ]; do :; done; echo $n";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let target = Target::open(child.id()).unwrap();
        while let Ok(None) = child.try_wait() {
            // SAFETY: a signal to a child that has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
            // The program may end at any time.
            if let Ok(stopped) = target.stop() {
                unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
                drop(stopped);
            }
        }
        line.clear();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert!(line.trim_end().parse::<u32>().unwrap() >= 40, "{line}");
    }

    #[test]
    fn a_process_that_is_stopped_already_is_read_and_stays_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // SAFETY: signals to a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGSTOP) };
        let target = Target::open(child.id()).unwrap();
        let state = || target.state_of(child.id() as i32);
        while state() != Some('T') {}
        drop(target.stop().unwrap());
        let until = Instant::now() + PATIENCE;
        while state() != Some('T') && Instant::now() < until {}
        assert_eq!(state(), Some('T'));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_thread_that_cannot_stop_is_reported_in_time() {
        // The parent of a vfork is not interrupted before its child ends.
        // SAFETY: the child of the fork calls functions that are safe after a fork only, and does not return.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: without CLONE_VM the new process has memory of its own.
            unsafe {
                if libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0, 0, 0, 0) == 0 {
                    libc::sleep(6);
                }
                libc::_exit(0);
            }
        }
        let target = Target::open(child as u32).unwrap();
        while target.state_of(child) != Some('D') {}
        let error = target.stop().err().unwrap().to_string();
        assert!(error.contains("did not stop within 2 s (state D)"), "{error}");
        // SAFETY: as above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, null_mut(), libc::__WALL);
        }
    }

    #[test]
    fn a_process_that_does_not_exist_is_reported() {
        let error = Target::open(0x3fff_fff0).err().unwrap();
        assert_eq!(error.to_string(), "there is no process 1073741808");
    }
}
