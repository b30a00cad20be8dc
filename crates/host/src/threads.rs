//! Threads on stacks that the caller provides: starting one allocates nothing but what the C library needs.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The stack that a command needs, in bytes, with a margin: descriptions of all its options lie on it.
const ENOUGH: u64 = 1 << 20;

/// Calls `run`, on a thread with a stack of its own if the process's limit (`ulimit -s`) leaves the main one too
/// little.
pub fn with_enough_stack<R: Send>(run: fn() -> R) -> R {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    if limit.is_none_or(|limit| limit >= ENOUGH) {
        return run();
    }
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(ENOUGH as usize);
        match builder.spawn_scoped(scope, run) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => run(),
        }
    })
}

/// A running thread that has not been joined.
pub struct Thread(libc::pthread_t);

impl Thread {
    /// Starts a thread that calls `run(argument)` on a stack of `length` bytes from `stack` on.
    ///
    /// # Errors
    /// The system's reason.
    ///
    /// # Safety
    /// The stack stays mapped, and nothing else uses it, until the thread has been joined. `run` may be called with
    /// `argument` in another thread, until then.
    pub unsafe fn start(
        stack: *mut u8,
        length: usize,
        run: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> io::Result<Thread> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: the attributes are initialised before they are used and destroyed once. Stack and argument outlive
        // the thread, as the caller guarantees.
        let refused = unsafe {
            libc::pthread_attr_init(attributes.as_mut_ptr());
            let refused = match libc::pthread_attr_setstack(attributes.as_mut_ptr(), stack.cast(), length) {
                0 => libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, argument),
                refused => refused,
            };
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            refused
        };
        match refused {
            // SAFETY: pthread_create succeeded and has written the thread.
            0 => Ok(Thread(unsafe { thread.assume_init() })),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Waits for the thread's end.
    pub fn join(self) {
        // SAFETY: pthread_create returned this thread, and it is joined once: `join` consumes it.
        unsafe { libc::pthread_join(self.0, null_mut()) };
    }
}
