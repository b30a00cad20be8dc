//! For tests: system calls that are refused on request.

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread_local;

thread_local! {
    static GRANTED: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// The refused calls of the process: those whose numbers are from `FROM` up to before `UNTIL`.
static FROM: AtomicU64 = AtomicU64::new(u64::MAX);
static UNTIL: AtomicU64 = AtomicU64::new(u64::MAX);

/// Number of calls since [`everywhere`].
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Runs `body`. On this thread, its first `granted` requests for memory are granted and the others refused.
pub fn after<R>(granted: u64, body: impl FnOnce() -> R) -> R {
    let before = GRANTED.replace(granted);
    let result = body();
    GRANTED.set(before);
    result
}

/// Refuses the calls of all threads whose numbers, counted from 0 from now on, are in the range: requests for memory,
/// and other calls that the system may refuse.
pub fn everywhere(refused: Range<u64>) {
    CALLS.store(0, Ordering::SeqCst);
    FROM.store(refused.start, Ordering::SeqCst);
    UNTIL.store(refused.end, Ordering::SeqCst);
}

/// Ends all refusals; returns the number of calls since [`everywhere`].
pub fn nowhere() -> u64 {
    FROM.store(u64::MAX, Ordering::SeqCst);
    CALLS.load(Ordering::SeqCst)
}

/// Counts a request for memory; returns whether it is to be refused.
pub(crate) fn refuses_request() -> bool {
    if refuses_call() {
        return true;
    }
    match GRANTED.get() {
        u64::MAX => false,
        0 => true,
        left => {
            GRANTED.set(left - 1);
            false
        }
    }
}

/// Counts any call; returns whether it is to be refused.
pub(crate) fn refuses_call() -> bool {
    let call = CALLS.fetch_add(1, Ordering::SeqCst);
    (FROM.load(Ordering::SeqCst)..UNTIL.load(Ordering::SeqCst)).contains(&call)
}
