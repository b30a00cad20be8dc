//! A clock that runs ahead of the real one, shown to one library of this process.
//!
//! The library's imports of time functions are redirected to functions that add how far the shown time is ahead. The
//! rest of the process has the real time. A wait of the library until a moment of the shown clock ends when that moment
//! comes, or as soon as the clock moves: a wait on a condition variable may always end early.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::identity::symbol;
use crate::imports::{Replacement, redirect};

const SECOND: i64 = 1_000_000_000;

/// How far the shown time is ahead of the real time, in nanoseconds.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// The condition variables on which threads of the library wait until a moment.
static WAITING: Mutex<[usize; 16]> = Mutex::new([0; 16]);

/// The address of the C library's `pthread_cond_clockwait`; 0 when it has none, and no library imports it.
static CLOCK_WAIT: AtomicUsize = AtomicUsize::new(0);

fn ahead() -> i64 {
    AHEAD.load(Ordering::Acquire) as i64
}

fn waiting() -> MutexGuard<'static, [usize; 16]> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the library that contains `address` the time of this module instead of the real one. Returns the number of its
/// imports that were redirected.
///
/// # Errors
/// As [`redirect`].
///
/// # Safety
/// The library is not unloaded.
pub unsafe fn show_to(address: *const c_void) -> io::Result<usize> {
    let by_clock = clock_gettime as *const c_void;
    let by_day = gettimeofday as *const c_void;
    let by_condition = pthread_cond_clockwait as *const c_void;
    let clock_wait = symbol(c"pthread_cond_clockwait");
    CLOCK_WAIT.store(clock_wait.map_or(0, |function| function.expose_provenance()), Ordering::Release);
    let replacements: [Replacement<'_>; 10] = [
        (c"clock_gettime", by_clock),
        (c"__clock_gettime", by_clock),
        (c"gettimeofday", by_day),
        (c"__gettimeofday", by_day),
        (c"time", time as *const c_void),
        (c"timespec_get", timespec_get as *const c_void),
        (STEADY_CLOCK, steady_clock_now as *const c_void),
        (SYSTEM_CLOCK, system_clock_now as *const c_void),
        (c"pthread_cond_timedwait", pthread_cond_timedwait as *const c_void),
        (c"pthread_cond_clockwait", by_condition),
    ];
    // SAFETY: each function has the arguments and the result of that of its name, and allocates nothing, so that a
    // malloc can call it. The caller guarantees that the library stays loaded.
    unsafe { redirect(address, &replacements) }
}

/// `std::chrono::steady_clock::now()`.
const STEADY_CLOCK: &CStr = c"_ZNSt6chrono3_V212steady_clock3nowEv";
/// `std::chrono::system_clock::now()`.
const SYSTEM_CLOCK: &CStr = c"_ZNSt6chrono3_V212system_clock3nowEv";

/// Moves the shown time. There is one in a process.
#[derive(Debug)]
pub struct ShownTime {
    start: Instant,
}

impl ShownTime {
    /// Begins: shown and real time are the same now.
    pub fn start() -> ShownTime {
        AHEAD.store(0, Ordering::Release);
        ShownTime { start: Instant::now() }
    }

    /// Moves the shown time to at least `elapsed` after its start. It never moves backwards.
    pub fn reach(&self, elapsed: Duration) {
        let ahead = elapsed.saturating_sub(self.start.elapsed());
        AHEAD.fetch_max(ahead.as_nanos() as u64, Ordering::AcqRel);
        wake_waiting();
    }

    /// Moves the shown time to at least `elapsed` after its start, at the end of a pause. Sleeps for the time `sleep`,
    /// during which the pause is shown to pass step by step, so that threads of the library do their work of it.
    pub fn sleep_through(&self, pause: Duration, elapsed: Duration, sleep: Duration) {
        const STEP: Duration = Duration::from_millis(1);
        let start = Instant::now();
        while let Some(left) = sleep.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            self.reach(elapsed.saturating_sub(pause.mul_f64(left.as_secs_f64() / sleep.as_secs_f64())));
            std::thread::sleep(left.min(STEP));
        }
        self.reach(elapsed);
    }
}

fn wake_waiting() {
    for &condition in waiting().iter().filter(|&&condition| condition != 0) {
        let condition = std::ptr::with_exposed_provenance_mut(condition);
        // SAFETY: a thread waits on it, or is about to or has just done so: it is a condition variable in use until the
        // thread has removed it from the table, whose lock is held here.
        unsafe { libc::pthread_cond_broadcast(condition) };
    }
}

/// Waits by `wait`, during which the condition variable is in the table.
fn wait_on(condition: *mut libc::pthread_cond_t, wait: impl FnOnce() -> c_int) -> c_int {
    let entry = condition.expose_provenance();
    let place = waiting().iter_mut().position(|place| {
        let is_free = *place == 0;
        if is_free {
            *place = entry;
        }
        is_free
    });
    let result = wait();
    if let Some(place) = place {
        waiting()[place] = 0;
    }
    result
}

/// Returns the moment `nanoseconds` after `time`.
fn later(time: libc::timespec, nanoseconds: i64) -> libc::timespec {
    let sum = time.tv_nsec + nanoseconds % SECOND;
    libc::timespec {
        tv_sec: time.tv_sec + nanoseconds / SECOND + sum.div_euclid(SECOND),
        tv_nsec: sum.rem_euclid(SECOND),
    }
}

/// Whether a clock shows time that passes while nothing runs. The others are processor time, and devices.
fn is_moved(clock: libc::clockid_t) -> bool {
    let processor = [libc::CLOCK_PROCESS_CPUTIME_ID, libc::CLOCK_THREAD_CPUTIME_ID];
    clock >= 0 && !processor.contains(&clock)
}

fn shown(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable that is valid for writes.
    unsafe { libc::clock_gettime(clock, &mut time) };
    later(time, ahead())
}

unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller follows the rules of this function of the C library.
    let result = unsafe { libc::clock_gettime(clock, time) };
    if result == 0 && is_moved(clock) {
        // SAFETY: the function has written the time there and returned success.
        unsafe { *time = later(*time, ahead()) };
    }
    result
}

unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the caller follows the rules of this function of the C library.
    let result = unsafe { libc::gettimeofday(time, zone.cast()) };
    if result == 0 && !time.is_null() {
        let now = shown(libc::CLOCK_REALTIME);
        // SAFETY: the function accepts a pointer that is valid for writes, or null.
        unsafe { *time = libc::timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 } };
    }
    result
}

unsafe extern "C" fn time(time: *mut libc::time_t) -> libc::time_t {
    let now = shown(libc::CLOCK_REALTIME).tv_sec;
    if !time.is_null() {
        // SAFETY: the function accepts a pointer that is valid for writes, or null.
        unsafe { *time = now };
    }
    now
}

unsafe extern "C" fn timespec_get(time: *mut libc::timespec, base: c_int) -> c_int {
    const UTC: c_int = 1;
    if base != UTC {
        return 0;
    }
    // SAFETY: the function requires a pointer that is valid for writes.
    unsafe { *time = shown(libc::CLOCK_REALTIME) };
    base
}

extern "C" fn steady_clock_now() -> i64 {
    nanoseconds(shown(libc::CLOCK_MONOTONIC))
}

extern "C" fn system_clock_now() -> i64 {
    nanoseconds(shown(libc::CLOCK_REALTIME))
}

fn nanoseconds(time: libc::timespec) -> i64 {
    time.tv_sec * SECOND + time.tv_nsec
}

unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut libc::pthread_cond_t,
    mutex: *mut libc::pthread_mutex_t,
    until: *const libc::timespec,
) -> c_int {
    wait_on(condition, || {
        // SAFETY: the caller follows the rules of this function of the C library, by which `until` can be read.
        unsafe { libc::pthread_cond_timedwait(condition, mutex, &later(*until, -ahead())) }
    })
}

unsafe extern "C" fn pthread_cond_clockwait(
    condition: *mut libc::pthread_cond_t,
    mutex: *mut libc::pthread_mutex_t,
    clock: libc::clockid_t,
    until: *const libc::timespec,
) -> c_int {
    type ClockWait = unsafe extern "C" fn(
        *mut libc::pthread_cond_t,
        *mut libc::pthread_mutex_t,
        libc::clockid_t,
        *const libc::timespec,
    ) -> c_int;
    let function = std::ptr::with_exposed_provenance::<c_void>(CLOCK_WAIT.load(Ordering::Acquire));
    // SAFETY: a library that imports the function was loaded, so the C library has it, and `show_to` has stored its
    // address. These are its arguments and its result.
    let wait_by_clock = unsafe { std::mem::transmute::<*const c_void, ClockWait>(function) };
    wait_on(condition, || {
        // SAFETY: the caller follows the rules of this function of the C library, by which `until` can be read.
        unsafe { wait_by_clock(condition, mutex, clock, &later(*until, -ahead())) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_moved_across_seconds() {
        let moved = |seconds, nanoseconds, by| {
            let time = later(libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds }, by);
            (time.tv_sec, time.tv_nsec)
        };
        assert_eq!(moved(5, 999_999_999, 1), (6, 0));
        assert_eq!(moved(5, 0, -1), (4, 999_999_999));
        assert_eq!(moved(5, 500_000_000, 60 * SECOND + 700_000_000), (66, 200_000_000));
        assert_eq!(moved(100, 500_000_000, -60 * SECOND - 700_000_000), (39, 800_000_000));
    }

    #[test]
    fn the_clock_moves_on_and_never_back() {
        let now = |clock| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `time` is a local variable that is valid for writes.
            assert_eq!(unsafe { clock_gettime(clock, &mut time) }, 0);
            Duration::from_nanos(nanoseconds(time) as u64)
        };
        let (before, processor) = (now(libc::CLOCK_MONOTONIC), now(libc::CLOCK_PROCESS_CPUTIME_ID));
        let shown = ShownTime::start();
        let hour = Duration::from_secs(3600);
        shown.sleep_through(hour / 2, hour, Duration::from_millis(3));
        let after = now(libc::CLOCK_MONOTONIC);
        assert!(after >= before + hour && after < before + hour + hour / 2, "{before:?} {after:?}");
        shown.reach(hour / 2);
        assert!(now(libc::CLOCK_MONOTONIC) >= after);
        assert!(now(libc::CLOCK_PROCESS_CPUTIME_ID) < processor + hour / 2);
        assert!(steady_clock_now() as u128 >= after.as_nanos());
    }
}
