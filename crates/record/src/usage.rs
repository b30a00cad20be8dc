//! What the process uses from time to time.

use core::sync::atomic::{AtomicU64, Ordering};

use heapwright_os::{Usage, are_huge_pages_off, now_nanoseconds, own_usage, resident_files};
use heapwright_stream::{Header, Last};

/// The least time between two looks, in nanoseconds: a look costs some 5 µs.
const INTERVAL: u64 = 1_000_000;

/// The time of the last look.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Whether the last look was long ago. Costs reading a clock.
pub(crate) fn is_due() -> bool {
    now_nanoseconds().saturating_sub(LAST.load(Ordering::Relaxed)) >= INTERVAL
}

/// Returns what the process uses, if the last look was long ago.
pub(crate) fn if_due(header: &Header) -> Option<Usage> {
    if !is_due() {
        return None;
    }
    LAST.store(now_nanoseconds(), Ordering::Relaxed);
    header.own(|| of_program(header))
}

/// Returns what the process uses, without the page faults that the recorder has caused.
fn of_program(header: &Header) -> Option<Usage> {
    let usage = own_usage()?;
    Some(Usage { faults: usage.faults.saturating_sub(header.own_faults()), ..usage })
}

/// Counts from the look with which a stream begins.
pub(crate) fn begin(header: &Header) {
    LAST.store(header.first_nanoseconds, Ordering::Relaxed);
}

/// Records what the process uses at its end.
pub(crate) fn record_last(header: &Header) {
    if let Some(usage) = of_program(header) {
        let (files, are_huge_pages_off) = (resident_files(), are_huge_pages_off());
        header.record_last(&Last { usage, files, are_huge_pages_off });
    }
}
