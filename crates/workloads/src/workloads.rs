//! The built-in workloads. Each draws its numbers from a fixed seed, so that every allocator sees the same requests in
//! the same order.

mod comb;
mod pair;
mod programs;
mod script;
mod steady;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::comb::{BuddyFree, Comb};
pub use self::pair::Pair;
pub use self::programs::{Program000, Program001, Program004};
pub use self::script::Script;
pub use self::steady::Steady;

/// A workload and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// What the workload does.
    pub kind: Kind,
    /// Live blocks, holes, or bytes: see [`Kind::size_name`]. 0 where there is nothing to choose.
    pub size: usize,
}

/// What a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
pub enum Kind {
    /// The program of report 000: 50,000 blocks of 1 to 6 KiB, two in five freed, then 50,000 of 1 KiB
    Program000,
    /// The tests of report 001: 10,000 blocks of 16 bytes, 100,000 of 4096 bytes, 1,000 times one block
    Program001,
    /// The test of report 004: 10,000 times one block of 128 bytes
    Program004,
    /// A live set of 10^3 to 10^7 blocks of 16 bytes to 4 KiB: a random one is freed, one of another size allocated
    Steady,
    /// 10^3 to 10^7 isolated holes of 64 bytes: requests that fit none, frees that create them, requests that fill them
    Comb,
    /// One block of one size, 16 bytes to 12.8 kB, allocated and freed
    Pair,
    /// Frees among 50,000 holes of the same size whose buddies are in use
    BuddyFree,
    /// One block of 128 bytes, for allocators that map every block
    Mapped,
}

impl Kind {
    /// All kinds, in the order in which tables list them.
    pub const ALL: [Kind; 8] = [
        Kind::Program000,
        Kind::Program001,
        Kind::Program004,
        Kind::Steady,
        Kind::Comb,
        Kind::Pair,
        Kind::BuddyFree,
        Kind::Mapped,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Program000 => "program000",
            Kind::Program001 => "program001",
            Kind::Program004 => "program004",
            Kind::Steady => "steady",
            Kind::Comb => "comb",
            Kind::Pair => "pair",
            Kind::BuddyFree => "buddy-free",
            Kind::Mapped => "mapped",
        }
    }

    /// Returns what its size counts, or `None` when it has no size.
    pub const fn size_name(self) -> Option<&'static str> {
        match self {
            Kind::Program000 | Kind::Program001 | Kind::Program004 => None,
            Kind::Steady => Some("live"),
            Kind::Comb | Kind::BuddyFree => Some("holes"),
            Kind::Pair | Kind::Mapped => Some("bytes"),
        }
    }

    /// Returns the parts that are measured separately.
    pub const fn parts(self) -> &'static [&'static str] {
        match self {
            Kind::Program000 => &["program"],
            Kind::Program001 => &["allocate 16", "free 16", "allocate 4096", "free 4096", "pair"],
            Kind::Comb => &["miss", "free", "fill"],
            Kind::BuddyFree => &["free"],
            Kind::Program004 | Kind::Steady | Kind::Pair | Kind::Mapped => &["pair"],
        }
    }

    /// Returns whether it is measured from the start of a process, so that each round needs a new one.
    pub const fn is_whole_program(self) -> bool {
        matches!(self, Kind::Program000 | Kind::Program001 | Kind::Program004)
    }
}

impl Workload {
    /// Returns the maximal live bytes, and the number of blocks.
    pub fn demand(self) -> (usize, usize) {
        match self.kind {
            Kind::Program000 => programs::DEMAND_000,
            Kind::Program001 => programs::DEMAND_001,
            Kind::Program004 => (programs::BYTES_004, 1),
            Kind::Steady => (self.size.saturating_mul(steady::MEAN_BYTES), self.size),
            Kind::Comb | Kind::BuddyFree => (self.size.saturating_mul(2 * comb::TOOTH), self.size.saturating_mul(2)),
            Kind::Pair | Kind::Mapped => (self.size, 1),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{Blind, Each, Whole};
    use super::super::subject::{Stage, Stop, Touch};
    use super::super::subjects::Implementation;
    use super::*;
    use clap::ValueEnum;
    use std::time::Duration;

    fn stage(workload: Workload) -> Stage {
        let subject = Implementation::Malloc.build(workload.demand().0).unwrap();
        Stage::new(subject, Touch::Blocks, Duration::from_secs(60))
    }

    fn perform<S: Script>(workload: Workload) {
        let mut stage = stage(workload);
        let mut script = S::settle(workload.size, &mut stage).unwrap();
        let mut whole = Whole::calibrated();
        script.run(&mut stage, &mut whole).unwrap();
        let times = whole.into_parts();
        let names: Vec<_> = times.iter().map(|time| time.part.as_str()).collect();
        let expected: Vec<_> = workload.kind.parts().iter().copied().filter(|part| names.contains(part)).collect();
        assert_eq!(expected.len(), workload.kind.parts().len(), "{workload}: {names:?}");
        assert!(times.iter().all(|time| time.operations > 0));
        if !workload.kind.is_whole_program() {
            script.run(&mut stage, &mut Blind).unwrap();
            let mut each = Each::of(workload.kind.parts()).unwrap();
            script.run(&mut stage, &mut each).unwrap();
            assert_eq!(each.into_parts().len(), workload.kind.parts().len());
        }
    }

    #[test]
    fn every_workload_runs_and_measures_all_its_parts() {
        perform::<Program000>(Workload { kind: Kind::Program000, size: 0 });
        perform::<Program001>(Workload { kind: Kind::Program001, size: 0 });
        perform::<Program004>(Workload { kind: Kind::Program004, size: 0 });
        perform::<Steady>(Workload { kind: Kind::Steady, size: 100 });
        perform::<Comb>(Workload { kind: Kind::Comb, size: 100 });
        perform::<Pair>(Workload { kind: Kind::Pair, size: 100 });
        perform::<BuddyFree>(Workload { kind: Kind::BuddyFree, size: 200 });
    }

    #[test]
    fn an_impatient_stage_stops_a_workload() {
        let workload = Workload { kind: Kind::Steady, size: 1000 };
        let subject = Implementation::Malloc.build(workload.demand().0).unwrap();
        let mut stage = Stage::new(subject, Touch::Nothing, Duration::ZERO);
        assert_eq!(Steady::settle(workload.size, &mut stage).err(), Some(Stop::TooSlow));
    }

    #[test]
    fn what_is_typed_is_what_is_shown() {
        for kind in Kind::ALL {
            assert_eq!(<Kind as ValueEnum>::from_str(kind.name(), false), Ok(kind));
        }
    }
}
