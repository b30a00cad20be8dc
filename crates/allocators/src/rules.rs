//! The rules of a heap as arguments, for every command that takes some.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::PolicyKind;
use heapwright_rules::{Growth, Invalid, NAMES, Only, Reason, RuleSet, TextError};
use heapwright_show::number::{parse_bytes, parse_short_bytes};
use heapwright_show::shell::quoted;
use heapwright_show::usage::Misuse;

use crate::policy;

/// The longest file of rules, in bytes: one that is longer is something else.
const LONGEST_FILE: u64 = 64 << 10;

/// What some editors write in front of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Why rules with a fixed region of no length are none.
pub const NO_LENGTH: &str = "these rules have a fixed region: give its length, as in --region 64KiB";

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

    /// A request for fewer bytes is one for this many [default: 0].
    #[arg(long, value_name = "BYTES", value_parser = parse_short_bytes)]
    pub least: Option<u32>,

    /// The most that the heap grows to, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "region")]
    pub limit: Option<usize>,

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
        let texts = self.rules.is_some() || self.texts().next().is_some();
        let lengths = self.region.is_some() || self.limit.is_some();
        let sizes = [self.granule, self.header, self.align, self.min_remainder, self.least];
        texts || lengths || sizes.iter().any(Option::is_some)
    }

    /// Returns the file that `--rules` names, if it names none of the sets.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.rules.as_deref().filter(|named| heapwright_rules::named(named).is_none()).map(Path::new)
    }

    /// Returns these rules; those that are not named are those of `base`.
    ///
    /// # Errors
    /// What is wrong, in which file and line.
    pub fn over(&self, base: RuleSet) -> Result<RuleSet> {
        let set = self.of_any_length(base)?;
        if set.rules.growth == Growth::Fixed && set.limit.is_none() {
            bail!(Misuse(NO_LENGTH.to_owned()));
        }
        Ok(set)
    }

    /// As [`RuleArguments::over`], for a command that finds the length of a fixed region itself.
    ///
    /// # Errors
    /// As [`RuleArguments::over`].
    pub fn of_any_length(&self, base: RuleSet) -> Result<RuleSet> {
        let named = self.rules.as_deref().map(|named| read(named, base)).transpose()?;
        let Named { mut set, conflict } = named.unwrap_or(Named { set: base, conflict: None });
        for (key, value) in self.texts() {
            let text = format!("{key}={value}");
            set = RuleSet::read(&text, set).map_err(|error| Misuse(format!("--{key} {value}: {error}")))?;
        }
        let RuleSet { rules, requests, .. } = &mut set;
        rules.granule = self.granule.unwrap_or(rules.granule);
        rules.header = self.header.unwrap_or(rules.header);
        rules.min_remainder = self.min_remainder.unwrap_or(rules.min_remainder);
        requests.align = self.align.unwrap_or(requests.align);
        requests.least = self.least.unwrap_or(requests.least);
        if self.region.is_some() {
            if let Some(growth) = self.growth.as_deref().filter(|_| rules.growth != Growth::Fixed) {
                bail!(Misuse(format!(
                    "--region is a region that does not grow: leave out --growth {growth}, or give --limit for the \
                     most that the heap grows to"
                )));
            }
            rules.growth = Growth::Fixed;
        }
        let length = self.region.or(self.limit).map(|length| length as u64);
        set.limit = length.or(set.limit);
        match set.validate() {
            Ok(()) | Err(Invalid::NoLimit) => Ok(set),
            Err(invalid) => {
                let located = conflict.filter(|conflict| conflict.invalid == invalid);
                bail!(Misuse(located.map_or_else(|| self.blamed(invalid), |conflict| conflict.located)))
            }
        }
    }

    /// Returns the message for rules that are invalid together. It names the option that gives too short a length.
    fn blamed(&self, invalid: Invalid) -> String {
        match (invalid, self.region, self.limit) {
            (Invalid::TooShort { .. }, Some(length), _) => format!("--region {length}: {invalid}"),
            (Invalid::TooShort { .. }, _, Some(length)) => format!("--limit {length}: {invalid}"),
            _ => invalid.to_string(),
        }
    }
}

/// The rules of a command that simulates heaps and runs programs under their policies, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenRules {
    /// The rules of simulations.
    pub simulated: RuleSet,
    /// The rules of programs under a policy; `None` for those of the drop-in library, if none was named.
    pub of_programs: Option<RuleSet>,
    /// The options that name them, as they are typed; empty if none was named.
    pub options: String,
}

impl ChosenRules {
    /// The rules if none are named.
    pub const USUAL: ChosenRules =
        ChosenRules { simulated: RuleSet::SIMULATED, of_programs: None, options: String::new() };
}

impl RuleArguments {
    /// Returns these rules for simulations and for programs.
    ///
    /// # Errors
    /// As [`RuleArguments::over`].
    pub fn chosen(&self) -> Result<ChosenRules> {
        if !self.are_given() {
            return Ok(ChosenRules::USUAL);
        }
        let (simulated, of_programs) = (self.over(RuleSet::SIMULATED)?, Some(self.over(RuleSet::USUAL)?));
        Ok(ChosenRules { simulated, of_programs, options: self.options() })
    }

    /// Returns the options as they are typed.
    fn options(&self) -> String {
        let named = self.rules.as_ref().map(|named| ("rules", named.clone()));
        let sizes = [
            ("granule", self.granule),
            ("header", self.header),
            ("align", self.align),
            ("min-remainder", self.min_remainder),
            ("least", self.least),
        ];
        let sizes = sizes.into_iter().filter_map(|(key, size)| Some((key, size?.to_string())));
        let lengths = [("limit", self.limit), ("region", self.region)];
        let lengths = lengths.into_iter().filter_map(|(key, length)| Some((key, length?.to_string())));
        let texts = self.texts().map(|(key, text)| (key, text.to_owned()));
        let all = named.into_iter().chain(sizes).chain(texts).chain(lengths);
        all.map(|(key, value)| format!("--{key} {}", quoted(&value))).collect::<Vec<_>>().join(" ")
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

/// Returns the policy and the rules of a program that is to run under the drop-in library: the policy of that name, or
/// that of the rules, or first fit.
///
/// # Errors
/// That the rules belong to another policy, or that no program can run by them.
pub fn of_program(arguments: &RuleArguments, policy: Option<&str>) -> Result<(String, RuleSet)> {
    let set = arguments.over(RuleSet::USUAL)?;
    refuse_odd(&set)?;
    let only = set.only.map(Only::name);
    let policy = policy.or(only).unwrap_or(PolicyKind::First.name());
    match only {
        Some(only) if policy != only => {
            bail!(Misuse(format!("these rules belong to the policy {only}: leave out --policy")))
        }
        None if PolicyKind::from_name(policy).is_none() => {
            bail!(Misuse(format!("{policy} has no rules to choose: give a policy, as in --policy first")))
        }
        _ => {}
    }
    Ok((policy.to_owned(), set))
}

/// Refuses rules that the fast engine does not have: programs have no other.
///
/// # Errors
/// The rule.
pub fn refuse_odd(set: &RuleSet) -> Result<()> {
    let Some(reason) = set.odd.reason() else { return Ok(()) };
    bail!(Misuse(format!(
        "{reason}: no program can run by this rule, only simulations can (the reference engine makes them)"
    )))
}

/// The rules that `--rules` names.
struct Named {
    set: RuleSet,
    /// What is wrong with all of them together. Other options may settle it.
    conflict: Option<Conflict>,
}

/// A conflict between the lines of a file.
struct Conflict {
    invalid: Invalid,
    /// The same in words, with the file and the line.
    located: String,
}

/// Reads the set of a name, or a file.
fn read(named: &str, base: RuleSet) -> Result<Named> {
    if let Some(set) = heapwright_rules::named(named) {
        return Ok(Named { set, conflict: None });
    }
    let path = Path::new(named);
    let names = || format!("--rules {named}: no such file, and no set of rules: there are {}", NAMES.join(", "));
    let file = match File::open(path) {
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => bail!(Misuse(names())),
        opened => opened.with_context(|| format!("{named} cannot be read"))?,
    };
    let mut bytes = Vec::new();
    // A pipe or a device has no length.
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).with_context(|| format!("{named} cannot be read"))?;
    let is_short = bytes.len() as u64 <= LONGEST_FILE;
    ensure!(is_short, "{named} has more than {LONGEST_FILE} bytes: rules never have as many");
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{named} is not text in UTF-8"))?;
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    let located = |error: &TextError| format!("{named}: line {}: {error}", error.line);
    match RuleSet::from_text(text, base) {
        Ok(set) => Ok(Named { set, conflict: None }),
        Err(error @ TextError { reason: Reason::Invalid(invalid), .. }) => {
            let set = RuleSet::read(text, base).map_err(|error| Misuse(located(&error)))?;
            Ok(Named { set, conflict: Some(Conflict { invalid, located: located(&error) }) })
        }
        Err(error) => bail!(Misuse(located(&error))),
    }
}

/// Returns the policies of these names, each once; all of them when none is named. Those that rules belong to, if they
/// do.
///
/// # Errors
/// A policy that the rules exclude, or one that has no engine.
pub fn policies(set: &RuleSet, names: &[String]) -> Result<Vec<PolicyKind>> {
    let misuse = |message: String| Err(Misuse(message).into());
    match set.only {
        Some(Only::Mapped) => {
            misuse("these rules map every block by itself: there is no placement to simulate".to_owned())
        }
        Some(Only::Policy(policy)) if set.odd.reason_under(policy).is_some() => {
            misuse(format!("{} has no such rules: leave them out", policy.name()))
        }
        Some(Only::Policy(policy)) if names.iter().any(|name| name != policy.name()) => {
            misuse(format!("these rules belong to the policy {}: leave out --policy", policy.name()))
        }
        Some(Only::Policy(policy)) => Ok(vec![policy]),
        None => {
            let is_odd = set.odd.reason_under(PolicyKind::Buddy).is_some();
            let is_named = |policy: &str| names.iter().any(|name| name == policy);
            if is_odd && is_named(PolicyKind::Buddy.name()) {
                return misuse("buddies have no such rules: leave out -p buddy".to_owned());
            }
            if is_named(policy::MAPPED) {
                return misuse("mapped has no placement to simulate: add --real".to_owned());
            }
            let mut chosen: Vec<PolicyKind> = Vec::new();
            for policy in names.iter().filter_map(|name| PolicyKind::from_name(name)) {
                if !chosen.contains(&policy) {
                    chosen.push(policy);
                }
            }
            let all = PolicyKind::ALL.into_iter().filter(|policy| !is_odd || *policy != PolicyKind::Buddy);
            Ok(if chosen.is_empty() { all.collect() } else { chosen })
        }
    }
}
