//! The policies that a program can be run under, by name.

use std::iter;

use clap::builder::PossibleValue;
use heapwright_placement::PolicyKind;

/// The policy without an engine: every allocation is its own mapping of OS pages.
pub const MAPPED: &str = "mapped";

/// The drop-in library's default: thread caches in front of slabs, over pages placed by first fit.
pub const CACHED: &str = "cached";

/// Returns every choice of the drop-in library, as command-line values with their meaning.
pub fn drop_in() -> impl Iterator<Item = PossibleValue> {
    let cached = PossibleValue::new(CACHED).help("thread caches and slabs, over pages placed by first fit");
    iter::once(cached).chain(values())
}

/// Returns the names of the drop-in library's policies, in the order of tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    PolicyKind::ALL.into_iter().map(PolicyKind::name).chain([MAPPED])
}

/// Returns the policies as command-line values with their meaning.
pub fn values() -> impl Iterator<Item = PossibleValue> {
    let meanings = PolicyKind::ALL.into_iter().map(|kind| match kind {
        PolicyKind::First => "the lowest hole that fits",
        PolicyKind::Next => "the first hole that fits, from where the last block was placed",
        PolicyKind::Best => "the smallest hole that fits",
        PolicyKind::Worst => "the largest hole",
        PolicyKind::Random => "any of the holes that fit",
        PolicyKind::Buddy => "blocks of powers of two, halved and joined in pairs",
        PolicyKind::Good => "a hole of nearly the best fit, found in constant time",
    });
    let meanings = meanings.chain(["every block is its own mapping of OS pages"]);
    names().zip(meanings).map(|(name, meaning)| PossibleValue::new(name).help(meaning))
}

/// Serializes an engine's policy as its name, for serde.
pub mod by_name {
    use heapwright_placement::PolicyKind;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    /// Writes the name.
    pub fn serialize<S: Serializer>(policy: &PolicyKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(policy.name())
    }

    /// Parses the name.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PolicyKind, D::Error> {
        let name = String::deserialize(from)?;
        PolicyKind::from_name(&name).ok_or_else(|| D::Error::custom(format!("no engine has the policy {name}")))
    }
}
