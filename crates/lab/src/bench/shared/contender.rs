//! Who takes part.

use std::path::{Path, PathBuf};

use super::worker;

/// One row of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name there.
    pub subject: &'static str,
    /// Its name for the program that drives it.
    pub allocator: &'static str,
    /// The program that drives it; none for this command itself.
    pub program: Option<PathBuf>,
}

/// Our policies.
pub const POLICIES: [&str; 4] = ["first", "best", "good", "buddy"];

/// What the others are compared to.
pub const BOOST: &str = "boost rbtree";
/// The same once more: how far it is from itself is the noise of the run.
pub const BOOST_AGAIN: &str = "boost rbtree (A/A)";
/// Boost's other algorithm: first fit, by a list of the holes.
pub const BOOST_LIST: &str = "boost simple_seq";
/// The system's malloc, which shares nothing.
pub const MALLOC: &str = "malloc (not shared)";

impl Contender {
    /// Our policies and malloc, and Boost where its program is; with `most_live` blocks at a time, that is not asked to
    /// search long lists.
    pub fn all(comparator: Option<&Path>) -> Vec<Contender> {
        let boost = comparator.into_iter().flat_map(|program| {
            let contender = |subject, allocator| Contender { subject, allocator, program: Some(program.to_owned()) };
            [contender(BOOST, "rbtree"), contender(BOOST_AGAIN, "rbtree"), contender(BOOST_LIST, "simple_seq")]
        });
        let ours = POLICIES.map(|policy| Contender { subject: policy, allocator: policy, program: None });
        let malloc = Contender { subject: MALLOC, allocator: worker::MALLOC, program: None };
        boost.chain(ours).chain([malloc]).collect()
    }

    /// Whether it has anything to do in a case.
    pub fn takes_part(&self, processes: usize, live: usize) -> bool {
        match self.subject {
            MALLOC => processes == 1,
            BOOST_LIST => processes * live <= LONGEST_LIST,
            _ => true,
        }
    }
}

/// With more blocks than this, a search of the list of holes takes so long that there is nothing to compare.
const LONGEST_LIST: usize = 10_000;
