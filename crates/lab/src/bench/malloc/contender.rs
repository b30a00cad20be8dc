//! Whose malloc is measured: the columns of the tables.

use crate::allocator::Allocator;
use crate::bench::contender::{SYSTEM, SYSTEM_AGAIN};
use crate::peers::{self, Peer};
use crate::policy;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The name over it.
    pub name: String,
    /// Whose malloc it is.
    pub allocator: Allocator,
    /// What it is there for.
    pub role: Role,
}

impl Contender {
    /// What it is in which version, of somebody else's.
    pub fn version(&self) -> Option<String> {
        match &self.allocator {
            Allocator::Peer(peer) => Some(peer.version()),
            _ => None,
        }
    }
}

/// What a column is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All others are held against it.
    Baseline,
    /// The project's own malloc.
    Ours,
    /// Somebody else's.
    Peer,
    /// The baseline once more: how far it is from itself is noise.
    Noise,
}

/// The system's malloc, ours, those that are given, those that are found and have not the name of one given, and the system's again.
pub fn all(given: &[Peer]) -> Vec<Contender> {
    let found = peers::find().into_iter().filter(|peer| given.iter().all(|other| other.name != peer.name));
    let peers = given.iter().cloned().chain(found);
    let mut all = vec![
        Contender { name: SYSTEM.to_owned(), allocator: Allocator::System, role: Role::Baseline },
        Contender {
            name: policy::CACHED.to_owned(),
            allocator: Allocator::Heapwright(policy::CACHED),
            role: Role::Ours,
        },
    ];
    all.extend(peers.map(|peer| Contender {
        name: peer.name.clone(),
        allocator: Allocator::Peer(peer),
        role: Role::Peer,
    }));
    all.push(Contender { name: SYSTEM_AGAIN.to_owned(), allocator: Allocator::System, role: Role::Noise });
    all
}
