//! The contenders of a measurement: the rows of the tables.

use std::fmt;

use heapwright_placement::PolicyKind;
use serde::Serialize;

use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_allocators::peers::Peer;
use heapwright_allocators::policy;
use heapwright_workloads::subjects::{Crate, Implementation};
use heapwright_workloads::workloads::Kind;

/// The layer of an allocator that is measured.
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

impl Layer {
    /// All layers, in the order of the tables.
    pub const ALL: [Layer; 3] = [Layer::Engine, Layer::Fixed, Layer::Malloc];
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
    /// The implementation that its process calls.
    pub implementation: Implementation,
    /// The allocator that provides malloc in its process.
    pub allocator: Allocator,
}

/// The name of the system's malloc, which is the baseline.
pub const SYSTEM: &str = "system";
/// An allocator that does nothing: the cost of the harness.
pub const NO_OP: &str = "no-op (harness)";
/// A bare mmap and munmap.
pub const MMAP: &str = "mmap+munmap";

impl Contender {
    /// Returns a contender that runs on the system's malloc.
    fn plain(subject: &str, layer: Layer, implementation: Implementation) -> Contender {
        Contender { subject: subject.to_owned(), layer, implementation, allocator: Allocator::System }
    }

    /// Returns a contender that is the malloc of its process.
    fn malloc(subject: &str, allocator: Allocator) -> Contender {
        let (layer, implementation) = (Layer::Malloc, Implementation::Malloc);
        Contender { subject: subject.to_owned(), layer, implementation, allocator }
    }

    /// Returns the system's malloc.
    pub fn system() -> Contender {
        Contender::malloc(SYSTEM, Allocator::System)
    }
}

/// Which of all contenders are measured.
pub struct Field {
    /// The layers.
    pub layers: Vec<Layer>,
    /// The policies, by name.
    pub policies: Vec<&'static str>,
    /// Crates and libraries, by name; `None` for all.
    pub allocators: Option<Vec<String>>,
    /// The allocator libraries on this machine.
    pub peers: Vec<Peer>,
}

impl Field {
    fn wants(&self, allocator: &str) -> bool {
        self.allocators.as_ref().is_none_or(|names| names.iter().any(|name| name == allocator))
    }

    /// Returns all contenders of `kind`, the system's malloc first.
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
