//! The messages between the parent and a worker. Our own workers and the comparator use the same ones.
//!
//! The comparator parses them with fixed patterns, which depend on the names and the order of the fields: see
//! `boost.cpp`.

use std::fmt;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The task of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The allocator, by its name in the worker's program.
    pub allocator: String,
    /// The name of the shared-memory object.
    pub name: String,
    /// The length of the segment, in bytes.
    pub bytes: usize,
    /// Whether the worker creates the segment.
    pub role: Role,
    /// The load.
    pub load: Load,
    /// The seed of the worker's random numbers.
    pub seed: u64,
}

/// The parent's request: the times of a window, by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The start of the warm-up.
    pub start: u64,
    /// The start of the measured part.
    pub begin: u64,
    /// The end.
    pub end: u64,
}

/// What a worker replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The heap is prepared.
    Ready,
    /// A window has ended.
    Done(Done),
}

/// The work of a worker in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Number of pairs of an allocate and a free.
    pub pairs: u64,
    /// Processor time, in nanoseconds.
    pub busy: u64,
    /// The time within which 99.9 % of the calls ended, in nanoseconds; 0 where calls were not timed.
    pub tail: u64,
}

impl Done {
    /// Returns this, unless the worker did nothing.
    ///
    /// # Errors
    /// When it did not complete a pair or took no time.
    pub fn checked(self) -> Result<Done> {
        ensure!(self.pairs > 0 && self.busy > 0, "a worker did nothing: {self:?}");
        Ok(self)
    }
}

/// The load of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The order of allocations and frees.
    pub pattern: Pattern,
    /// The distribution of sizes.
    pub sizes: Sizes,
    /// Whether blocks are written to.
    pub touch: Touch,
    /// Number of live blocks per process in the steady state.
    pub live: usize,
    /// What is measured of the calls.
    pub figure: Figure,
}

/// Whether a worker creates the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It creates the segment.
    Create,
    /// It attaches to the segment.
    Join,
}

/// The order of allocations and frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Each process holds many blocks; a random one is freed, another allocated.
    Steady,
    /// Each process holds one block; another is allocated and freed immediately.
    Pair,
}

/// The distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// 16 to 256 bytes, uniform.
    Small,
    /// 16 bytes to 4 KiB, log-uniform.
    Mixed,
    /// 64 bytes, all of them.
    Line,
}

/// Whether blocks are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Never.
    Untouched,
    /// Every byte, once.
    Touched,
}

/// What is measured of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// The mean time of a call. The clock is read once in many calls.
    Mean,
    /// The time within which 99.9 % of the calls end. The clock is read at each of them, which is part of the time.
    Tail,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = match self.figure {
            Figure::Mean => "",
            Figure::Tail => ", 99.9 % of calls",
        };
        write!(f, "{}, {}{figure}", word(self.pattern), word(self.sizes))
    }
}

/// Returns the word for a value.
pub fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapwright_host::child::to_json;

    #[test]
    fn messages_have_the_form_that_the_comparator_reads_and_writes() {
        let load = Load {
            pattern: Pattern::Steady,
            sizes: Sizes::Mixed,
            touch: Touch::Touched,
            live: 10,
            figure: Figure::Tail,
        };
        let (allocator, name) = ("rbtree".to_owned(), "x".to_owned());
        let task = Task { allocator, name, bytes: 1 << 20, role: Role::Join, load, seed: 7 };
        assert_eq!(
            to_json(&task).unwrap(),
            concat!(
                r#"{"allocator":"rbtree","name":"x","bytes":1048576,"role":"join","#,
                r#""load":{"pattern":"steady","sizes":"mixed","touch":"touched","live":10,"figure":"tail"},"seed":7}"#
            )
        );
        assert_eq!(to_json(&Window { start: 1, begin: 2, end: 3 }).unwrap(), r#"{"start":1,"begin":2,"end":3}"#);
        assert_eq!(to_json(&Reply::Ready).unwrap(), r#""ready""#);
        let done = Done { pairs: 32, busy: 100, tail: 40 };
        assert_eq!(to_json(&Reply::Done(done)).unwrap(), r#"{"done":{"pairs":32,"busy":100,"tail":40}}"#);
    }

    #[test]
    fn a_worker_that_did_nothing_is_an_error() {
        assert!(Done { pairs: 32, busy: 100, tail: 0 }.checked().is_ok());
        for (pairs, busy) in [(0, 100), (32, 0)] {
            assert!(Done { pairs, busy, tail: 0 }.checked().is_err());
        }
    }
}
