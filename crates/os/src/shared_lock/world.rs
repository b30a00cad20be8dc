//! What the protocol of the lock stands on, as it is; `model.rs` has the same names for loom.

pub(super) use core::hint::spin_loop;
pub(super) use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

pub(super) use crate::identity::life;

/// How often one looks again before one sleeps: longer than an allocation takes.
pub(super) const SPINS: u32 = 100;

/// Time since some fixed moment, as far as the system was awake.
pub(super) fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a local variable. This clock exists on every system, so the call does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Sleeps until woken, at most as long as told, unless the low half of `word` is not that of `expected`; may also wake for no reason.
pub(super) fn sleep(word: &AtomicU64, expected: u64, at_most: Duration) {
    let time =
        libc::timespec { tv_sec: at_most.as_secs().try_into().unwrap_or(1), tv_nsec: at_most.subsec_nanos().into() };
    // SAFETY: the word outlives the call, and the time is a local variable.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, expected as u32, &raw const time) };
}

/// Wakes one who sleeps on the word, in whatever process.
pub(super) fn wake(word: &AtomicU64) {
    // SAFETY: waking takes nothing but the word's address.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, 1) };
}

/// The 32 bits that the system compares.
fn low_half(word: &AtomicU64) -> *const u32 {
    let halves = word.as_ptr().cast::<u32>().cast_const();
    if cfg!(target_endian = "little") { halves } else { halves.wrapping_add(1) }
}
