//! What a thread leaves behind: free pages for which no request may come again.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use heapwright_os::coarse_nanoseconds;
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::purging;

/// Purges free pages after a thread has ended, where they are more than those in use: what it worked on is often gone
/// with it, and nothing may happen after it. A program whose threads end one after another, and leave the memory to the
/// next, pays for that, page faults included: in the beginning up to 0.3 s, then a fourteenth of its time.
pub(crate) fn tidy_after_thread() {
    /// The time that is to pass for each byte, in nanoseconds: fourteen times what purging it and a fault take.
    const PER_BYTE: u64 = 28;
    /// The time that may be used in advance, in nanoseconds: that for 143 MB.
    const ADVANCE: u64 = 4_000_000_000;
    /// The time until which such purging is paid for.
    static PAID: AtomicU64 = AtomicU64::new(0);
    if purging::period().is_none() {
        return;
    }
    loop {
        let (now, paid) = (coarse_nanoseconds(), PAID.load(Relaxed));
        let Some(mut arena) = (paid < now + ADVANCE).then(|| ARENA.lock()).flatten() else { return };
        let purged = arena.purge_after_thread();
        drop(arena);
        if purged == 0 {
            return;
        }
        let _ = PAID.compare_exchange(paid, paid.max(now) + purged as u64 * PER_BYTE, Relaxed, Relaxed);
    }
}
