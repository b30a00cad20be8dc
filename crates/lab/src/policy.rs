//! The policies that a program can be run under, by name.

use heapwright_placement::PolicyKind;

/// The policy that is not an engine's: every allocation is its own mapping of OS pages.
pub const MAPPED: &str = "mapped";

/// The names of all policies of the drop-in library, in the order in which tables list them.
pub fn names() -> impl Iterator<Item = &'static str> {
    PolicyKind::ALL.into_iter().map(PolicyKind::name).chain([MAPPED])
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
