//! The policies that a program can be run under, by name.

use heapwright_placement::PolicyKind;

/// The policy that is not an engine's: every allocation is its own mapping of OS pages.
pub const MAPPED: &str = "mapped";

/// The names of all policies of the drop-in library, in the order in which tables list them.
pub fn names() -> impl Iterator<Item = &'static str> {
    PolicyKind::ALL.into_iter().map(PolicyKind::name).chain([MAPPED])
}
