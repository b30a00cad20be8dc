//! The contenders.

use std::path::{Path, PathBuf};

use heapwright_workloads::shared::worker;

/// One row of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name in tables.
    pub subject: &'static str,
    /// Its name in the program that runs it.
    pub allocator: &'static str,
    /// The program that runs it; `None` for this command itself.
    pub program: Option<PathBuf>,
}

/// Our policies.
pub const POLICIES: [&str; 4] = ["first", "best", "good", "buddy"];

/// Our default policy, with small blocks from slabs.
pub const WITH_SLABS: &str = "best, slabs";

/// The baseline.
pub const BOOST: &str = "boost rbtree";
/// The baseline measured a second time (A/A): the difference is noise.
pub const BOOST_AGAIN: &str = "boost rbtree (A/A)";
/// Boost's other algorithm: first fit over a list of the holes.
pub const BOOST_LIST: &str = "boost simple_seq";
/// No heap at all: what the loop that makes the requests takes.
pub const NOTHING: &str = "the loop alone";
/// The system's malloc, which is not shared.
pub const MALLOC: &str = "malloc (not shared)";

impl Contender {
    /// Returns our policies, malloc, the loop alone, and Boost's algorithms if there is a program that runs them.
    pub fn all(comparator: Option<&Path>) -> Vec<Contender> {
        let boost = comparator.into_iter().flat_map(|program| {
            let contender = |subject, allocator| Contender { subject, allocator, program: Some(program.to_owned()) };
            [contender(BOOST, "rbtree"), contender(BOOST_AGAIN, "rbtree"), contender(BOOST_LIST, "simple_seq")]
        });
        let ours = POLICIES.into_iter().chain([WITH_SLABS]).map(|policy| Contender {
            subject: policy,
            allocator: policy,
            program: None,
        });
        let malloc = Contender { subject: MALLOC, allocator: worker::MALLOC, program: None };
        let nothing = Contender { subject: NOTHING, allocator: worker::NOTHING, program: None };
        boost.chain(ours).chain([malloc, nothing]).collect()
    }

    /// Returns whether it is measured in a case.
    pub fn takes_part(&self, processes: usize, live: usize) -> bool {
        match self.subject {
            MALLOC => processes == 1,
            BOOST_LIST => processes * live <= LONGEST_LIST,
            _ => true,
        }
    }
}

/// With more blocks than this, searching the list of holes takes too long to be comparable.
const LONGEST_LIST: usize = 10_000;
