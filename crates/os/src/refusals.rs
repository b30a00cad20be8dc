//! For tests: a system that runs out of memory when told to.

use core::cell::Cell;
use std::thread_local;

use crate::pages::Refused;

thread_local! {
    static GRANTED: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Runs `body`; on this thread, only the first `granted` requests for memory made by it are not refused.
pub fn after<R>(granted: u64, body: impl FnOnce() -> R) -> R {
    let before = GRANTED.replace(granted);
    let result = body();
    GRANTED.set(before);
    result
}

pub(crate) fn count_call() -> Result<(), Refused> {
    match GRANTED.get() {
        u64::MAX => Ok(()),
        0 => Err(Refused),
        left => {
            GRANTED.set(left - 1);
            Ok(())
        }
    }
}
