//! How long calls of glibc's functions take: a sample of all calls, and every call for a long block.
//!
//! The counter is read twice before what is timed: the time between these readings is what a reading costs there and
//! then, which depends on what the other half of a processor's core does.
//!
//! The counter is read as any instruction is executed. A processor overlaps a short call with the work around it; if
//! the reading waited for what is under way, the call would count for its whole latency, which is several times as much
//! as the program loses by it.
//!
//! What the recorder adds to a call is timed when the work before it has been done. Otherwise its instructions queue
//! behind the program's, and what they wait for would count as the recorder's.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use heapwright_os::{now_nanoseconds, ticks, ticks_after_work};
use heapwright_stream::{Header, Timed};

use crate::rest::take_mark;

/// Durations that are below all that count at most ([`Timed::most_nanoseconds`]), in ticks of any processor's counter.
const SHORT: u64 = 1000;

/// The header in which calls are counted; null while there is no stream.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(null_mut());

/// Calls one of glibc's functions and counts its duration.
#[inline(always)]
pub(crate) fn timed<R>(which: Timed, call: impl FnOnce() -> R) -> R {
    take_mark();
    counting(which, ticks(), call)
}

/// Counts pages, and how long that takes.
pub(crate) fn counting_pages<R>(work: impl FnOnce() -> R) -> R {
    counting(Timed::Pages, ticks(), work)
}

/// Notes a call and counts how long that takes, if the call is one of the sample.
#[inline(always)]
pub(crate) fn noting<R>(which: Timed, note: impl FnOnce() -> R) -> R {
    if which != Timed::Sampled {
        return note();
    }
    counting(Timed::RecorderSampled, ticks_after_work(), note)
}

/// Counts how long the work takes; `reading` is the counter's, which was just read.
#[inline(always)]
fn counting<R>(which: Timed, reading: u64, work: impl FnOnce() -> R) -> R {
    let before = ticks();
    let result = work();
    count(which, ticks().saturating_sub(before).saturating_sub(before.saturating_sub(reading)));
    result
}

fn count(which: Timed, taken: u64) {
    let Some(header) = NonNull::new(HEADER.load(Ordering::Acquire)) else { return };
    // SAFETY: a header stays mapped until a child of this process creates a stream of its own, which detaches it first.
    let header = unsafe { header.as_ref() };
    header.add_timed(which, if taken <= SHORT { taken } else { taken.min(most(which, header)) });
}

/// Returns the most that a call counts, in ticks, by the counter's rate since the stream began.
fn most(which: Timed, header: &Header) -> u64 {
    let counted = ticks().saturating_sub(header.first_ticks);
    let passed = now_nanoseconds().saturating_sub(header.first_nanoseconds).max(1);
    (u128::from(counted) * u128::from(which.most_nanoseconds()) / u128::from(passed)) as u64
}

/// Counts calls in this header from now on.
pub(crate) fn attach(header: &Header) {
    HEADER.store(core::ptr::from_ref(header).cast_mut(), Ordering::Release);
}

/// Forgets the header: the child of a fork does not write to its parent's.
pub(crate) fn detach() {
    HEADER.store(null_mut(), Ordering::Relaxed);
}
