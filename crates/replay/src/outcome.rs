//! The result of a replay.

use heapwright_placement::PolicyKind;
use serde::Serialize;

/// The result of a replay. Sizes in bytes; "at the end" means after the last applied event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy, serialized as its name.
    #[serde(serialize_with = "by_name")]
    pub policy: PolicyKind,
    /// The number of events applied, without changes of threads.
    pub events: u64,
    /// The number of requests that failed.
    pub refused: u64,
    /// The number of frees and resizes of blocks that are not live, because their request failed or the trace is
    /// invalid.
    pub unknown: u64,
    /// The peak of the requested bytes of all live blocks.
    pub peak_requested: u64,
    /// The peak of the bytes in used blocks.
    pub peak_live: u64,
    /// The peak length of the heap.
    pub peak_heap: u64,
    /// The number of blocks split in two.
    pub splits: u64,
    /// The number of merges of neighbouring holes.
    pub coalesces: u64,
    /// The number of resizes in place.
    pub resized: u64,
    /// The number of resizes that moved the block.
    pub moved: u64,
    /// The length of the heap at the end.
    pub heap: u64,
    /// Bytes in used blocks at the end.
    pub live: u64,
    /// The number of holes at the end, including the free tail.
    pub holes: u64,
    /// `1 - largest hole / free bytes` at the end; `None` without holes.
    pub external_fragmentation: Option<f64>,
    /// `1 - requested / allocated` over the blocks live at the end; `None` without live blocks.
    pub internal_fragmentation: Option<f64>,
}

impl Outcome {
    /// Returns the peak length of the heap over the peak of requested bytes: the memory cost of the policy. The lower
    /// bound is 1. `None` for a trace without requests.
    #[must_use]
    pub fn peak_over_requested(&self) -> Option<f64> {
        (self.peak_requested != 0).then(|| self.peak_heap as f64 / self.peak_requested as f64)
    }
}

fn by_name<S: serde::Serializer>(policy: &PolicyKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(policy.name())
}
