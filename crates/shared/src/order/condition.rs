//! In which condition a segment is found.

use heapwright_os::Taken;

use crate::format::header::Seal;
use crate::mapped::sections::Sections;
use crate::order::processes;

/// In which condition a segment was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Everybody has closed it.
    AtRest,
    /// Processes are attached and live.
    InUse,
    /// A process died while it worked on it; the next to use it will put it in order.
    Interrupted {
        /// The number of that process.
        by: u32,
    },
    /// All who were attached died; the next to use it will look through it.
    Abandoned,
    /// Somebody found that it contradicts itself, or its seal does; it must be repaired.
    Broken,
}

impl Condition {
    /// The condition of a segment whose lock was got as `taken` says.
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
