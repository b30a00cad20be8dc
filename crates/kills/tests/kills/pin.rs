//! One processor for tracer and traced: a step is then a switch, and not a call to another processor (3 times slower).

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps this process, and those it makes, on one processor while it lives.
pub struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    /// Stays on the present processor. Where that is not allowed, all is merely slower.
    pub fn here() -> Pinned {
        let mut one = CpuSet::new();
        let before = sched_getaffinity(Pid::from_raw(0)).ok();
        let pinned = sched_getcpu()
            .and_then(|processor| one.set(processor))
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &one));
        Pinned { before: before.filter(|_| pinned.is_ok()) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It was allowed a moment ago.
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}
