//! Upkeep: what threads do for the heap now and then, while they fill lists and place long blocks.
//!
//! Free pages that were not used for a period are purged: those of holes of the arena, of slabs, and of long blocks in
//! caches. A page was not used if the arena placed less than it has in holes, or if a heap never had fewer idle pages.
//! Each step does bounded work, some times in a period. A program in a steady state asks again for what it frees, and
//! nothing of it is purged; what was purged too early is retained for longer.
//!
//! Where memory is scarce (`scarcity`), and where the system refuses it, all that is free is purged at once.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use heapwright_os::{
    coarse_nanoseconds, process_id, sleep_for, split_all_huge_pages, split_some_huge_pages, start_background,
    thread_count,
};

use crate::lifecycle::heap_to_allocate_in;
use crate::trim::trim_heaps;
use crate::{decay, long};
use heapwright_slabs::arena::{ARENA, ArenaGuard};
use heapwright_slabs::heap::{Heap, Owned};
use heapwright_slabs::{purging, scarcity};

/// The heaps of other threads that are visited in one step.
const VISITS: u32 = 16;

/// The bytes that the heap has taken when the purging thread is started.
const ENOUGH: usize = 4 << 20;

/// The slabs that had been placed when heaps were visited because of them.
static SLABS_BEFORE: AtomicUsize = AtomicUsize::new(0);

/// The heap that was visited last.
static VISITED: AtomicU32 = AtomicU32::new(0);

/// Counts that the calling thread has filled a list or placed a long block; does what is due.
#[inline]
pub(crate) fn count(heap: Owned) {
    if heap.count_filled() {
        attend(heap, 0);
    }
}

/// As [`count`], after a long block was placed, for a thread that may have no heap: it gets one when a limit has to be
/// checked. `coming` are the bytes of its mapping that were not there before.
pub(crate) fn count_long(heap: Option<Owned>, coming: usize) {
    /// The least bytes for which known limits are checked: the system takes longer to clear them.
    const LONG: usize = 4 << 20;
    if coming >= LONG && scarcity::known_limit().is_some() {
        scarcity::make_due();
    }
    let or_adopted = || if scarcity::is_due() { heap_to_allocate_in() } else { None };
    if let Some(heap) = heap.or_else(or_adopted)
        && heap.count_filled()
    {
        attend(heap, coming);
    }
}

#[cold]
#[inline(never)]
fn attend(heap: Owned, coming: usize) {
    if scarcity::is_due() {
        relieve_if_scarce(coming);
    }
    let Some(period) = purging::period() else { return };
    if purging::wants_thread() {
        start_thread();
    }
    let now = coarse_nanoseconds();
    if heap.decay(now, period) {
        long::flush_unused(heap);
    }
    visit_for_growth(now);
    if decay::is_due(now, period) {
        scarcity::check_again(now);
        step(now, period, VISITS);
    }
}

/// Purges what was not used in the arena, and in the slabs of up to `visits` heaps whose threads are not active.
fn step(now: u64, period: u64, visits: u32) {
    decay::decay_arena(now, period);
    visit(visits, now, period.saturating_mul(2));
    split_some_huge_pages();
}

/// Visits a few heaps after others have got slabs: what their threads do not use serves these.
fn visit_for_growth(now: u64) {
    /// The slabs for which heaps are visited.
    const SLABS: usize = 16;
    /// The time in which a thread has filled no list, in nanoseconds.
    const QUIET: u64 = 100_000_000;
    let (placed, before) = (ARENA.slabs_placed(), SLABS_BEFORE.load(Relaxed));
    if placed.wrapping_sub(before) >= SLABS && SLABS_BEFORE.compare_exchange(before, placed, Relaxed, Relaxed).is_ok() {
        visit(VISITS, now, QUIET);
    }
}

/// Visits up to `most` heaps, and purges what is idle in those whose threads were `quiet` nanoseconds without filling a
/// list.
fn visit(most: u32, now: u64, quiet: u64) {
    let Some(made) = ARENA.lock().map(|arena| arena.heaps.made()) else { return };
    for _ in 0..most.min(made) {
        let number = VISITED.fetch_add(1, Relaxed) % made + 1;
        Heap::of(number).decay_as_visitor(now, quiet);
    }
}

/// Purges all that is free if the process is near a limit of its memory, or will be when the program has written to
/// the `coming` bytes of a block that was just placed.
fn relieve_if_scarce(coming: usize) {
    let Some(taken) = ARENA.lock().map(|arena| arena.taken()) else { return };
    if scarcity::check(taken, coming) && scarcity::is_scarce() {
        relieve();
    }
}

/// Purges all that is free after the system has refused memory; returns whether it is worth while to try again: not
/// where nothing was taken or given back since the last time.
#[cold]
#[inline(never)]
pub(crate) fn relieve_refused() -> bool {
    static AT_LAST: AtomicUsize = AtomicUsize::new(0);
    let Some(taken) = ARENA.lock().map(|arena| arena.taken()) else { return false };
    let is_new = AT_LAST.swap(taken, Relaxed) != taken;
    if is_new {
        relieve();
    }
    is_new
}

fn relieve() {
    trim_heaps();
    if let Some(mut arena) = ARENA.lock() {
        arena.trim();
    }
    split_all_huge_pages();
}

/// Starts the purging thread in a heap with some MiB. Where that fails, threads that allocate purge.
#[cold]
fn start_thread() {
    let is_worth_it = |arena: ArenaGuard| arena.taken() >= ENOUGH && arena.heaps.is_of(process_id());
    if !ARENA.lock().is_some_and(is_worth_it) || !purging::begin_thread() {
        return;
    }
    // Without the number of threads, the thread could not end when it is the last.
    if thread_count().is_some() {
        let _ = start_background(purge_for_ever);
    }
}

/// The purging thread. It ends when it is the only one, so that the process ends.
extern "C" fn purge_for_ever(_: *mut c_void) -> *mut c_void {
    while let Some(period) = purging::period() {
        sleep_for(decay::step_of(period));
        if thread_count().is_none_or(|threads| threads <= 1) {
            break;
        }
        step(coarse_nanoseconds(), period, u32::MAX);
    }
    null_mut()
}
