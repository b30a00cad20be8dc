//! The condition in which a segment is found.

use heapwright_os::Taken;

use crate::format::header::Seal;
use crate::mapped::sections::Sections;
use crate::order::processes;

/// The condition in which a segment was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All processes have closed it.
    AtRest,
    /// Processes are attached and live.
    InUse,
    /// A process died while it worked on it; the next to use it will put it in order.
    Interrupted {
        /// The number of that process.
        by: u32,
    },
    /// All attached processes died; the next to use it will look through it.
    Abandoned,
    /// A process found that it contradicts itself, or its seal does; it must be repaired.
    Broken,
}

impl Condition {
    /// Returns the condition of a segment whose lock was taken as `taken` says.
    pub(crate) fn of(sections: &Sections, taken: Taken) -> Condition {
        let header = sections.header();
        match (taken, header.seal()) {
            _ if header.live.is_broken() => Condition::Broken,
            (Taken::FromTheDead(dead), _) => Condition::Interrupted { by: dead.pid },
            (Taken::Clean, Seal::Torn) => Condition::Broken,
            (Taken::Clean, Seal::Set(_)) => Condition::AtRest,
            (Taken::Clean, Seal::Open) if processes::any_alive(sections) => Condition::InUse,
            (Taken::Clean, Seal::Open) => Condition::Abandoned,
        }
    }
}
