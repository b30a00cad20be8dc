//! Arguments that the simulating commands share: the rules of the heap, its policies, and the trace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_replay::Model;
use heapwright_show::number::{parse_bytes, parse_short_bytes};
use heapwright_trace::Reader;

/// The rules of a simulated heap.
#[derive(Args, Clone, Debug)]
pub struct RuleArguments {
    /// The smallest unit of placement, in bytes: a power of two from 1 to 4096.
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = parse_short_bytes)]
    pub granule: u32,

    /// Bytes that every block loses in front of its payload.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = parse_short_bytes)]
    pub header: u32,

    /// A remainder shorter than this stays with the block.
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = parse_short_bytes)]
    pub min_remainder: u32,

    /// Length of a fixed region in bytes, in which requests may fail, instead of a heap that grows.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub region: Option<usize>,

    /// The seed of random fit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl RuleArguments {
    /// The heap that these rules describe, under `policy`.
    pub fn model(&self, policy: PolicyKind) -> Model {
        let rules = Rules {
            granule: self.granule,
            header: self.header,
            min_remainder: self.min_remainder,
            growth: if self.region.is_some() { Growth::Fixed } else { Growth::Extend },
            ..Rules::default()
        };
        let usual = Model { seed: self.seed, ..Model::with(policy, rules) };
        Model { capacity: self.region.unwrap_or(usual.capacity), ..usual }
    }
}

/// The policies of these names; all of them when none is named.
pub fn chosen(names: &[String]) -> Vec<PolicyKind> {
    let chosen: Vec<PolicyKind> = names.iter().filter_map(|name| PolicyKind::from_name(name)).collect();
    if chosen.is_empty() { PolicyKind::ALL.to_vec() } else { chosen }
}

/// Begins to read a trace, up to damage if there is any.
pub fn open(path: &Path) -> Result<Reader<'static>> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let reader = Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())?;
    Ok(reader.up_to_damage())
}
