//! The process as a library inside it sees it.

use core::ffi::{CStr, c_char};
use core::ptr::null;

use crate::errno::{errno, errno_kept};
use crate::pages::{Refused, refuse_call_if_told};

unsafe extern "C" {
    static environ: *const *const c_char;
    static program_invocation_short_name: *const c_char;
}

/// Runs `read` on the value of an environment variable; `None` when it is not set, or when the process runs with more
/// rights than its caller, who then has no say in how it works.
pub fn variable<R>(name: &CStr, read: impl FnOnce(&CStr) -> R) -> Option<R> {
    let value = entries().find_map(|entry| {
        let value = entry.to_bytes_with_nul().strip_prefix(name.to_bytes())?.strip_prefix(b"=")?;
        CStr::from_bytes_with_nul(value).ok()
    })?;
    Some(read(value))
}

/// Whether an environment variable is set whose name begins with `prefix`, for [`variable`] to see.
#[must_use]
pub fn has_variable_with(prefix: &[u8]) -> bool {
    entries().any(|entry| entry.to_bytes().starts_with(prefix))
}

/// The entries of the environment, `name=value`; none where our caller has no say. They hold until something else runs that
/// changes the environment. (Not by `secure_getenv`, for which a small program has 64 KiB more of the C library in memory.)
fn entries() -> impl Iterator<Item = &'static CStr> {
    // SAFETY: getauxval has no preconditions, and the pointer to the environment is only read.
    let mut next = unsafe { if libc::getauxval(libc::AT_SECURE) == 0 { environ } else { null() } };
    core::iter::from_fn(move || {
        // SAFETY: the environment is an array of C strings that ends with null, or is not there.
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

/// Has `prepare` run before every `fork`, then `parent` or `child` after it.
///
/// # Errors
/// [`Refused`] when there is no memory for one more entry.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the functions are there for as long as this code is.
    let result = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if result == 0 { Ok(()) } else { Err(Refused) }
}

/// Ends the process by `SIGABRT`.
pub fn abort() -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}

/// Ends the process at once with `code`: no handlers run, nothing is flushed.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::_exit(code) }
}

/// The number of this process.
#[must_use]
pub fn process_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() as u32 }
}

/// The system's number of the calling thread, which another thread may have when this one has ended.
#[must_use]
pub fn thread_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether this process has a thread of this number, as [`thread_id`] has it; `true` when that cannot be told.
#[must_use]
pub fn has_thread(id: u32) -> bool {
    errno_kept(|| {
        // SAFETY: signal 0 is sent to nobody.
        let found = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id as libc::pid_t, 0) };
        found == 0 || errno() != libc::ESRCH
    })
}

/// The number of the process that started this one.
#[must_use]
pub fn parent_process_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::getppid() as u32 }
}

/// The name of the program as it was called, without its folders; empty when not known.
#[must_use]
pub fn program_name() -> &'static [u8] {
    // SAFETY: the name is a C string of the C library's that lives as long as the process, or null.
    unsafe {
        let name = program_invocation_short_name;
        if name.is_null() { b"" } else { CStr::from_ptr(name).to_bytes() }
    }
}

/// Fills `buffer` with the current directory; `None` when that cannot be told or is too long.
pub fn current_directory(buffer: &mut [u8]) -> Option<&CStr> {
    // SAFETY: the buffer is valid for its length; the system writes a C string into it.
    let found = unsafe { libc::getcwd(buffer.as_mut_ptr().cast(), buffer.len()) };
    if found.is_null() { None } else { CStr::from_bytes_until_nul(buffer).ok() }
}

/// The most memory in bytes that the process has had resident so far.
#[must_use]
pub fn peak_resident() -> Option<u64> {
    // SAFETY: a usage buffer is plain integers, and the call fills it or fails.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_SELF, &mut usage) == 0).then_some(usage.ru_maxrss as u64 * 1024)
    }
}
