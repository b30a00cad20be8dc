//! What the process uses from time to time.

use core::sync::atomic::{AtomicU64, Ordering};

use heapwright_os::{Usage, are_huge_pages_off, now_nanoseconds, own_usage, resident_files};
use heapwright_stream::{Header, Last};

/// The least time between two looks, in nanoseconds.
const LEAST: u64 = 1_000_000;

/// The time between two looks where they are slow: a peak that lasts as long as it took to fill the memory is seen.
const MOST: u64 = 2_000_000;

/// How many times as long as a look the time to the next is: a look costs some 5 µs if the caches have what it needs,
/// and ten times as much if not.
const OF_COST: u64 = 128;

/// The time of the next look.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Whether the last look was long ago. Costs reading a clock.
pub(crate) fn is_due() -> bool {
    now_nanoseconds() >= NEXT.load(Ordering::Relaxed)
}

/// Returns what the process uses, if the last look was long ago.
pub(crate) fn if_due(header: &Header) -> Option<Usage> {
    if !is_due() {
        return None;
    }
    let begun = now_nanoseconds();
    let usage = header.own(|| of_program(header));
    let ended = now_nanoseconds();
    NEXT.store(ended + (ended.saturating_sub(begun) * OF_COST).clamp(LEAST, MOST), Ordering::Relaxed);
    usage
}

/// Returns what the process uses, without the page faults that the recorder has caused.
fn of_program(header: &Header) -> Option<Usage> {
    let usage = own_usage()?;
    Some(Usage { faults: usage.faults.saturating_sub(header.own_faults()), ..usage })
}

/// Counts from the look with which a stream begins.
pub(crate) fn begin(header: &Header) {
    NEXT.store(header.first_nanoseconds + LEAST, Ordering::Relaxed);
}

/// Records what the process uses at its end.
pub(crate) fn record_last(header: &Header) {
    if let Some(usage) = of_program(header) {
        let (files, are_huge_pages_off) = (resident_files(), are_huge_pages_off());
        header.record_last(&Last { usage, files, are_huge_pages_off });
    }
}
