//! What is compared: allocators and policies.

use std::iter;

use super::row::{Kind, Row};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_allocators::peers::{self, Peer};
use heapwright_allocators::policy;
use heapwright_rules::RuleSet;

/// An allocator or a policy to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// The allocator that a real replay runs on.
    pub allocator: Allocator,
}

impl Subject {
    /// Returns all subjects: the system's malloc, the drop-in library's default, the `given` and the installed
    /// allocators, the policies; then the system's malloc again and an allocator that does nothing, for the noise and
    /// the cost of the harness.
    pub fn all(policies: &[&'static str], rules: Option<RuleSet>, given: &[Peer]) -> Vec<Subject> {
        let found = peers::find().into_iter().filter(|peer| given.iter().all(|other| other.name != peer.name));
        let peers = given.iter().cloned().chain(found).map(Allocator::Peer);
        let allocators = iter::once(Allocator::Heapwright(policy::CACHED)).chain(peers);
        let mut all = vec![Subject { kind: Kind::System, allocator: Allocator::System }];
        all.extend(allocators.map(|allocator| Subject { kind: Kind::Allocator, allocator }));
        all.extend(Subject::policies(policies, rules));
        all.push(Subject { kind: Kind::SystemAgain, allocator: Allocator::System });
        all.push(Subject { kind: Kind::NoOp, allocator: Allocator::NoOp });
        all
    }

    /// Returns policies only, under these rules if there are any.
    pub fn policies(policies: &[&'static str], rules: Option<RuleSet>) -> Vec<Subject> {
        let allocator = |policy| match rules {
            Some(rules) => Allocator::Ruled(policy, rules),
            None => Allocator::Heapwright(policy),
        };
        let subject = |&policy| Subject { kind: Kind::Policy, allocator: allocator(policy) };
        policies.iter().map(subject).collect()
    }

    /// Returns the name in tables.
    pub fn name(&self) -> &str {
        match self.kind {
            Kind::SystemAgain => SYSTEM_AGAIN,
            _ => self.allocator.name(),
        }
    }

    /// Returns its row, without figures.
    pub fn row(&self) -> Row {
        let library = match &self.allocator {
            Allocator::Peer(peer) => Some(peer.library.display().to_string()),
            _ => None,
        };
        Row { library, ..Row::new(self.name(), self.kind) }
    }
}
