//! Facts about the system that calls have revealed: a call that the system does not support is made once.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::call::effect::Discarding;
use crate::call::errno::errno;
use crate::call::page_size::page_size;

/// The most guarded ranges that are mappings of their own. Each splits a mapping and so costs two of the 65,530 that
/// Linux grants a process unless it is told otherwise (`vm.max_map_count`).
pub(crate) const MOST_PROTECTED: usize = 8192;

/// Advice of Linux 6.13 and later: guard pages without a mapping of their own.
pub(crate) const MADV_GUARD_INSTALL: i32 = 102;
pub(crate) const MADV_GUARD_REMOVE: i32 = 103;

/// What the system of this process can do. Each fact is learnt from the first call that depends on it.
pub struct Platform {
    no_populate: Unsupported,
    no_guard_advice: Unsupported,
    no_page_advice: Unsupported,
    no_purge_by_vectors: Unsupported,
    guarding: Discarding,
    purging: Discarding,
    protected: AtomicUsize,
}

static PLATFORM: Platform = Platform {
    no_populate: Unsupported::new(),
    no_guard_advice: Unsupported::new(),
    no_page_advice: Unsupported::new(),
    no_purge_by_vectors: Unsupported::new(),
    guarding: Discarding::new(MADV_GUARD_INSTALL, MADV_GUARD_REMOVE),
    purging: Discarding::new(libc::MADV_DONTNEED, libc::MADV_DONTNEED),
    protected: AtomicUsize::new(0),
};

/// Returns the record of this process's system.
#[inline]
#[must_use]
pub fn platform() -> &'static Platform {
    &PLATFORM
}

impl Platform {
    /// Returns the length of an OS page in bytes.
    #[inline]
    #[must_use]
    pub fn page_size(&self) -> usize {
        page_size()
    }

    /// Whether memory can be populated by one call (Linux 5.14), as far as is known.
    #[must_use]
    pub fn can_populate(&self) -> bool {
        self.no_populate.is_worth_a_call()
    }

    /// Whether pages can be guarded without a mapping for each range (Linux 6.13), as far as is known.
    #[must_use]
    pub fn can_guard_by_advice(&self) -> bool {
        self.no_guard_advice.is_worth_a_call() && !self.guarding.is_pretended()
    }

    /// Returns the number of guarded ranges that are mappings of their own now; at most 8192.
    #[must_use]
    pub fn protected_guards(&self) -> usize {
        self.protected.load(Ordering::Relaxed)
    }

    pub(crate) fn populate(&self) -> &Unsupported {
        &self.no_populate
    }

    pub(crate) fn guard_advice(&self) -> &Unsupported {
        &self.no_guard_advice
    }

    /// The advice that purges pages.
    pub(crate) fn purging(&self) -> &Discarding {
        &self.purging
    }

    pub(crate) fn page_advice(&self) -> &Unsupported {
        &self.no_page_advice
    }

    pub(crate) fn purge_by_vectors(&self) -> &Unsupported {
        &self.no_purge_by_vectors
    }

    /// Counts one more guarded range with a mapping of its own, unless there are [`MOST_PROTECTED`].
    pub(crate) fn count_protected(&self) -> bool {
        let more = |count| (count < MOST_PROTECTED).then_some(count + 1);
        self.protected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn discount_protected(&self, ranges: usize) {
        let fewer = |count: usize| Some(count.saturating_sub(ranges));
        let _ = self.protected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Whether a call has turned out not to be supported.
pub(crate) struct Unsupported(AtomicBool);

impl Unsupported {
    const fn new() -> Unsupported {
        Unsupported(AtomicBool::new(false))
    }

    pub(crate) fn is_worth_a_call(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    /// Makes a call that returns 0 for success, unless it was found not to be supported; returns whether it succeeded.
    /// Errors other than those of systems and sandboxes without the call do not count.
    pub(crate) fn call(&self, call: impl FnOnce() -> i32) -> bool {
        if !self.is_worth_a_call() {
            return false;
        }
        let result = call();
        if result != 0 && is_unsupported(errno()) {
            self.0.store(true, Ordering::Relaxed);
        }
        result == 0
    }
}

/// Whether a call failed because the system, or a sandbox, does not have it.
pub(crate) fn is_unsupported(error: i32) -> bool {
    matches!(error, libc::EINVAL | libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EBADF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::errno::{errno_kept, set_errno};

    #[test]
    fn an_unsupported_call_is_made_once() {
        let advice = Unsupported::new();
        let mut calls = 0;
        errno_kept(|| {
            for error in [libc::ENOMEM, libc::EAGAIN, libc::EINVAL, libc::EINVAL] {
                let succeeded = advice.call(|| {
                    calls += 1;
                    set_errno(error);
                    -1
                });
                assert!(!succeeded);
            }
        });
        assert_eq!((calls, advice.is_worth_a_call()), (3, false));
    }

    #[test]
    fn guards_with_mappings_of_their_own_are_bounded() {
        let platform = Platform {
            no_populate: Unsupported::new(),
            no_guard_advice: Unsupported::new(),
            no_page_advice: Unsupported::new(),
            no_purge_by_vectors: Unsupported::new(),
            guarding: Discarding::new(MADV_GUARD_INSTALL, MADV_GUARD_REMOVE),
            purging: Discarding::new(libc::MADV_DONTNEED, libc::MADV_DONTNEED),
            protected: AtomicUsize::new(MOST_PROTECTED - 1),
        };
        assert!(platform.count_protected() && !platform.count_protected());
        platform.discount_protected(2);
        assert_eq!(platform.protected_guards(), MOST_PROTECTED - 2);
    }
}
