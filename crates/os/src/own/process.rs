//! The process: its environment, numbers, threads and end.

use core::ffi::{CStr, c_char};
use core::ptr::null;

use crate::call::errno::{errno, errno_kept};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Calls `read` with the value of an environment variable. `None` when it is not set, or when the process runs with
/// more rights than its caller (setuid), which then cannot configure it.
pub fn variable<R>(name: &CStr, read: impl FnOnce(&CStr) -> R) -> Option<R> {
    let value = entries().find_map(|entry| {
        let value = entry.to_bytes_with_nul().strip_prefix(name.to_bytes())?.strip_prefix(b"=")?;
        CStr::from_bytes_with_nul(value).ok()
    })?;
    Some(read(value))
}

/// Whether an environment variable is set whose name begins with `prefix`. `false` where [`variable`] ignores
/// variables.
#[must_use]
pub fn has_variable_with(prefix: &[u8]) -> bool {
    entries().any(|entry| entry.to_bytes().starts_with(prefix))
}

/// The entries of the environment, `name=value`; none in a setuid process. They are valid until the environment is
/// changed. (Not by `secure_getenv`, which makes 64 KiB more of the C library resident in a small program.)
fn entries() -> impl Iterator<Item = &'static CStr> {
    // SAFETY: the call has no preconditions, and the C library's pointer to the environment is read only.
    let mut next = unsafe { if libc::getauxval(libc::AT_SECURE) == 0 { environ } else { null() } };
    core::iter::from_fn(move || {
        // SAFETY: the environment is null or an array of C strings that ends with null, and `next` points into it.
        unsafe {
            if next.is_null() || (*next).is_null() {
                return None;
            }
            let entry = CStr::from_ptr(*next);
            next = next.add(1);
            Some(entry)
        }
    })
}

/// Ends the process by `SIGABRT`.
pub fn abort() -> ! {
    // SAFETY: the call has no preconditions.
    unsafe { libc::abort() }
}

/// Ends the process at once with `code`: no exit handlers run, and no streams are flushed.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: the call has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Returns the number of this process, from the system: others put functions that allocate in the place of the C
/// library's `getpid`.
#[must_use]
pub fn process_id() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::syscall(libc::SYS_getpid) as u32 }
}

/// Returns the system's number of the calling thread. The system reuses it after the thread's end.
#[must_use]
pub fn thread_id() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether this process has a thread whose [`thread_id`] is `id`; `true` when that cannot be determined.
#[must_use]
pub fn has_thread(id: u32) -> bool {
    errno_kept(|| {
        // SAFETY: the system only checks whether the thread exists: signal 0 is not delivered.
        let found = unsafe { libc::syscall(libc::SYS_tgkill, process_id(), id as libc::pid_t, 0) };
        found == 0 || errno() != libc::ESRCH
    })
}

/// Returns the number of the parent process, from the system as [`process_id`].
#[must_use]
pub fn parent_process_id() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::syscall(libc::SYS_getppid) as u32 }
}

/// Why the current directory has no usable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDirectory {
    /// Its path is longer than the buffer, or than the system's limit.
    TooLong,
    /// It was removed, or lies outside the root directory.
    Unreachable,
}

/// Fills `buffer` with the current directory, by the system call: the C library's `getcwd` allocates where the path is
/// longer than the system's limit.
///
/// # Errors
/// [`NoDirectory`].
pub fn current_directory(buffer: &mut [u8]) -> Result<&CStr, NoDirectory> {
    // SAFETY: the buffer is a slice, hence valid for writes of its length.
    let call = || (unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) }, errno());
    match errno_kept(call) {
        (-1, libc::ERANGE | libc::ENAMETOOLONG) => Err(NoDirectory::TooLong),
        (-1, _) => Err(NoDirectory::Unreachable),
        _ => CStr::from_bytes_until_nul(buffer)
            .ok()
            .filter(|path| path.to_bytes().starts_with(b"/"))
            .ok_or(NoDirectory::Unreachable),
    }
}

/// Returns the peak of the process's resident memory in bytes, by one system call and without a file. A process that
/// was started by a large one has the peak of that: until it began its program, it shared its memory.
#[must_use]
pub fn peak_resident() -> Option<u64> {
    // SAFETY: a usage buffer consists of integers, for which zeros are valid, and is valid for the call's write.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_SELF, &mut usage) == 0).then_some(usage.ru_maxrss as u64 * 1024)
    }
}
