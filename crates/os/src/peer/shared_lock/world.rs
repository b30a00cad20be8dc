//! The system calls and atomics of the lock's protocol; `model.rs` has the same names for loom.

pub(super) use core::hint::spin_loop;
pub(super) use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::peer::deaths::Deaths;
use crate::peer::identity::{Identity, Life};
use crate::time::ticks::now_nanoseconds;

/// Number of spins before a thread sleeps: longer than an allocation takes.
pub(super) const SPINS: u32 = 100;

/// The time since a fixed moment, not counting suspension of the system.
pub(super) fn now() -> Duration {
    Duration::from_nanos(now_nanoseconds())
}

pub(super) fn life(process: Identity, deaths: Deaths) -> Life {
    deaths.life_of(process)
}

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slept {
    /// A thread has released the lock.
    UntilWoken,
    /// Anything else: the time has passed, a signal came, or the word had changed before.
    Otherwise,
}

/// Sleeps until woken, for `at_most`, unless the low half of `word` differs from that of `expected`.
pub(super) fn sleep(word: &AtomicU64, expected: u64, at_most: Duration) -> Slept {
    let time =
        libc::timespec { tv_sec: at_most.as_secs().try_into().unwrap_or(1), tv_nsec: at_most.subsec_nanos().into() };
    // SAFETY: the word is borrowed for the call, and the time is a local variable.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, expected as u32, &raw const time) };
    if result == 0 { Slept::UntilWoken } else { Slept::Otherwise }
}

/// Wakes a thread that sleeps on the word, in any process.
pub(super) fn wake(word: &AtomicU64) {
    // SAFETY: waking only uses the word's address.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, 1) };
}

/// The 32 bits that the system call compares.
fn low_half(word: &AtomicU64) -> *const u32 {
    let halves = word.as_ptr().cast::<u32>().cast_const();
    if cfg!(target_endian = "little") { halves } else { halves.wrapping_add(1) }
}
