//! Descriptors of this process: how many are open, and how many may be; and what to do about this and other shortages.

use std::fs;
use std::io;

use heapwright_os::MemoryLimit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns the number of descriptors that this process has open; 0 when /proc does not contain it.
pub fn open_descriptors() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

/// Returns whether the system refused something for lack of descriptors, memory or threads, which may come back.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN))
}

/// Returns what to do about an error of the system, to be put behind its text: empty, unless this process may have no
/// more descriptors, memory or threads.
pub fn advice(error: &io::Error) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::EMFILE) => "raise the limit on descriptors (`ulimit -n`)",
        Some(libc::ENOMEM) => MemoryLimit::of_this_process().advice(),
        // Of a thread or a process, whose stack had no room, or which is one too many.
        Some(libc::EAGAIN) => "raise the limits on memory and processes (`ulimit -v`, `ulimit -d`, `ulimit -u`)",
        _ => return String::new(),
    };
    format!(": {advice}")
}

/// Returns the text of an error with its causes, and with [`advice`].
pub fn described(error: &anyhow::Error) -> String {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    format!("{error:#}{}", cause.map(advice).unwrap_or_default())
}

/// Makes writes to standard output fail if this process was started without one. Programs that it starts have none
/// either. To be called before `main`: Rust's runtime opens `/dev/null` in its place, where output is lost without an
/// error.
pub fn let_output_without_a_place_fail() {
    // SAFETY: the calls take numbers only, and a descriptor that is closed here is this function's own.
    unsafe {
        if libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) != -1 {
            return;
        }
        // A socket without a peer is the one descriptor whose error says what it is, and that needs no file.
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if socket != -1 && socket != libc::STDOUT_FILENO {
            libc::dup3(socket, libc::STDOUT_FILENO, libc::O_CLOEXEC);
            libc::close(socket);
        }
    }
}

/// The limit on descriptors of this process, raised as far as it may be. Dropping it sets the limit as it was. Programs
/// that are started meanwhile inherit the raised limit.
pub struct Raised {
    before: Rlimit,
    most: Option<u64>,
}

impl Raised {
    /// Raises the limit to that above which this user may not raise it.
    pub fn to_the_most() -> Raised {
        let before = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
        let most = if raised.is_ok() { before.maximum } else { before.current };
        Raised { before, most }
    }

    /// Returns the most descriptors that may be open; `None` where there is no limit.
    pub fn most(&self) -> Option<u64> {
        self.most
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        // A limit that was set can be set again.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: self.before.current, maximum: self.before.maximum });
    }
}
