//! Who takes part: the rows of the tables.

use std::fmt;

use heapwright_placement::PolicyKind;
use serde::Serialize;

use super::subjects::{Crate, Implementation};
use super::workloads::Kind;
use crate::allocator::Allocator;
use crate::peers::Peer;
use crate::policy;

/// How much of an allocator is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The placement engine alone, without memory.
    Engine,
    /// A heap in a region of fixed length.
    Fixed,
    /// The process' malloc.
    Malloc,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Engine => "engine",
            Layer::Fixed => "fixed",
            Layer::Malloc => "malloc",
        })
    }
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name.
    pub subject: String,
    /// The layer on which it is measured.
    pub layer: Layer,
    /// What its process drives.
    pub implementation: Implementation,
    /// What its process' malloc is.
    pub allocator: Allocator,
}

/// The name of the system's malloc, to which all others are compared.
pub const SYSTEM: &str = "system";
/// The system's malloc again: how far it is from itself is the noise of the run.
pub const SYSTEM_AGAIN: &str = "system (A/A)";
/// What is left when the allocator does nothing.
pub const NO_OP: &str = "no-op (harness)";
/// A bare mmap and munmap.
pub const MMAP: &str = "mmap+munmap";

impl Contender {
    /// Something that runs without a malloc of its own.
    fn plain(subject: &str, layer: Layer, implementation: Implementation) -> Contender {
        Contender { subject: subject.to_owned(), layer, implementation, allocator: Allocator::System }
    }

    /// A malloc of a process.
    fn malloc(subject: &str, allocator: Allocator) -> Contender {
        let (layer, implementation) = (Layer::Malloc, Implementation::Malloc);
        Contender { subject: subject.to_owned(), layer, implementation, allocator }
    }

    /// The system's malloc.
    pub fn system() -> Contender {
        Contender::malloc(SYSTEM, Allocator::System)
    }
}

/// Which of the possible contenders are wanted.
pub struct Field {
    /// The layers.
    pub layers: Vec<Layer>,
    /// The policies, by name.
    pub policies: Vec<&'static str>,
    /// Crates and libraries, by name; `None` for all that there are.
    pub allocators: Option<Vec<String>>,
    /// The allocator libraries on this machine.
    pub peers: Vec<Peer>,
}

impl Field {
    fn wants(&self, allocator: &str) -> bool {
        self.allocators.as_ref().is_none_or(|names| names.iter().any(|name| name == allocator))
    }

    /// Everybody who takes part in `kind`, the system's malloc first.
    pub fn contenders(&self, kind: Kind) -> Vec<Contender> {
        let mut contenders = vec![
            Contender::system(),
            Contender::malloc(SYSTEM_AGAIN, Allocator::System),
            Contender::plain(NO_OP, Layer::Engine, Implementation::NoOp),
        ];
        if matches!(kind, Kind::Mapped | Kind::Program004) {
            contenders.push(Contender::plain(MMAP, Layer::Malloc, Implementation::Mmap));
        }
        if kind == Kind::Mapped {
            contenders.push(Contender::malloc(policy::MAPPED, Allocator::Heapwright(policy::MAPPED)));
            return contenders;
        }
        for &layer in &self.layers {
            match layer {
                Layer::Engine => contenders.extend(self.engines()),
                Layer::Fixed => contenders.extend(self.fixed()),
                Layer::Malloc => contenders.extend(self.mallocs()),
            }
        }
        contenders
    }

    fn engines(&self) -> impl Iterator<Item = Contender> {
        let kinds = self.policies.iter().filter_map(|name| PolicyKind::from_name(name));
        kinds.map(|kind| Contender::plain(kind.name(), Layer::Engine, Implementation::Engine(kind)))
    }

    fn fixed(&self) -> impl Iterator<Item = Contender> {
        let kinds = self.policies.iter().filter_map(|name| PolicyKind::from_name(name));
        let ours = kinds.map(|kind| Contender::plain(kind.name(), Layer::Fixed, Implementation::Fixed(kind)));
        let crates = Crate::ALL.into_iter().filter(|peer| self.wants(peer.name()));
        ours.chain(crates.map(|peer| Contender::plain(peer.name(), Layer::Fixed, Implementation::Crate(peer))))
    }

    fn mallocs(&self) -> impl Iterator<Item = Contender> {
        let ours = self.policies.iter().map(|&name| Contender::malloc(name, Allocator::Heapwright(name)));
        let others = self.peers.iter().filter(|peer| self.wants(&peer.name));
        ours.chain(others.map(|peer| Contender::malloc(&peer.name, Allocator::Peer(peer.clone()))))
    }
}
