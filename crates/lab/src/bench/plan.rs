//! Which cases are measured, and how thoroughly: what was typed, turned into what is meant.

use std::time::Duration;

use super::contender::{Contender, Field, Layer};
use super::measure::Case;
use super::subjects::Implementation;
use super::workloads::{Kind, Workload};

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

impl Extent {
    /// Rounds, unless told otherwise.
    pub fn rounds(self) -> usize {
        match self {
            Extent::Quick => 3,
            Extent::Usual | Extent::Full => 5,
        }
    }

    /// Rounds in which every operation is timed.
    pub fn latency_rounds(self) -> usize {
        match self {
            Extent::Quick => 1,
            Extent::Usual | Extent::Full => 3,
        }
    }

    /// How long one contender may prepare, and how long a round of it may take.
    pub fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Extent::Quick => 1,
            Extent::Usual => 5,
            Extent::Full => 60,
        })
    }

    fn sizes(self, kind: Kind) -> &'static [usize] {
        match (kind, self) {
            (Kind::Program000 | Kind::Program001 | Kind::Program004, _) => &[0],
            (Kind::Steady, Extent::Quick) => &[1000, 10_000],
            (Kind::Steady, Extent::Usual) => &[1000, 10_000, 100_000, 1_000_000],
            (Kind::Steady, Extent::Full) => &[1000, 10_000, 100_000, 1_000_000, 10_000_000],
            (Kind::Comb, Extent::Quick) => &[1000, 10_000],
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

    fn touches(self, kind: Kind) -> &'static [bool] {
        match (kind, self) {
            (_, Extent::Full) | (Kind::Program000 | Kind::Program001 | Kind::Steady | Kind::Mapped, _) => {
                &[false, true]
            }
            _ => &[false],
        }
    }
}

/// The cases of `kinds` for the contenders in `field`.
pub fn cases(kinds: &[Kind], extent: Extent, field: &Field) -> Vec<Case> {
    let mut cases = Vec::new();
    for &kind in kinds {
        for &size in extent.sizes(kind) {
            for &touched in extent.touches(kind) {
                let everybody = size <= extent.largest_for_all(kind);
                let contenders: Vec<Contender> = field
                    .contenders(kind)
                    .into_iter()
                    .filter(|contender| takes_part(contender, touched, everybody))
                    .collect();
                cases.push(Case { workload: Workload { kind, size }, touched, contenders });
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
