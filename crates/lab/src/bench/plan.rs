//! Which cases are measured, and how thoroughly: what was typed, turned into what is meant.

use std::time::Duration;

use heapwright_placement::PolicyKind;

use super::contender::{Contender, Field, Layer};
use super::measure::{Case, Effort};
use super::subjects::Implementation;
use super::workloads::{Kind, Workload};
use crate::policy;

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The small sizes, in seconds.
    Quick,
    /// What shows the differences, in minutes.
    Usual,
    /// Every size for everybody.
    Full,
}

/// From this size on a round takes seconds, and does so much that few rounds tell enough.
const HUGE: usize = 10_000_000;

impl Extent {
    /// How thoroughly to measure `workload`: `rounds` as told, or as many as suit it.
    pub fn effort(self, workload: Workload, rounds: Option<usize>, memory: usize) -> Effort {
        let is_program = workload.kind.is_whole_program();
        let (suitable, latency_rounds) = match self {
            Extent::Quick if is_program => (2, 0),
            Extent::Quick => (2, 1),
            _ if workload.size >= HUGE => (3, 1),
            _ if is_program => (5, 1),
            _ => (5, 3),
        };
        Effort { rounds: rounds.unwrap_or(suitable), latency_rounds, patience: self.patience(workload), memory }
    }

    /// How much processor time a contender may take to prepare, and for a round.
    fn patience(self, workload: Workload) -> Duration {
        let Workload { kind, size } = workload;
        Duration::from_millis(match self {
            // What asks the system for pages takes its time under any allocator.
            Extent::Quick if kind.is_whole_program() || kind == Kind::Mapped => 500,
            Extent::Quick => 200,
            Extent::Full => 60_000,
            // Worth waiting for: the one is what linear frees are shown with, the other is long by itself.
            Extent::Usual if kind == Kind::BuddyFree || size >= HUGE => 30_000,
            Extent::Usual => 5_000,
        })
    }

    /// The policies that take part unless others are named.
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

    /// The longest size for which everybody that has memory takes part; above it only the engine does, beside the
    /// system's malloc.
    fn largest_for_all(self, kind: Kind) -> usize {
        match (kind, self) {
            (Kind::Comb, Extent::Usual) => 100_000,
            _ => usize::MAX,
        }
    }

    /// Whether blocks are written to: not, and then also; or only the former.
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

/// The cases of `kinds` for the contenders in `field`.
pub fn cases(kinds: &[Kind], extent: Extent, field: &Field) -> Vec<Case> {
    let mut cases = Vec::new();
    for &kind in kinds {
        for &size in extent.sizes(kind) {
            let workload = Workload { kind, size };
            let everybody = size <= extent.largest_for_all(kind);
            for &touched in extent.touches(workload) {
                let mut contenders = field.contenders(kind);
                contenders.retain(|contender| takes_part(contender, touched, everybody));
                cases.push(Case { workload, touched, contenders });
            }
        }
    }
    cases
}

/// An engine has nothing that could be touched.
fn takes_part(contender: &Contender, touched: bool, everybody: bool) -> bool {
    let is_engine = contender.layer == Layer::Engine;
    let is_common = contender.implementation == Implementation::NoOp || *contender == Contender::system();
    let has_a_say = everybody || is_engine || is_common;
    has_a_say && !(touched && matches!(contender.implementation, Implementation::Engine(_)))
}
