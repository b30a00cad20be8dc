//! The built-in workloads. Each draws its numbers from a fixed seed, so that every allocator sees the same requests in
//! the same order.

mod comb;
mod pair;
mod programs;
mod steady;

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};

pub use self::comb::{BuddyFree, Comb};
pub use self::pair::Pair;
pub use self::programs::{Program000, Program001, Program004};
pub use self::steady::Steady;
use super::lazy::Lazy;
use super::probe::Probe;
use super::subject::{Stage, Stop};

/// A workload's code: how it brings a heap into a state, and what it does there, again and again.
pub trait Script: Sized {
    /// Brings the heap into the state in which it is measured.
    fn settle(size: usize, stage: &mut Stage) -> Result<Self, Stop>;

    /// Does what is measured, and leaves the heap in a state like the one it found.
    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop>;
}

/// A workload and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// What is done.
    pub kind: Kind,
    /// Live blocks, holes, or bytes: see [`Kind::size_name`]. 0 where there is nothing to choose.
    pub size: usize,
}

/// What a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Kind {
    /// The program of report 000: 50,000 blocks of 1 to 6 KiB, two in five freed, 50,000 of 1 KiB
    Program000,
    /// The tests of report 001: 10,000 blocks of 16 bytes, 100,000 of 4096, 1,000 times one block
    Program001,
    /// The test of report 004: 10,000 times one block of 128 bytes
    Program004,
    /// A live set of 10^3 to 10^7 blocks of 16 bytes to 4 KiB: a random one goes, one of another size comes
    Steady,
    /// 10^3 to 10^7 isolated holes of 64 bytes: requests that fit none, frees that make them, requests that fill them
    Comb,
    /// One block of one size, 16 bytes to 12.8 kB, allocated and freed
    Pair,
    /// Frees beside 50,000 holes of the same size whose buddies are in use
    BuddyFree,
    /// One block of 128 bytes, for what maps every block
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

    /// The name by which people choose it.
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

    /// What a size of it counts, or `None` when it has none.
    pub const fn size_name(self) -> Option<&'static str> {
        match self {
            Kind::Program000 | Kind::Program001 | Kind::Program004 => None,
            Kind::Steady => Some("live"),
            Kind::Comb | Kind::BuddyFree => Some("holes"),
            Kind::Pair | Kind::Mapped => Some("bytes"),
        }
    }

    /// The parts of which it gives figures.
    pub const fn parts(self) -> &'static [&'static str] {
        match self {
            Kind::Program000 => &["program"],
            Kind::Program001 => &["allocate 16", "free 16", "allocate 4096", "free 4096", "pair"],
            Kind::Comb => &["miss", "free", "fill"],
            Kind::BuddyFree => &["free"],
            Kind::Program004 | Kind::Steady | Kind::Pair | Kind::Mapped => &["pair"],
        }
    }

    /// Whether it is measured from a process' start, so that each round takes a new process.
    pub const fn is_whole_program(self) -> bool {
        matches!(self, Kind::Program000 | Kind::Program001 | Kind::Program004)
    }
}

impl Workload {
    /// How many bytes it has live at most, and in how many blocks.
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

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Workload> {
        let Some((name, size)) = text.split_once('/') else { bail!("not a workload: {text}") };
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).context("no such workload")?;
        Ok(Workload { kind, size: size.parse()? })
    }
}

/// Book-keeping of a workload: committed, and outside the heap under test.
fn book<T: super::lazy::Plain>(len: usize) -> Result<Lazy<T>, Stop> {
    Lazy::committed(len).map_err(|_| Stop::NoMemory)
}

#[cfg(test)]
mod tests {
    use super::super::probe::{Blind, Each, Whole};
    use super::super::subject::Touch;
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
    fn names_lead_back_to_what_they_name() {
        for kind in Kind::ALL {
            let workload = Workload { kind, size: 12 };
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
            assert_eq!(<Kind as ValueEnum>::from_str(kind.name(), false), Ok(kind), "what is typed is what is shown");
        }
        assert!("steady".parse::<Workload>().is_err());
        assert!("steady/x".parse::<Workload>().is_err());
    }
}
