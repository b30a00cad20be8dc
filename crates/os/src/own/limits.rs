//! What limits the memory of this process, for messages.

/// What may be why this process was refused memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Its limit on address space.
    Space,
    /// Its limit on data.
    Data,
    /// One of both.
    SpaceOrData,
    /// None of its own: what the system or a control group has.
    Elsewhere,
}

impl MemoryLimit {
    /// All of them.
    pub const ALL: [MemoryLimit; 4] =
        [MemoryLimit::Space, MemoryLimit::Data, MemoryLimit::SpaceOrData, MemoryLimit::Elsewhere];

    /// Returns what may limit this process, by the limits that are set.
    #[must_use]
    pub fn of_this_process() -> MemoryLimit {
        match (is_set(libc::RLIMIT_AS), is_set(libc::RLIMIT_DATA)) {
            (true, true) => MemoryLimit::SpaceOrData,
            (true, false) => MemoryLimit::Space,
            (false, true) => MemoryLimit::Data,
            (false, false) => MemoryLimit::Elsewhere,
        }
    }

    /// Returns what to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            MemoryLimit::Space => "raise the limit on address space (`ulimit -v`)",
            MemoryLimit::Data => "raise the limit on data (`ulimit -d`)",
            MemoryLimit::SpaceOrData => "raise the limits `ulimit -v` and `ulimit -d`",
            MemoryLimit::Elsewhere => {
                "free memory, or raise what limits it: that of the control group, or overcommit (vm.overcommit_memory)"
            }
        }
    }
}

fn is_set(resource: Resource) -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the limit is written to a local variable.
    unsafe { libc::getrlimit(resource, &mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}

/// The C library's type of a kind of limit.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = i32;
