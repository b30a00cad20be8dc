//! The rules of a heap as arguments, for every command that takes some.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::PolicyKind;
use heapwright_rules::{Growth, Invalid, NAMES, Only, RuleSet};
use heapwright_show::number::{parse_bytes, parse_short_bytes};

use crate::policy;

/// The longest file of rules, in bytes: one that is longer is something else.
const LONGEST_FILE: u64 = 64 << 10;

/// The rules of a heap: a set, and single rules, which go before it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Rules of the heap")]
pub struct RuleArguments {
    /// A set of rules: report000 to report004 for those of the published allocators, or a file with one rule per line.
    #[arg(long, value_name = "NAME|FILE")]
    pub rules: Option<String>,

    /// The smallest unit of placement, in bytes: a power of two from 1 to 4096 [default: 16].
    #[arg(long, value_name = "BYTES", value_parser = parse_short_bytes)]
    pub granule: Option<u32>,

    /// Bytes that every block loses in front of its payload [default: 0].
    #[arg(long, value_name = "BYTES", value_parser = parse_short_bytes)]
    pub header: Option<u32>,

    /// The least alignment of blocks, if it is to be more than the granule.
    #[arg(long, value_name = "BYTES", value_parser = parse_short_bytes)]
    pub align: Option<u32>,

    /// A remainder shorter than this stays with the block [default: 1].
    #[arg(long, value_name = "BYTES", value_parser = parse_short_bytes)]
    pub min_remainder: Option<u32>,

    /// How the heap gets longer: append, extend or pages:BYTES.
    #[arg(long, value_name = "RULE")]
    pub growth: Option<String>,

    /// What a request of 0 bytes gets [default: block].
    #[arg(long, value_name = "RESULT", value_parser = PossibleValuesParser::new(["block", "null"]))]
    pub zero: Option<String>,

    /// Which neighbours a freed block merges with [default: both].
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(["both", "forward", "deferred"]))]
    pub merging: Option<String>,

    /// Which end of a hole a block is cut from [default: low].
    #[arg(long, value_name = "END", value_parser = PossibleValuesParser::new(["low", "high"]))]
    pub split: Option<String>,

    /// The rover of next fit [default: wraps].
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(["wraps", "never-wraps", "freed"]))]
    pub rover: Option<String>,

    /// The holes that worst fit takes [default: largest].
    #[arg(long, value_name = "HOLES", value_parser = PossibleValuesParser::new(["largest", "never-exact"]))]
    pub worst: Option<String>,

    /// Length of a fixed region in bytes, in which requests may fail, instead of a heap that grows.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub region: Option<usize>,
}

impl RuleArguments {
    /// Returns whether any rule was named.
    #[must_use]
    pub fn are_given(&self) -> bool {
        let texts = self.rules.is_some() || self.region.is_some() || self.texts().next().is_some();
        texts || [self.granule, self.header, self.align, self.min_remainder].iter().any(Option::is_some)
    }

    /// Returns these rules; those that are not named are those of `base`.
    ///
    /// # Errors
    /// What is wrong, in which file and line.
    pub fn over(&self, base: RuleSet) -> Result<RuleSet> {
        let set = self.of_any_length(base)?;
        ensure!(
            set.rules.growth != Growth::Fixed || set.limit.is_some(),
            "these rules have a fixed region: give its length, as in --region 64KiB"
        );
        Ok(set)
    }

    /// As [`RuleArguments::over`], for a command that finds the length of a fixed region itself.
    ///
    /// # Errors
    /// As [`RuleArguments::over`].
    pub fn of_any_length(&self, base: RuleSet) -> Result<RuleSet> {
        let mut set = self.rules.as_deref().map_or(Ok(base), |named| read(named, base))?;
        for (key, value) in self.texts() {
            let text = format!("{key}={value}");
            set = RuleSet::read(&text, set).map_err(|error| anyhow!("--{key} {value}: {error}"))?;
        }
        let RuleSet { rules, requests, .. } = &mut set;
        rules.granule = self.granule.unwrap_or(rules.granule);
        rules.header = self.header.unwrap_or(rules.header);
        rules.min_remainder = self.min_remainder.unwrap_or(rules.min_remainder);
        requests.align = self.align.unwrap_or(requests.align);
        if let Some(region) = self.region {
            rules.growth = Growth::Fixed;
            set.limit = Some(region as u64);
        }
        match set.validate() {
            Ok(()) | Err(Invalid::NoLimit) => Ok(set),
            Err(invalid) => Err(anyhow!("{invalid}")),
        }
    }
}

impl RuleArguments {
    /// Returns the options whose values are those of the text form.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("growth", &self.growth),
            ("zero", &self.zero),
            ("merging", &self.merging),
            ("split", &self.split),
            ("rover", &self.rover),
            ("worst", &self.worst),
        ]
        .into_iter()
        .filter_map(|(key, value)| value.as_deref().map(|value| (key, value)))
    }
}

/// Refuses rules that the fast engine does not have, for a command that has no other.
///
/// # Errors
/// The rule, and the command that has an engine for it.
pub fn refuse_odd(set: &RuleSet) -> Result<()> {
    set.odd.reason().map_or(Ok(()), |reason| {
        Err(anyhow!("{reason}: only heapwright replay has an engine for this rule (the reference engine)"))
    })
}

/// Reads the set of a name, or a file.
fn read(named: &str, base: RuleSet) -> Result<RuleSet> {
    if let Some(set) = heapwright_rules::named(named) {
        return Ok(set);
    }
    let path = Path::new(named);
    let names = || format!("--rules {named}: no such file, and no set of rules: there are {}", NAMES.join(", "));
    let length = fs::metadata(path).with_context(names)?.len();
    ensure!(length <= LONGEST_FILE, "{named} has {length} bytes, more than rules ever have");
    let bytes = fs::read(path).with_context(|| format!("{named} cannot be read"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{named} is not text in UTF-8"))?;
    RuleSet::read(&text, base).map_err(|error| anyhow!("{named}: {error}"))
}

/// Returns the policies of these names; all of them when none is named. Those that rules belong to, if they do.
///
/// # Errors
/// A policy that the rules exclude, or one that has no engine.
pub fn policies(set: &RuleSet, names: &[String]) -> Result<Vec<PolicyKind>> {
    match set.only {
        Some(Only::Mapped) => bail!("these rules map every block by itself: there is no placement to simulate"),
        Some(Only::Policy(policy)) => {
            ensure!(set.odd.reason_under(policy).is_none(), "{} has no such rules: leave them out", policy.name());
            let other = names.iter().find(|name| *name != policy.name());
            ensure!(other.is_none(), "these rules belong to the policy {}: leave out --policy", policy.name());
            Ok(vec![policy])
        }
        None => {
            let is_odd = set.odd.reason_under(PolicyKind::Buddy).is_some();
            let buddy = PolicyKind::Buddy.name();
            ensure!(
                !is_odd || !names.iter().any(|name| name == buddy),
                "buddies have no such rules: leave out -p buddy"
            );
            let is_mapped = |name: &String| name == policy::MAPPED;
            ensure!(!names.iter().any(is_mapped), "mapped has no placement to simulate: add --real");
            let chosen: Vec<PolicyKind> = names.iter().filter_map(|name| PolicyKind::from_name(name)).collect();
            let all = PolicyKind::ALL.into_iter().filter(|policy| !is_odd || *policy != PolicyKind::Buddy);
            Ok(if chosen.is_empty() { all.collect() } else { chosen })
        }
    }
}
