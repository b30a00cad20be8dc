//! The policies that a program can be run under, by name.

use std::iter;

use clap::builder::PossibleValue;
use heapwright_placement::PolicyKind;

/// The policy that is not an engine's: every allocation is its own mapping of OS pages.
pub const MAPPED: &str = "mapped";

/// What the drop-in library can be besides a policy: lists per thread and size class, over pages placed by first fit.
pub const CACHED: &str = "cached";

/// Everything that the drop-in library can be, as values to choose from, each with what it means.
pub fn drop_in() -> impl Iterator<Item = PossibleValue> {
    let cached = PossibleValue::new(CACHED).help("lists per thread and size class, over pages placed by first fit");
    iter::once(cached).chain(values())
}

/// The names of all policies of the drop-in library, in the order in which tables list them.
pub fn names() -> impl Iterator<Item = &'static str> {
    PolicyKind::ALL.into_iter().map(PolicyKind::name).chain([MAPPED])
}

/// The policies as values to choose from, each with what it means.
pub fn values() -> impl Iterator<Item = PossibleValue> {
    let meanings = PolicyKind::ALL.into_iter().map(|kind| match kind {
        PolicyKind::First => "the lowest hole that fits",
        PolicyKind::Next => "the first hole that fits, from where the last block was placed",
        PolicyKind::Best => "the smallest hole that fits",
        PolicyKind::Worst => "the largest hole",
        PolicyKind::Random => "any of the holes that fit",
        PolicyKind::Buddy => "blocks of powers of two, halved and joined in pairs",
        PolicyKind::Good => "a hole that nearly fits best, found in constant time",
    });
    let meanings = meanings.chain(["every block is its own mapping of OS pages"]);
    names().zip(meanings).map(|(name, meaning)| PossibleValue::new(name).help(meaning))
}

/// For serde: an engine's policy by its name.
pub mod by_name {
    use heapwright_placement::PolicyKind;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    /// Writes the name.
    pub fn serialize<S: Serializer>(policy: &PolicyKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(policy.name())
    }

    /// Finds the policy of the name.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PolicyKind, D::Error> {
        let name = String::deserialize(from)?;
        PolicyKind::from_name(&name).ok_or_else(|| D::Error::custom(format!("no engine has the policy {name}")))
    }
}
