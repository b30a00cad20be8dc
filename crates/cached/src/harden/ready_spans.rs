//! Spans of long blocks that were freed, with their guards. They serve the next blocks of their length with fewer
//! system calls than new spans. Under quarantine they have waited, and are sealed, without memory. Otherwise they keep
//! their memory: then only short ones are here, and few.

use heapwright_os::{ForkPass, Lock};

use super::{Measures, span, span_pages};
use heapwright_slabs::mode::measures;

/// The number of spans that there is room for.
const ROOM: usize = 32;

/// The number of spans of one length among which one is drawn, where choices are random.
const LEAST_DRAWN: usize = 4;

/// The bytes of memory that all spans may keep.
const MOST_KEPT: usize = 1 << 20;

/// Spans, by their numbers, and the bytes of their memory.
struct Ready {
    count: usize,
    numbers: [u32; ROOM],
    kept: usize,
}

static READY: Lock<Ready> = Lock::new(Ready { count: 0, numbers: [0; ROOM], kept: 0 });

impl Ready {
    fn take(&mut self, at: usize) -> u32 {
        let number = self.numbers[at];
        self.numbers.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.kept -= span_pages::kept(number);
        number
    }
}

/// Adds a span that can be [reopened](span_pages::reopen); returns the one that has been here longest if there is no
/// room for both.
pub(super) fn add(number: u32) -> Option<u32> {
    let ready = &mut *READY.lock();
    let oldest = (ready.count == ROOM).then(|| ready.take(0));
    ready.numbers[ready.count] = number;
    ready.count += 1;
    ready.kept += span_pages::kept(number);
    oldest
}

/// Takes the span that has been here longest, as long as they keep too much memory.
pub(super) fn take_excess() -> Option<u32> {
    let ready = &mut *READY.lock();
    (ready.kept > MOST_KEPT).then(|| ready.take(0))
}

/// Takes a span of a length, drawn among several where choices are random.
pub(super) fn take(length: usize) -> Option<u32> {
    let ready = &mut *READY.lock();
    let fits = |&at: &usize| span::length(ready.numbers[at]) == length;
    let found = (0..ready.count).filter(fits).count();
    let least = if measures().have(Measures::RANDOM) { LEAST_DRAWN } else { 1 };
    if found < least {
        return None;
    }
    let at = (0..ready.count).filter(fits).nth(span::draw_below(found))?;
    Some(ready.take(at))
}

/// Takes any span.
pub(super) fn take_any() -> Option<u32> {
    let ready = &mut *READY.lock();
    ready.count.checked_sub(1).map(|last| ready.take(last))
}

/// Holds the lock for a fork.
pub(super) fn hold(pass: ForkPass<'_>) {
    READY.hold_for_fork(pass);
}

/// Undoes [`hold`].
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`hold`].
pub(super) unsafe fn let_go() {
    // SAFETY: as this function requires.
    unsafe { READY.let_go_after_fork() };
}
