//! Child processes, and memory that is shared with them.
#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use heapwright_os::{Identity, Segment, SharedLock, exit_at_once};

/// A time limit for operations that take milliseconds on an idle machine.
pub const AMPLE: Duration = Duration::from_secs(20);

/// The outcome of a child: the line at which it failed.
pub type Outcome = Result<(), u32>;

/// In a child: fails unless the condition holds.
#[macro_export]
macro_rules! expect {
    ($condition:expr) => {
        if !$condition {
            return Err(line!());
        }
    };
}

/// A forked child; killed when dropped.
pub struct Child {
    pub pid: i32,
}

impl Child {
    /// Forks; the child runs `body`, which must not allocate, and ends.
    pub fn run(body: impl FnOnce() -> Outcome) -> Child {
        // SAFETY: the child calls nothing but the system and functions that do not allocate.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            let code = match body() {
                Ok(()) => 0,
                Err(line) => {
                    let mut text = heapwright_os::Line::<64>::new();
                    let _ = std::fmt::Write::write_fmt(&mut text, format_args!("a child failed at line {line}\n"));
                    heapwright_os::Output::standard_error().write(text.bytes());
                    1
                }
            };
            exit_at_once(code);
        }
        Child { pid }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child was not waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0);
    }

    /// Kills the child and waits until it is a zombie, which it stays.
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
        // SAFETY: the information is written to a local variable.
        unsafe {
            let mut about = std::mem::zeroed();
            assert_eq!(libc::waitid(libc::P_PID, self.pid as u32, &mut about, libc::WEXITED | libc::WNOWAIT), 0);
        }
    }

    /// Waits until the child has ended, and removes it; whether it succeeded.
    pub fn wait(self) -> bool {
        let mut status = -1;
        // SAFETY: the status is written to a local variable.
        let waited = unsafe { libc::waitpid(self.pid, &mut status, 0) };
        assert_eq!(waited, self.pid);
        std::mem::forget(self);
        status == 0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child was not waited for, so the number is its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// A lock and a few words in memory that is shared with the children.
#[repr(C)]
pub struct Page {
    pub lock: SharedLock,
    pub words: [AtomicU64; 8],
}

/// A [`Page`] that lasts until the test program ends.
pub fn shared_page() -> &'static Page {
    let segment = Segment::create_unnamed(c"/dev/shm", 0o600, 4096).unwrap();
    segment.back(0, 4096).unwrap();
    let base = segment.base().cast::<Page>();
    std::mem::forget(segment);
    // SAFETY: the page is backed, zero is a value of all that is in it, and it is never unmapped.
    unsafe { base.as_ref() }
}

/// Waits until the word is not 0, and returns it.
pub fn await_word(word: &AtomicU64) -> u64 {
    let start = Instant::now();
    loop {
        match word.load(Ordering::Acquire) {
            0 if start.elapsed() < AMPLE => sleep(1),
            value => return value,
        }
    }
}

/// Stores the identity of the calling child.
pub fn tell_identity(word: &AtomicU64) {
    word.store(Identity::mine().word(), Ordering::Release);
}

pub fn sleep(milliseconds: u32) {
    // SAFETY: no preconditions.
    unsafe { libc::usleep(milliseconds * 1000) };
}

/// Sleeps until the calling child is killed.
pub fn sleep_for_ever() -> ! {
    loop {
        sleep(1000);
    }
}

/// A directory of one test's own, removed with all that is in it.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("heapwright-os-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn c_path(&self) -> CString {
        CString::new(self.0.as_os_str().as_bytes()).unwrap()
    }

    /// The path of `name` in it.
    pub fn file(&self, name: &str) -> CString {
        CString::new(self.0.join(name).as_os_str().as_bytes()).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        self.0.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Has a signal interrupt the calling child at an interval in microseconds.
pub fn storm_of_signals(microseconds: i64) {
    extern "C" fn ignore(_: i32) {}
    let interval = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the handler does nothing; both structures live as long as the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
}
