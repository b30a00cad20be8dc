//! For tests: a system that refuses when told to.

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread_local;

use crate::pages::Refused;

thread_local! {
    static GRANTED: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// The calls of the process that are refused: those whose numbers are from the first up to before the second.
static FROM: AtomicU64 = AtomicU64::new(u64::MAX);
static UNTIL: AtomicU64 = AtomicU64::new(u64::MAX);

/// How many calls there were since [`everywhere`].
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Runs `body`; on this thread, only the first `granted` requests for memory made by it are not refused.
pub fn after<R>(granted: u64, body: impl FnOnce() -> R) -> R {
    let before = GRANTED.replace(granted);
    let result = body();
    GRANTED.set(before);
    result
}

/// From now on the calls whose numbers, counted from 0, are in the range are refused, whichever thread makes them: requests for
/// memory, and whatever else the system may refuse.
pub fn everywhere(refused: Range<u64>) {
    CALLS.store(0, Ordering::SeqCst);
    FROM.store(refused.start, Ordering::SeqCst);
    UNTIL.store(refused.end, Ordering::SeqCst);
}

/// Nothing is refused any more; returns how many calls there were.
pub fn nowhere() -> u64 {
    FROM.store(u64::MAX, Ordering::SeqCst);
    CALLS.load(Ordering::SeqCst)
}

/// A request for memory.
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

/// Any call.
pub(crate) fn count_call() -> Result<(), Refused> {
    let call = CALLS.fetch_add(1, Ordering::SeqCst);
    let refused = FROM.load(Ordering::SeqCst)..UNTIL.load(Ordering::SeqCst);
    if refused.contains(&call) { Err(Refused) } else { Ok(()) }
}
