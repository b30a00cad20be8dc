//! The atomics of the segment under loom. A thread can be told after how many stores its process is killed: what it
//! stores from then on does not happen.

use std::cell::Cell;
use std::sync::atomic::Ordering;

loom::thread_local! {
    /// How many stores the thread's process still does; all, if it is not killed.
    static LEFT: Cell<Option<usize>> = Cell::new(None);
    /// Whether a store of it did not happen.
    static DIED: Cell<bool> = Cell::new(false);
}

/// Kills the calling thread's process after so many stores.
pub(crate) fn die_after(stores: usize) {
    LEFT.with(|left| left.set(Some(stores)));
}

fn lives() -> bool {
    LEFT.with(|left| {
        let stores = left.get();
        left.set(stores.map(|stores| stores.saturating_sub(1)));
        DIED.with(|died| died.set(died.get() || stores == Some(0)));
        stores != Some(0)
    })
}

/// Whether the calling thread's process has done all its stores.
pub(crate) fn survives() -> bool {
    DIED.with(|died| !died.get())
}

/// Loom sees the order of the instructions in any case, and what the dead did through the lock.
pub(crate) fn compiler_fence(_: Ordering) {}

macro_rules! atomic {
    ($name:ident, $integer:ty) => {
        #[derive(Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code, reason = "one type needs all, the other a part")]
        impl $name {
            pub(crate) fn load(&self, order: Ordering) -> $integer {
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $integer, order: Ordering) {
                if lives() {
                    self.0.store(value, order);
                }
            }

            pub(crate) fn fetch_add(&self, value: $integer, order: Ordering) -> $integer {
                if lives() { self.0.fetch_add(value, order) } else { self.0.load(Ordering::Relaxed) }
            }

            pub(crate) fn fetch_or(&self, value: $integer, order: Ordering) -> $integer {
                if lives() { self.0.fetch_or(value, order) } else { self.0.load(Ordering::Relaxed) }
            }

            pub(crate) fn fetch_and(&self, value: $integer, order: Ordering) -> $integer {
                if lives() { self.0.fetch_and(value, order) } else { self.0.load(Ordering::Relaxed) }
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                if lives() { self.0.compare_exchange(old, new, success, failure) } else { Err(!old) }
            }
        }
    };
}

atomic!(AtomicU8, u8);
atomic!(AtomicU64, u64);
