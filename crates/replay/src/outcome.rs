//! What came of a replay.

use heapwright_placement::PolicyKind;
use serde::Serialize;

/// What came of a replay. Sizes in bytes; "at the end" is after the last event that was applied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy, by its name.
    #[serde(serialize_with = "by_name")]
    pub policy: PolicyKind,
    /// Events applied.
    pub events: u64,
    /// Requests that found no place.
    pub refused: u64,
    /// Frees and resizes of blocks that do not live (the request for them was refused, or the trace is odd).
    pub unknown: u64,
    /// The most bytes, as asked, that lived at one time.
    pub peak_requested: u64,
    /// The most bytes in used blocks at one time.
    pub peak_live: u64,
    /// The longest that the heap was.
    pub peak_heap: u64,
    /// Blocks cut in two.
    pub splits: u64,
    /// Merges of neighbouring holes.
    pub coalesces: u64,
    /// Blocks resized where they were.
    pub resized: u64,
    /// Blocks resized by moving them.
    pub moved: u64,
    /// Bytes from the heap's start to its end, at the end.
    pub heap: u64,
    /// Bytes in used blocks at the end.
    pub live: u64,
    /// Holes at the end, the free tail included.
    pub holes: u64,
    /// `1 - largest hole / free bytes` at the end; unknown without holes.
    pub external_fragmentation: Option<f64>,
    /// `1 - requested / allocated` over the blocks that live at the end; unknown without any.
    pub internal_fragmentation: Option<f64>,
}

impl Outcome {
    /// The heap at its longest over the most bytes, as asked, that ever lived: what the policy costs in memory; 1 is the
    /// least that is possible for whoever cannot move blocks. `None` when nothing was ever asked for.
    #[must_use]
    pub fn peak_over_requested(&self) -> Option<f64> {
        (self.peak_requested != 0).then(|| self.peak_heap as f64 / self.peak_requested as f64)
    }
}

fn by_name<S: serde::Serializer>(policy: &PolicyKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(policy.name())
}
