//! The allocators under test, behind the trait [`Subject`].

mod calls;
mod crates;
mod engine;
mod fixed;
mod hosted;
mod no_op;

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use heapwright_placement::PolicyKind;
use serde::{Deserialize, Serialize};

pub use self::crates::Crate;
use super::subject::Subject;

/// The allocator that a worker process calls. [`Implementation::Malloc`] is the malloc that the parent preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Implementation {
    /// No allocator: measures the cost of the harness.
    NoOp,
    /// A placement engine without memory.
    Engine(PolicyKind),
    /// Our own heap in a region of fixed length.
    Fixed(PolicyKind),
    /// Another crate's allocator in a region of fixed length.
    Crate(Crate),
    /// This process' malloc and free.
    Malloc,
    /// A bare mmap and munmap.
    Mmap,
}

impl Implementation {
    /// Creates the allocator for a workload whose live blocks never exceed `demand` bytes.
    ///
    /// # Errors
    /// When the system refuses the address space.
    pub fn build(self, demand: usize) -> Result<Box<dyn Subject>> {
        // Buddies round up to powers of two, headers double small blocks, and holes need room too.
        let region =
            demand.checked_mul(4).and_then(|bytes| bytes.checked_add(1 << 20)).context("too large a demand")?;
        match self {
            Implementation::NoOp => no_op::build(),
            Implementation::Engine(policy) => engine::build(policy, region),
            Implementation::Fixed(policy) => fixed::build(policy, region),
            Implementation::Crate(peer) => peer.build(region),
            Implementation::Malloc => Ok(Box::new(calls::Malloc::of_this_process())),
            Implementation::Mmap => Ok(Box::new(calls::Mmap)),
        }
    }

    /// Returns an upper bound of the memory that a workload with `live` bytes in `blocks` blocks needs, in bytes.
    pub fn footprint(self, live: usize, blocks: usize) -> usize {
        match self {
            Implementation::NoOp => 0,
            Implementation::Engine(_) => live / 8,
            Implementation::Mmap => blocks * PAGE.max(live.div_ceil(blocks.max(1)).next_multiple_of(PAGE)),
            Implementation::Fixed(_) | Implementation::Crate(_) | Implementation::Malloc => live * 3 / 2 + blocks * 32,
        }
    }

    /// Returns whether its blocks are memory to which a workload can write.
    pub fn has_memory(self) -> bool {
        !matches!(self, Implementation::Engine(_))
    }
}

const PAGE: usize = 4096;

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Implementation::NoOp => f.write_str("no-op"),
            Implementation::Engine(policy) => write!(f, "engine/{}", policy.name()),
            Implementation::Fixed(policy) => write!(f, "fixed/{}", policy.name()),
            Implementation::Crate(peer) => write!(f, "crate/{}", peer.name()),
            Implementation::Malloc => f.write_str("malloc"),
            Implementation::Mmap => f.write_str("mmap"),
        }
    }
}

impl FromStr for Implementation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Implementation> {
        Ok(match text.split_once('/') {
            None if text == "no-op" => Implementation::NoOp,
            None if text == "malloc" => Implementation::Malloc,
            None if text == "mmap" => Implementation::Mmap,
            Some(("engine", name)) => Implementation::Engine(PolicyKind::from_name(name).context("no such policy")?),
            Some(("fixed", name)) => Implementation::Fixed(PolicyKind::from_name(name).context("no such policy")?),
            Some(("crate", name)) => Implementation::Crate(Crate::from_name(name).context("no such crate")?),
            _ => bail!("no such implementation: {text}"),
        })
    }
}

impl TryFrom<String> for Implementation {
    type Error = Error;

    fn try_from(name: String) -> Result<Implementation> {
        name.parse()
    }
}

impl From<Implementation> for String {
    fn from(implementation: Implementation) -> String {
        implementation.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_implementation() -> impl Iterator<Item = Implementation> {
        PolicyKind::ALL.map(Implementation::Engine).into_iter().chain(Crate::ALL.map(Implementation::Crate)).chain([
            Implementation::NoOp,
            Implementation::Malloc,
            Implementation::Mmap,
        ])
    }

    #[test]
    fn names_lead_back_to_what_they_name() {
        for implementation in every_implementation() {
            assert_eq!(implementation.to_string().parse::<Implementation>().unwrap(), implementation);
        }
        assert!("crate/nobody".parse::<Implementation>().is_err());
        assert!("".parse::<Implementation>().is_err());
    }

    #[test]
    fn live_blocks_never_overlap() {
        for implementation in every_implementation().filter(|&each| each != Implementation::NoOp) {
            let mut subject = implementation.build(1 << 20).unwrap();
            let mut live: Vec<(usize, usize)> = Vec::new();
            for round in 0..2000 {
                let bytes = 1 + round * 7919 % 3000;
                live.push((subject.allocate(bytes).unwrap(), bytes));
                if round % 3 != 0 {
                    let (block, bytes) = live.swap_remove(round * 31 % live.len());
                    subject.free(block, bytes);
                }
            }
            live.sort_unstable();
            let apart = live.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
            assert!(apart, "{implementation}");
        }
    }
}
