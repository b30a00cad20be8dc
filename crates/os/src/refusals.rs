//! For tests: system calls that are refused on request.

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread_local;

use crate::pages::Refused;

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

/// Counts a request for memory, and refuses it if that was asked for.
pub(crate) fn count_request() -> Result<(), Refused> {
    count_call()?;
    match GRANTED.get() {
        u64::MAX => Ok(()),
        0 => Err(Refused),
        left => {
            GRANTED.set(left - 1);
            Ok(())
        }
    }
}

/// Counts any call, and refuses it if that was asked for.
pub(crate) fn count_call() -> Result<(), Refused> {
    let call = CALLS.fetch_add(1, Ordering::SeqCst);
    let refused = FROM.load(Ordering::SeqCst)..UNTIL.load(Ordering::SeqCst);
    if refused.contains(&call) { Err(Refused) } else { Ok(()) }
}
