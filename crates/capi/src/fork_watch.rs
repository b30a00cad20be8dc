//! Locks of interfaces that have one state in each process.

use heapwright_os::{HeldAcrossForks, hold_across_forks};

/// Whether a fork waits until no other thread of this process holds a lock: in the child it would be held for ever. Lies
/// behind that lock.
pub(crate) struct ForkWatch {
    is_begun: bool,
}

impl ForkWatch {
    pub(crate) const NONE: ForkWatch = ForkWatch { is_begun: false };

    /// Has forks wait from now on; `None` when there is no memory for that.
    pub(crate) fn begin<H: HeldAcrossForks>(&mut self) -> Option<()> {
        if !self.is_begun {
            hold_across_forks::<H>().ok()?;
            self.is_begun = true;
        }
        Some(())
    }
}
