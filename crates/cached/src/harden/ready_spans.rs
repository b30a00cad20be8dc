//! Spans of long blocks that have waited: they are sealed, without memory, and serve the next blocks of their length
//! with fewer system calls than new spans.

use heapwright_os::{ForkPass, Lock};

use super::Measures;
use super::span;
use heapwright_slabs::mode::measures;

/// The number of spans that there is room for.
const ROOM: usize = 32;

/// The number of spans of one length among which one is drawn, where choices are random.
const LEAST_DRAWN: usize = 4;

/// Spans, by their numbers.
struct Ready {
    count: usize,
    numbers: [u32; ROOM],
}

static READY: Lock<Ready> = Lock::new(Ready { count: 0, numbers: [0; ROOM] });

impl Ready {
    fn take(&mut self, at: usize) -> u32 {
        let number = self.numbers[at];
        self.numbers.copy_within(at + 1..self.count, at);
        self.count -= 1;
        number
    }
}

/// Adds a sealed span; returns the one that has been here longest if there is no room for both.
pub(super) fn add(number: u32) -> Option<u32> {
    let ready = &mut *READY.lock();
    let oldest = (ready.count == ROOM).then(|| ready.take(0));
    ready.numbers[ready.count] = number;
    ready.count += 1;
    oldest
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
