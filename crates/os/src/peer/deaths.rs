//! What a process can find out about the deaths of others.

use crate::call::errno::errno_kept;
use crate::peer::announcement::Announcements;
use crate::peer::identity::{Identity, Life, Numbers, life};

/// What the calling process can find out about the deaths of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deaths {
    /// What their numbers say.
    Known,
    /// Nothing.
    Unknown,
    /// Of those that announced themselves, whether they still do; and what their numbers say, if the calling process is
    /// in this [`pid_namespace`](crate::pid_namespace).
    Announced(Announcements, Option<u64>),
}

impl Deaths {
    /// Returns whether `process` lives. It counts as alive where nothing is known of it, if it is one at all, and where
    /// one thing says that it lives and another that it does not.
    #[must_use]
    pub fn life_of(self, process: Identity) -> Life {
        if !process.is_possible() {
            return Life::Dead;
        }
        let announcement = self.announcement_of(process);
        // A process that announces itself lives, even if its number says otherwise.
        if announcement == Some(Life::Alive) {
            return Life::Alive;
        }
        match (announcement, self.number_of(process)) {
            (None, None) | (_, Some(Life::Alive)) => Life::Alive,
            _ => Life::Dead,
        }
    }

    /// Returns why it is not certain whether `process` lives, in words that follow "because"; `None` if it is.
    #[must_use]
    pub fn doubt_about(self, process: Identity) -> Option<&'static str> {
        match (self.announcement_of(process), self.number_of(process)) {
            _ if !process.is_possible() => None,
            (None, None) if process.is_announced() => {
                Some("its number is of another namespace of processes, and its lock on the file cannot be looked up")
            }
            (None, None) => Some("its namespace of processes is unknown here"),
            (Some(Life::Dead), Some(Life::Alive)) => Some(
                "it runs, but has no lock on this file: it has replaced its program or unmapped the file, or this \
                     is a copy",
            ),
            (Some(Life::Alive), Some(Life::Dead)) => Some(
                "it has ended, but its lock on the file is there: a process that it forked, or a debugger, keeps it",
            ),
            _ => None,
        }
    }

    /// Returns what the process's announcement says of it, if there may be one.
    fn announcement_of(self, process: Identity) -> Option<Life> {
        match self {
            Deaths::Announced(announcements, _) if process.is_announced() => {
                errno_kept(|| announcements.life_of(process))
            }
            _ => None,
        }
    }

    /// Returns what the process's number says of it, if that means something here.
    fn number_of(self, process: Identity) -> Option<Life> {
        let numbers = match self {
            Deaths::Known => Numbers::Known,
            Deaths::Unknown => Numbers::Unknown,
            Deaths::Announced(_, namespace) => Numbers::of(namespace),
        };
        let is_comparable = numbers == Numbers::Known && process.has_known_number();
        is_comparable.then(|| life(process))
    }
}
