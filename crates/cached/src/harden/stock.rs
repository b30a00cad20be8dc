//! Slabs of no class: no block of theirs is in use. They keep their guards for the shelf that needs a slab next, so
//! that a program whose blocks change their lengths makes no system calls.

use heapwright_os::{ForkPass, Lock};

use super::draw::Draw;

/// The number of slabs that there is room for.
const ROOM: usize = 256;

/// The number that is kept at least, and the part of the slabs in use that is kept if that is more.
const LEAST_KEPT: usize = 16;
const KEPT_PART: usize = 8;

/// Slabs, by their numbers.
struct Stock {
    count: usize,
    numbers: [u32; ROOM],
}

static STOCK: Lock<Stock> = Lock::new(Stock { count: 0, numbers: [0; ROOM] });

/// Adds a slab; `false` if there are enough for `in_use` slabs in use.
pub(super) fn put(number: u32, in_use: usize) -> bool {
    let stock = &mut *STOCK.lock();
    if stock.count >= (in_use / KEPT_PART).clamp(LEAST_KEPT, ROOM) {
        return false;
    }
    stock.numbers[stock.count] = number;
    stock.count += 1;
    true
}

/// Takes a slab, drawn among all.
pub(super) fn take(draw: &mut Draw) -> Option<u32> {
    let stock = &mut *STOCK.lock();
    stock.count = stock.count.checked_sub(1)?;
    let last = stock.numbers[stock.count];
    // Where choices are not random, it is the last, whose memory was used last.
    let drawn = &mut stock.numbers[stock.count - draw.below(stock.count + 1)];
    Some(core::mem::replace(drawn, last))
}

/// Holds the stock for a fork.
pub(super) fn hold(pass: ForkPass<'_>) {
    STOCK.hold_for_fork(pass);
}

/// Undoes [`hold`].
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`hold`].
pub(super) unsafe fn let_go() {
    // SAFETY: as this function requires.
    unsafe { STOCK.let_go_after_fork() };
}
