//! How a process notices that it is the child of a `fork`.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::process::{at_fork, process_id};

/// 0 while nobody has asked yet.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Set in the counts of a process that cannot watch its forks; the rest is its number then.
const UNWATCHED: u64 = 1 << 63;

/// A number that is another one in the child of a `fork` than it was in the parent, never 0: what was set up under one
/// count does not hold under another.
///
/// One load once the first call is done. A child made behind the C library's back (by `_Fork` or the bare system call)
/// is not noticed.
#[inline(always)]
#[must_use]
pub fn fork_count() -> u64 {
    match COUNT.load(Ordering::Acquire) {
        0 => watch(),
        count => count,
    }
}

/// Begins to count. Threads that come here at the same time may have every fork counted twice, which does no harm.
#[cold]
#[inline(never)]
fn watch() -> u64 {
    extern "C" fn nothing() {}
    extern "C" fn count_one() {
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
    if at_fork(nothing, nothing, count_one).is_err() {
        return UNWATCHED | u64::from(process_id());
    }
    match COUNT.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => 1,
        Err(count) => count,
    }
}
