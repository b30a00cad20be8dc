//! How much the lists of a thread may hold above their least capacities.
//!
//! Blocks in a list keep their pages in memory, and only the list's thread can flush it: a thread that sleeps keeps
//! what its lists hold. Each thread may use [`OWN`] bytes; what it needs above is of one budget for all threads.
//! Programs with up to some dozen threads never reach it.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that each thread may use.
const OWN: usize = 96 << 10;

/// The bytes that all threads may use above that.
const BUDGET: usize = 32 << 20;

/// The step in which a thread reserves bytes of the budget.
const STEP: usize = 64 << 10;

/// The bytes of the budget that threads have reserved.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// The bytes of the capacities of a thread's lists above the least ones, and what was reserved for them.
pub(super) struct Allowance {
    used: u32,
    reserved: u32,
}

impl Allowance {
    pub(super) const NONE: Allowance = Allowance { used: 0, reserved: 0 };

    /// Adds `bytes` to the capacities; returns whether they are allowed.
    pub(super) fn add(&mut self, bytes: u32) -> bool {
        let wanted = (self.used + bytes) as usize;
        let allowed = OWN + self.reserved as usize;
        if wanted > allowed {
            let more = (wanted - allowed).next_multiple_of(STEP);
            if RESERVED.fetch_add(more, Ordering::Relaxed) + more > BUDGET {
                RESERVED.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
            self.reserved += more as u32;
        }
        self.used += bytes;
        true
    }

    /// Subtracts `bytes` from the capacities.
    pub(super) fn subtract(&mut self, bytes: u32) {
        self.used -= bytes;
    }

    /// Gives back what was reserved: all capacities are the least ones.
    pub(super) fn clear(&mut self) {
        RESERVED.fetch_sub(self.reserved as usize, Ordering::Relaxed);
        *self = Allowance::NONE;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn many_threads_together_are_bounded_and_each_has_its_own() {
        let mut all: Vec<_> = (0..500).map(|_| Allowance::NONE).collect();
        let mut allowed = 0;
        for allowance in &mut all {
            for _ in 0..1024 {
                allowed += if allowance.add(1 << 10) { 1 << 10 } else { 0 };
            }
            assert!(allowance.used as usize >= OWN, "{}", allowance.used);
        }
        assert!((BUDGET / 2..=500 * OWN + BUDGET).contains(&allowed), "{allowed}");
        let last = all.last_mut().unwrap();
        assert!(!last.add(1 << 10));
        last.subtract(1 << 10);
        assert!(last.add(1 << 10));
        all.iter_mut().for_each(Allowance::clear);
        assert!(last_can_grow(&mut all));
    }

    fn last_can_grow(all: &mut [Allowance]) -> bool {
        let last = all.last_mut().unwrap();
        let grows = last.add(1 << 20);
        last.clear();
        grows
    }
}
