//! Who is compared.

use std::iter;

use heapwright_placement::PolicyKind;
use serde::{Deserialize, Serialize};

use super::comparison::Row;
use crate::allocator::Allocator;
use crate::bench::SYSTEM_AGAIN;
use crate::peers::{self, Peer};
use crate::policy;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The C library's own malloc.
    System,
    /// The same again: what differs between the two is noise.
    SystemAgain,
    /// One of our policies.
    Policy,
    /// Another allocator.
    Allocator,
    /// No allocator at all: what the harness costs.
    NoOp,
}

impl Kind {
    /// Whether one could choose to run a program on it.
    pub fn is_a_choice(self) -> bool {
        matches!(self, Kind::System | Kind::Policy | Kind::Allocator)
    }
}

/// Somebody to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// Whom a real replay runs on.
    pub allocator: Allocator,
}

impl Subject {
    /// Everybody: the system's malloc, the drop-in library's own, the allocators that are given and those found, the policies; and what tells how much to believe.
    pub fn all(policies: &[&'static str], given: &[Peer]) -> Vec<Subject> {
        let found = peers::find().into_iter().filter(|peer| given.iter().all(|other| other.name != peer.name));
        let peers = given.iter().cloned().chain(found).map(Allocator::Peer);
        let allocators = iter::once(Allocator::Heapwright(policy::CACHED)).chain(peers);
        let mut all = vec![Subject { kind: Kind::System, allocator: Allocator::System }];
        all.extend(allocators.map(|allocator| Subject { kind: Kind::Allocator, allocator }));
        all.extend(Subject::policies(policies));
        all.push(Subject { kind: Kind::SystemAgain, allocator: Allocator::System });
        all.push(Subject { kind: Kind::NoOp, allocator: Allocator::NoOp });
        all
    }

    /// Policies alone.
    pub fn policies(policies: &[&'static str]) -> Vec<Subject> {
        let subject = |&policy| Subject { kind: Kind::Policy, allocator: Allocator::Heapwright(policy) };
        policies.iter().map(subject).collect()
    }

    /// The name in tables.
    pub fn name(&self) -> &str {
        match self.kind {
            Kind::SystemAgain => SYSTEM_AGAIN,
            _ => self.allocator.name(),
        }
    }

    /// Its row, without figures.
    pub fn row(&self) -> Row {
        let library = match &self.allocator {
            Allocator::Peer(peer) => Some(peer.library.display().to_string()),
            _ => None,
        };
        Row { library, ..Row::new(self.name(), self.kind) }
    }
}

impl Row {
    /// A row without figures.
    pub fn new(name: &str, kind: Kind) -> Row {
        Row {
            name: name.to_owned(),
            kind,
            library: None,
            figures: Default::default(),
            refused: None,
            note: None,
            rounds: Vec::new(),
            timed_rounds: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// The policy that can be simulated, if it is one.
    pub fn policy(&self) -> Option<PolicyKind> {
        PolicyKind::from_name(&self.name).filter(|_| self.kind == Kind::Policy)
    }
}
