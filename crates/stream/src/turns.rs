//! The order of the calls of several threads.
//!
//! The calls of a thread come in *turns*: calls that follow one another in its buffer, with a number from one counter.
//! A call that happens after another thread's call for the same block is in a turn with a higher number. Calls for
//! different blocks have no such order: those of a turn may be in either order with those of another thread in the same
//! time. Turns are short, and end when [`LATER`] others have begun, so that the time is short, too. A counter that each
//! call takes a number from would order all calls, but threads would wait for one another at its cache line with each.
//!
//! That order needs a cell for each part of the address space, which has the latest turn with a call there. A thread
//! goes on with its turn as long as no other thread has begun a later one for the same part:
//!
//! - A call is recorded only while the cell of its block has the number of its turn ([`mark`]), and a cell only grows.
//! - So when a call happens after another thread's call for the same block, it has found the other's number or a higher
//!   one in the cell: its own number is higher, or both calls are in one turn. Turns are of one buffer each, so that
//!   this is the buffer that threads share behind a lock, which has its calls in their order.
//!
//! While one thread alone writes, nothing is marked: a second one sets [`SEVERAL`] before it takes its first number,
//! and a number that the first one takes afterwards shows it that.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use heapwright_os::spread;

/// The number of cells; a power of two.
const CELLS: usize = 1 << 16;

/// The binary logarithm of the number of cells in a cache line.
const LOG2_LINE: u32 = 3;

/// The binary logarithm of the bytes that a cell stands for. Other bytes, far away, have the same cell.
const LOG2_PART: u32 = 16;

/// A turn ends when this number of later ones has begun, or up to twice that. It is far above the number of threads
/// that record at once: each of them begins a turn then.
const LATER: u64 = 256;

/// A counter in cache lines of its own (processors fetch two at a time): threads that take turns at it would lose what
/// lies beside it with each turn.
#[repr(align(128))]
struct Counter(AtomicU64);

/// The number of the next turn.
static NEXT: Counter = Counter(AtomicU64::new(1));

/// The latest number of a turn that [`LATER`] divides, or an earlier one: turns before it are over.
static OVER: Counter = Counter(AtomicU64::new(0));

/// Whether more than one buffer may be written to.
static SEVERAL: AtomicBool = AtomicBool::new(false);

/// Cells, eight of which are a cache line.
#[repr(align(64))]
struct Cells([AtomicU64; CELLS]);

/// The latest turn with a call in each part.
static LATEST: Cells = Cells([const { AtomicU64::new(0) }; CELLS]);

/// Returns the cell of an address. The eight parts of 512 KiB share a cache line.
#[inline(always)]
fn cell(address: u64) -> &'static AtomicU64 {
    let part = address >> LOG2_PART;
    let line = spread(part >> LOG2_LINE) >> (u64::BITS + LOG2_LINE - CELLS.ilog2());
    let within = part & ((1 << LOG2_LINE) - 1);
    &LATEST.0[(line << LOG2_LINE | within) as usize % CELLS]
}

/// Whether more than one buffer may be written to: then calls are [marked](mark).
#[inline(always)]
pub(crate) fn are_several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

/// Notes that another buffer than the first will be written to. Called before a number is taken for it.
pub(crate) fn note_several() {
    SEVERAL.store(true, Ordering::Relaxed);
}

/// Notes that this process has one thread, and no buffer yet: it is the child of a fork.
pub fn note_forked() {
    SEVERAL.store(false, Ordering::Relaxed);
}

/// Returns the number that the next turn will have.
pub(crate) fn next() -> u64 {
    NEXT.0.load(Ordering::Relaxed)
}

/// Returns the number of a new turn that begins without a call.
pub(crate) fn begin() -> u64 {
    // What `note_several` has stored is visible to those who take a higher number.
    let turn = NEXT.0.fetch_add(1, Ordering::AcqRel);
    if turn.is_multiple_of(LATER) {
        OVER.0.store(turn, Ordering::Relaxed);
    }
    turn
}

/// Whether a turn is over because [`LATER`] others have begun since.
#[inline(always)]
pub(crate) fn is_over(turn: u64) -> bool {
    turn < OVER.0.load(Ordering::Relaxed)
}

/// Returns the number of a new turn that begins with a call for the block at `address`.
pub(crate) fn begin_at(address: u64) -> u64 {
    loop {
        let turn = begin();
        // If not, another thread has begun a later one there: each attempt fails because one has succeeded.
        if mark(address, turn) {
            return turn;
        }
    }
}

/// Marks that there is a call for the block at `address` in this turn. Returns `false`, and there must not be, when
/// another turn with a higher number had one nearby.
#[inline(always)]
pub(crate) fn mark(address: u64, turn: u64) -> bool {
    let cell = cell(address);
    // Orders nothing but the cell itself: see above.
    cell.load(Ordering::Relaxed) == turn || cell.fetch_max(turn, Ordering::Relaxed) <= turn
}

/// Tests take turns at the numbers of turns, and at whether there are several threads.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    note_forked();
    alone
}
