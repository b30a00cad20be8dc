//! Time at the price of an instruction.

/// A counter that runs at a steady rate, which [`now_nanoseconds`](crate::now_nanoseconds) tells; the same on all processors of
/// a machine whose processors say so, as nearly all do.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads a counter.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let count: u64;
        // SAFETY: reads a counter.
        unsafe {
            core::arch::asm!("mrs {count}, cntvct_el0", count = out(reg) count, options(nomem, nostack, preserves_flags));
        }
        count
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
    now_nanoseconds()
}

/// The time of the system's steady clock in nanoseconds since some beginning.
#[must_use]
pub fn now_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_run_forwards() {
        let before = (ticks(), now_nanoseconds());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(ticks() > before.0 && now_nanoseconds() >= before.1 + 2_000_000);
    }
}
