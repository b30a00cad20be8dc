//! The list of workloads.

use crate::notes::Notes;
use crate::setup::{Setup, log_uniform};
use crate::workloads::published::{self, PARTS_001, Touch};
use crate::workloads::tails::{self, Freed};
use crate::workloads::{churn, growth, large, pairs, phases, queue, scattered, server, sharing, threads, touch};

/// A workload.
pub struct Workload {
    /// The name. Related workloads share the part before the `/`.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// The times that are meaningful.
    pub counts: Counts,
    /// The sections that are timed separately, if there are any. Each has a figure of its name: processor time in
    /// nanoseconds.
    pub parts: &'static [&'static str],
    pub(crate) run: fn(&Setup, &mut Notes) -> Result<(), String>,
}

/// The figures of a workload that are meaningful. Memory is, unless single calls are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Processor time and elapsed time.
    Both,
    /// Processor time only, because the workload sleeps.
    Cpu,
    /// Neither: the workload measures memory.
    Neither,
    /// The time that most single calls stay below. To time each of them takes longer than they do.
    Calls,
}

const fn timed(name: &'static str, about: &'static str, run: fn(&Setup, &mut Notes) -> Result<(), String>) -> Workload {
    Workload { name, about, counts: Counts::Both, parts: &[], run }
}

const fn calls(name: &'static str, about: &'static str, run: fn(&Setup, &mut Notes) -> Result<(), String>) -> Workload {
    Workload { name, about, counts: Counts::Calls, parts: &[], run }
}

macro_rules! pair {
    ($bytes:literal) => {
        timed(concat!("pair/", $bytes), concat!("a block of ", $bytes, " bytes, allocated and freed"), |setup, _| {
            pairs::run(setup, $bytes)
        })
    };
}

/// All workloads, in the order in which tables list them.
pub static WORKLOADS: [Workload; 37] = [
    timed("server/1", "a thread replaces its 1,000 blocks, and hands them to the next thread", |setup, _| {
        server::run(setup, 1)
    }),
    timed("server/2", "the same, two threads at a time", |setup, _| server::run(setup, 2)),
    timed("server/8", "the same, eight threads at a time", |setup, _| server::run(setup, 8)),
    timed("queue/1", "one thread allocates, another one frees", |setup, _| queue::run(setup, 1)),
    timed("queue/2", "two threads allocate, two others free", |setup, _| queue::run(setup, 2)),
    timed("churn/1-few", "1,000 live blocks of 16 B to 4 KiB; a random one is replaced", |setup, _| {
        churn::run(setup, 1, 1_000, &log_uniform(16, 4096))
    }),
    timed("churn/1-many", "100,000 live blocks of 16 B to 4 KiB; a random one is replaced", |setup, _| {
        churn::run(setup, 1, 100_000, &log_uniform(16, 4096))
    }),
    timed("churn/4-few", "four threads with 1,000 live blocks each", |setup, _| {
        churn::run(setup, 4, 1_000, &log_uniform(16, 4096))
    }),
    timed("churn/4-many", "four threads with 25,000 live blocks each", |setup, _| {
        churn::run(setup, 4, 25_000, &log_uniform(16, 4096))
    }),
    timed("mix/1", "10,000 live blocks, with the sizes that a C++ compiler asks for", |setup, _| {
        churn::run(setup, 1, 10_000, setup.recorded())
    }),
    timed("mix/4", "four threads with 10,000 live blocks each, with a compiler's sizes", |setup, _| {
        churn::run(setup, 4, 10_000, setup.recorded())
    }),
    timed("threads", "short-lived threads, four at a time, with 50 blocks each", |setup, _| threads::run(setup)),
    timed("sharing/side", "two threads allocate small objects at a time and write to them often", |setup, _| {
        sharing::side_by_side(setup)
    }),
    timed("sharing/handed", "as above, beginning with objects that a third thread allocated", |setup, _| {
        sharing::handed_over(setup)
    }),
    timed("growth/64MiB", "one block grows from 64 B to 64 MiB by 1.5 and is written to", |setup, _| {
        growth::one(setup)
    }),
    timed("growth/4KiB", "1,000 blocks grow from 16 B to 4 KiB by 2, in turns", |setup, _| growth::many(setup)),
    timed("large", "32 live blocks of 64 KiB to 8 MiB, written to; a random one is replaced", |setup, _| {
        large::run(setup)
    }),
    pair!(16),
    pair!(64),
    pair!(128),
    pair!(256),
    pair!(512),
    pair!(1024),
    pair!(2048),
    pair!(4096),
    pair!(8192),
    pair!(12800),
    Workload {
        name: "scattered/95%",
        about: "a million blocks of 16 to 512 bytes, 95 % freed at random, then 2 s of nothing",
        counts: Counts::Cpu,
        parts: &[],
        run: |setup, notes| scattered::run(setup, notes, 0.95),
    },
    Workload {
        name: "scattered/all",
        about: "a million blocks of 16 to 512 bytes, all freed at random, then 2 s of nothing",
        counts: Counts::Cpu,
        parts: &[],
        run: |setup, notes| scattered::run(setup, notes, 1.0),
    },
    Workload {
        name: "phases",
        about: "six phases with other sizes each, of whose blocks 4 % stay, then 2 s of nothing",
        counts: Counts::Cpu,
        parts: &[],
        run: phases::run,
    },
    calls(
        "tails/1",
        "a million live blocks of 16 B to 4 KiB; a random one is replaced, each call timed",
        |setup, notes| tails::run(setup, notes, 1, Freed::ByOwner),
    ),
    calls("tails/4", "the same, by four threads", |setup, notes| tails::run(setup, notes, 4, Freed::ByOwner)),
    calls("tails/4-remote", "the same, a fifth of the blocks freed by another thread", |setup, notes| {
        tails::run(setup, notes, 4, Freed::ByOthers)
    }),
    timed("program000", "the program of report 000, which does not write to its blocks", |setup, notes| {
        published::program_000(setup, notes, Touch::Nothing)
    }),
    timed("program000/touched", "the same, a byte on each page of its blocks written to", |setup, notes| {
        published::program_000(setup, notes, Touch::Pages)
    }),
    Workload {
        name: "program001",
        about: "the five tests of report 001, which do not write to their blocks",
        counts: Counts::Neither,
        parts: &PARTS_001,
        run: published::program_001,
    },
    Workload {
        name: "touch",
        about: "a block of 32 MiB, written to: what is read must be what was touched",
        counts: Counts::Neither,
        parts: &[],
        run: |_, _| touch::run(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
    }
}
