//! A thread of the library's own, beside the program's.

use core::ffi::c_void;
use core::ptr::null_mut;

use crate::call::errno::errno_kept;
use crate::call::refused::{Refused, refuse_call_if_told};
use crate::call::waiting::{uncancelled, undisturbed};
use crate::file::segment_file::SegmentFile;
use crate::found::usage::stat_field;

/// Bytes of its stack: the static thread-local variables of the program's libraries lie there, too.
const STACK: usize = 128 << 10;

/// Starts a detached thread with a small stack that all signals leave alone. To be called where `malloc` can be called.
///
/// # Errors
/// [`Refused`], by a limit of the process or by a sandbox.
pub fn start_background(run: extern "C" fn(*mut c_void) -> *mut c_void) -> Result<(), Refused> {
    refuse_call_if_told()?;
    errno_kept(|| {
        // SAFETY: an attribute consists of integers, for which zeros are valid; it is initialised before it is used,
        // and destroyed once. The function exists as long as this code, and its argument is not used.
        undisturbed(|| unsafe {
            let mut attributes = core::mem::zeroed();
            if libc::pthread_attr_init(&mut attributes) != 0 {
                return Err(Refused);
            }
            libc::pthread_attr_setstacksize(&mut attributes, STACK);
            libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
            let mut thread = core::mem::zeroed();
            let started = libc::pthread_create(&mut thread, &attributes, run, null_mut());
            libc::pthread_attr_destroy(&mut attributes);
            if started == 0 { Ok(()) } else { Err(Refused) }
        })
    })
}

/// Returns the number of the process's threads that have not ended; `None` where there is no `/proc`. Opens a file.
#[must_use]
pub fn thread_count() -> Option<u64> {
    errno_kept(|| {
        uncancelled(|| {
            let mut line = [0; 1024];
            let file = SegmentFile::open_read_only(c"/proc/self/stat").ok()?;
            let length = file.read_some_at(0, &mut line).ok()?;
            threads_in(&line[..length])
        })
    })
}

/// Returns the number of threads that the contents of `/proc/PID/stat` state. A first thread that has ended before the
/// others counts there, and not here.
fn threads_in(line: &[u8]) -> Option<u64> {
    const THREADS: usize = 17;
    let name_ends = line.iter().rposition(|&byte| byte == b')')?;
    let has_first_ended = line.get(name_ends + 2) == Some(&b'Z');
    Some(stat_field(line, THREADS)?.saturating_sub(u64::from(has_first_ended)))
}

/// Sleeps for a time, or until a signal interrupts the thread.
pub fn sleep_for(nanoseconds: u64) {
    const SECOND: u64 = 1_000_000_000;
    let time = libc::timespec {
        tv_sec: (nanoseconds / SECOND).try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: (nanoseconds % SECOND) as libc::c_long,
    };
    // SAFETY: the time is a local variable, and null stands for no remaining time.
    uncancelled(|| errno_kept(|| unsafe { libc::nanosleep(&time, null_mut()) }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_thread_that_has_ended_does_not_count() {
        let line = |state: char| std::format!("7 (a) b) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 4 18 19");
        assert_eq!(threads_in(line('S').as_bytes()), Some(4));
        assert_eq!(threads_in(line('Z').as_bytes()), Some(3));
        for nonsense in ["", "7 (a", "7 (a)", "7 (a) S 1 2"] {
            assert_eq!(threads_in(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn a_background_thread_is_one_more() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNTED: AtomicU64 = AtomicU64::new(0);
        extern "C" fn count(_: *mut c_void) -> *mut c_void {
            COUNTED.store(thread_count().unwrap_or(u64::MAX), Ordering::Release);
            null_mut()
        }
        start_background(count).unwrap();
        while COUNTED.load(Ordering::Acquire) == 0 {
            sleep_for(1_000_000);
        }
        // The test's own thread is there too.
        assert!((2..1 << 20).contains(&COUNTED.load(Ordering::Acquire)));
    }
}
