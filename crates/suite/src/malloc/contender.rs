//! The contenders: the columns of the tables.

use crate::contender::SYSTEM;
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_allocators::peers::{self, Peer};
use heapwright_allocators::policy;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its heading.
    pub name: String,
    /// The allocator.
    pub allocator: Allocator,
    /// Its role.
    pub role: Role,
}

impl Contender {
    /// Returns the name and version of another project's malloc.
    pub fn version(&self) -> Option<String> {
        match &self.allocator {
            Allocator::Peer(peer) => Some(peer.version()),
            _ => None,
        }
    }
}

/// The role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All others are compared with it.
    Baseline,
    /// The project's own malloc.
    Ours,
    /// Another project's.
    Peer,
    /// The baseline measured a second time (A/A): the difference is noise.
    Noise,
}

/// Returns all contenders: the system's malloc, ours, the `given` ones, those found on this machine under other names,
/// and the system's malloc again.
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
