//! Derives from the arguments which cases are measured, and how thoroughly.

use std::time::Duration;

use heapwright_placement::PolicyKind;

use super::contender::{Contender, Field, Layer};
use super::measure::{Case, Effort};
use heapwright_allocators::policy;
use heapwright_stats::FEWEST;
use heapwright_workloads::subjects::Implementation;
use heapwright_workloads::workloads::{Kind, Workload};

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Small sizes only: seconds.
    Quick,
    /// The sizes at which allocators differ: minutes.
    Usual,
    /// Every size for every contender: half an hour.
    Full,
}

/// From this size on, a round takes seconds and contains enough operations that few rounds suffice.
const HUGE: usize = 10_000_000;

impl Extent {
    /// Returns the effort for `workload`: with the given number of rounds, or the default for it.
    pub fn effort(self, workload: Workload, rounds: Option<usize>, memory: usize) -> Effort {
        let is_program = workload.kind.is_whole_program();
        let (suitable, latency_rounds) = match self {
            Extent::Quick if is_program => (2, 0),
            Extent::Quick => (2, 1),
            _ if workload.size >= HUGE => (3, 1),
            _ if is_program => (FEWEST, 1),
            _ => (FEWEST, 3),
        };
        Effort { rounds: rounds.unwrap_or(suitable), latency_rounds, patience: self.patience(workload), memory }
    }

    /// Returns the limit of processor time for preparing a contender, and for each round.
    fn patience(self, workload: Workload) -> Duration {
        let Workload { kind, size } = workload;
        Duration::from_millis(match self {
            // Requesting pages from the system is slow under every allocator.
            Extent::Quick if kind.is_whole_program() || kind == Kind::Mapped => 500,
            Extent::Quick => 200,
            Extent::Full => 60_000,
            // The former is there to show frees that take linear time, the latter takes long in any case.
            Extent::Usual if kind == Kind::BuddyFree || size >= HUGE => 30_000,
            Extent::Usual => 5_000,
        })
    }

    /// Returns the policies that are measured by default.
    pub fn policies(self) -> Vec<&'static str> {
        match self {
            Extent::Quick => vec![PolicyKind::First.name(), PolicyKind::Best.name()],
            Extent::Usual | Extent::Full => policy::names().collect(),
        }
    }

    fn sizes(self, kind: Kind) -> &'static [usize] {
        match (kind, self) {
            (Kind::Program000 | Kind::Program001 | Kind::Program004, _) => &[0],
            (Kind::Steady, Extent::Quick) => &[1000, 10_000],
            (Kind::Steady, Extent::Usual) => &[1000, 10_000, 100_000, 1_000_000],
            (Kind::Steady, Extent::Full) => &[1000, 10_000, 100_000, 1_000_000, 10_000_000],
            (Kind::Comb, Extent::Quick) => &[10_000],
            (Kind::Comb, Extent::Usual) => &[1000, 100_000, 10_000_000],
            (Kind::Comb, Extent::Full) => &[1000, 10_000, 100_000, 1_000_000, 10_000_000],
            (Kind::Pair, Extent::Quick) => &[16, 1024],
            (Kind::Pair, _) => &[16, 128, 1024, 12_800],
            (Kind::BuddyFree, Extent::Quick) => &[2000],
            (Kind::BuddyFree, _) => &[50_000],
            (Kind::Mapped, _) => &[128],
        }
    }

    /// Returns the maximal size at which all layers are measured. Above it, only the engine and the system's malloc
    /// are.
    fn largest_for_all(self, kind: Kind) -> usize {
        match (kind, self) {
            (Kind::Comb, Extent::Usual) => 100_000,
            _ => usize::MAX,
        }
    }

    /// Returns whether blocks are written to: never, or in a second measurement.
    fn touches(self, workload: Workload) -> &'static [bool] {
        let both = match (self, workload.kind) {
            (Extent::Full, _) => true,
            (Extent::Quick, kind) => kind == Kind::Steady && workload.size == 1000,
            (_, Kind::Program000 | Kind::Program001 | Kind::Mapped) => true,
            (_, kind) => kind == Kind::Steady && workload.size < 1_000_000,
        };
        if both { &[false, true] } else { &[false] }
    }
}

/// Returns the cases of `kinds` for the contenders in `field`.
pub fn cases(kinds: &[Kind], extent: Extent, field: &Field) -> Vec<Case> {
    let mut cases = Vec::new();
    for &kind in kinds {
        for &size in extent.sizes(kind) {
            let workload = Workload { kind, size };
            let all_layers = size <= extent.largest_for_all(kind);
            for &touched in extent.touches(workload) {
                let mut contenders = field.contenders(kind);
                contenders.retain(|one| all_layers || is_measured_at_every_size(one));
                // An engine has no memory to write to.
                contenders.retain(|one| !touched || one.implementation.has_memory());
                cases.push(Case { workload, touched, contenders });
            }
        }
    }
    cases
}

/// Returns whether a contender is measured also where not all layers are.
fn is_measured_at_every_size(contender: &Contender) -> bool {
    let is_no_op = contender.implementation == Implementation::NoOp;
    is_no_op || contender.layer == Layer::Engine || *contender == Contender::system()
}
