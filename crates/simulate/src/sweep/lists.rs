//! The rules of a sweep: lists of sets and of single rules, and their combinations.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use heapwright_allocators::rules::RuleArguments;
use heapwright_rules::{Growth, RuleSet};
use heapwright_show::usage::Misuse;
use serde::Serialize;

use super::typed;

/// Lists of rules.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Rules of the heaps, as lists")]
pub struct Lists {
    /// Sets of rules: report000 to report004, or files with one rule per line.
    #[arg(long, value_name = "NAMES|FILES")]
    pub rules: Option<String>,

    /// The smallest units of placement, in bytes [default: 16].
    #[arg(long, value_name = "SIZES")]
    pub granule: Option<String>,

    /// Bytes that every block loses in front of its payload [default: 0].
    #[arg(long, value_name = "SIZES")]
    pub header: Option<String>,

    /// The least alignments of blocks, if more than the granule's.
    #[arg(long, value_name = "SIZES")]
    pub align: Option<String>,

    /// Remainders shorter than this stay with the block [default: 1].
    #[arg(long, value_name = "SIZES")]
    pub min_remainder: Option<String>,

    /// A request for fewer bytes is one for this many [default: 0].
    #[arg(long, value_name = "SIZES")]
    pub least: Option<String>,

    /// What requests of 0 bytes get: block, null [default: block].
    #[arg(long, value_name = "RESULTS")]
    pub zero: Option<String>,

    /// Which neighbours freed blocks merge with: both, forward, deferred [default: both].
    #[arg(long, value_name = "RULES")]
    pub merging: Option<String>,

    /// Which end of a hole a block is cut from: low, high [default: low].
    #[arg(long, value_name = "ENDS")]
    pub split: Option<String>,

    /// The rover of next fit: wraps, never-wraps, freed [default: wraps].
    #[arg(long, value_name = "RULES")]
    pub rover: Option<String>,

    /// The holes that worst fit takes: largest, never-exact [default: largest].
    #[arg(long, value_name = "HOLES")]
    pub worst: Option<String>,

    /// How the heap grows: extend, append, pages:BYTES [default: extend, without --region].
    #[arg(long, value_name = "RULES")]
    pub growth: Option<String>,

    /// Lengths of fixed regions in bytes, in addition to the heaps that grow.
    #[arg(long, value_name = "SIZES")]
    pub region: Option<String>,
}

/// A set of rules, and the name that it was made from.
#[derive(Clone, Debug, Serialize)]
pub struct NamedSet {
    /// The name or file of `--rules`; empty if none was named.
    pub name: String,
    /// The rules.
    #[serde(serialize_with = "as_text")]
    pub set: RuleSet,
}

fn as_text<S: serde::Serializer>(set: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(set)
}

impl Lists {
    /// Returns all combinations, in a fixed order. Some may be invalid together.
    ///
    /// # Errors
    /// A list that cannot be read.
    pub fn sets(&self) -> Result<Vec<NamedSet>> {
        let mut sets = self.named()?;
        let keys = [
            ("granule", &self.granule),
            ("header", &self.header),
            ("align", &self.align),
            ("min-remainder", &self.min_remainder),
            ("least", &self.least),
            ("zero", &self.zero),
            ("merging", &self.merging),
            ("split", &self.split),
            ("rover", &self.rover),
            ("worst", &self.worst),
        ];
        for (key, list) in keys {
            if let Some(list) = list {
                sets = combined(&sets, &texts(key, list)?, |set, text| with(key, set, text))?;
            }
        }
        self.shaped(&sets)
    }

    /// Returns the files that `--rules` names.
    ///
    /// # Errors
    /// A list that cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let Some(list) = &self.rules else { return Ok(Vec::new()) };
        let names = texts("rules", list)?.into_iter().map(of_name);
        Ok(names.filter_map(|arguments| arguments.file().map(Path::to_owned)).collect())
    }

    /// Returns the sets of `--rules`.
    fn named(&self) -> Result<Vec<NamedSet>> {
        let Some(list) = &self.rules else {
            return Ok(vec![NamedSet { name: String::new(), set: RuleSet::SIMULATED }]);
        };
        let of = |name: String| {
            let set = of_name(name.clone()).of_any_length(RuleSet::SIMULATED)?;
            Ok(NamedSet { name, set })
        };
        texts("rules", list)?.into_iter().map(of).collect()
    }

    /// Returns the sets with every growth and every fixed region; as they are if neither is given.
    fn shaped(&self, sets: &[NamedSet]) -> Result<Vec<NamedSet>> {
        let (mut shaped, mut is_shaped) = (Vec::new(), false);
        if let Some(growths) = &self.growth {
            let growths = texts("growth", growths)?;
            if growths.iter().any(|growth| growth == "fixed") {
                let message = "--growth fixed: give the lengths of fixed regions, as in --region 64KiB";
                bail!(Misuse(message.to_owned()));
            }
            shaped = combined(sets, &growths, |set, text| with("growth", set, text))?;
            is_shaped = true;
        }
        if let Some(regions) = &self.region {
            let regions = typed::regions(regions).map_err(|error| Misuse(format!("--region: {error}")))?;
            shaped.extend(combined(sets, &regions, |mut set, &region| {
                set.rules.growth = Growth::Fixed;
                Ok(RuleSet { limit: Some(region as u64), ..set })
            })?);
            is_shaped = true;
        }
        Ok(if is_shaped { shaped } else { sets.to_vec() })
    }
}

fn of_name(rules: String) -> RuleArguments {
    RuleArguments { rules: Some(rules), ..RuleArguments::default() }
}

fn texts(option: &str, list: &str) -> Result<Vec<String>> {
    Ok(typed::values(list).map_err(|error| Misuse(format!("--{option} {list}: {error}")))?)
}

/// Returns the set with one rule changed.
fn with(key: &str, set: RuleSet, value: &str) -> Result<RuleSet> {
    Ok(RuleSet::read(&format!("{key}={value}"), set).map_err(|error| Misuse(format!("--{key}: {error}")))?)
}

/// Returns every set with every value.
fn combined<V>(
    sets: &[NamedSet],
    values: &[V],
    with: impl Fn(RuleSet, &V) -> Result<RuleSet>,
) -> Result<Vec<NamedSet>> {
    let each = sets.iter().flat_map(|named| values.iter().map(move |value| (named, value)));
    each.map(|(named, value)| Ok(NamedSet { name: named.name.clone(), set: with(named.set, value)? })).collect()
}
