//! What a thread leaves behind: free pages for which no request may come again.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use heapwright_os::coarse_nanoseconds;
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::heap::{Owned, Pages};
use heapwright_slabs::{mode, purging};

/// The heaps of ended threads that keep their pages for the next threads.
const KEPT: usize = 16;

/// The time that is to pass for each byte that is purged, in nanoseconds: fourteen times what that and a fault take.
const PER_BYTE: u64 = 28;

/// The time that may be used in advance, in nanoseconds: that for 143 MB.
const ADVANCE: u64 = 4_000_000_000;

/// The time until which purging is paid for.
static PAID: AtomicU64 = AtomicU64::new(0);

/// Purges the idle pages in the flushed heap of a thread that ends, where enough heaps of others that have ended keep
/// theirs for the next threads; returns what became of them. What a program pays for that is bounded as for
/// [`tidy_after_thread`].
pub(crate) fn keep_or_purge(heap: Owned) -> Pages {
    let others_keep = || ARENA.lock().is_some_and(|arena| arena.heaps.has_kept(KEPT));
    if mode::is_hardened() || purging::period().is_none() || !others_keep() {
        return Pages::Kept;
    }
    let Some(paid) = affordable() else { return Pages::Kept };
    pay(paid, heap.purge_idle());
    Pages::Purged
}

/// Purges free pages after a thread has ended, where they are more than those in use: what it worked on is often gone
/// with it, and nothing may happen after it. A program whose threads end one after another, and leave the memory to the
/// next, pays for that, page faults included: in the beginning up to 0.3 s, then a fourteenth of its time.
pub(crate) fn tidy_after_thread() {
    if purging::period().is_none() {
        return;
    }
    while let Some(paid) = affordable()
        && let Some(mut arena) = ARENA.lock()
    {
        let purged = arena.purge_after_thread();
        drop(arena);
        if purged == 0 {
            return;
        }
        pay(paid, purged);
    }
}

/// Returns until when purging is paid for, if more may be done.
fn affordable() -> Option<u64> {
    let paid = PAID.load(Relaxed);
    (paid < coarse_nanoseconds() + ADVANCE).then_some(paid)
}

/// Pays for a number of bytes after purging was paid for until `paid`, unless another thread pays at the same time.
fn pay(paid: u64, bytes: usize) {
    let now = coarse_nanoseconds();
    let _ = PAID.compare_exchange(paid, paid.max(now) + bytes as u64 * PER_BYTE, Relaxed, Relaxed);
}
