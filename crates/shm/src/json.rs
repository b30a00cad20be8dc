//! The contents of segments as JSON.

use std::fs;
use std::os::unix::fs::MetadataExt;

use heapwright_shared::{
    BlockInfo, BlockOwner, BlockState, Condition, Counters, Error, HoleStats, ProcessInfo, Root, SmallBlocks, Snapshot,
};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::blocks::used_block;
use super::look;

/// Which blocks are listed one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// None.
    Summary,
    /// All of them.
    EveryBlock,
}

/// Everything that is known of a segment.
#[derive(Serialize)]
pub struct Segment<'s> {
    #[serde(flatten)]
    facts: Value,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "every_block")]
    blocks: Option<&'s [BlockInfo]>,
}

impl<'s> Segment<'s> {
    /// Returns the JSON of a snapshot.
    pub fn of(snapshot: &'s Snapshot, listing: Listing) -> Segment<'s> {
        let blocks = (listing == Listing::EveryBlock).then_some(snapshot.blocks.as_slice());
        Segment { facts: facts(snapshot), blocks }
    }
}

/// One after the other: there may be millions.
fn every_block<S: Serializer>(blocks: &Option<&[BlockInfo]>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(blocks.iter().copied().flatten().map(block))
}

fn facts(snapshot: &Snapshot) -> Value {
    let mut row = summary(snapshot);
    row["granule"] = json!(snapshot.granule);
    row["small_blocks"] = json!(match snapshot.small {
        SmallBlocks::Placed => "placed",
        SmallBlocks::Slabs => "slabs",
    });
    row["overhead"] = json!(snapshot.overhead);
    row["max_processes"] = json!(snapshot.max_processes);
    row["max_roots"] = json!(snapshot.max_roots);
    row["user"] = json!(snapshot.user);
    row["mode"] = json!(format!("{:03o}", snapshot.mode));
    if let Ok(file) = fs::metadata(snapshot.place.path()) {
        row["length"] = json!(file.len());
        row["memory"] = json!(file.blocks() * 512);
    }
    row["recoveries"] = json!(snapshot.recoveries);
    row["interrupted_by"] = match snapshot.condition {
        Condition::Interrupted { by } => json!(by),
        _ => Value::Null,
    };
    row["processes"] = snapshot.processes.iter().map(process).collect();
    row["roots"] = snapshot.roots.iter().map(|root| self::root(root, &snapshot.blocks)).collect();
    let known = snapshot.audit.is_ok();
    row["holes"] = if known { holes(&snapshot.holes) } else { Value::Null };
    row["counters"] = if known { counters(&snapshot.counters) } else { Value::Null };
    row
}

/// Returns the JSON of one segment in a list.
pub fn summary(snapshot: &Snapshot) -> Value {
    let (attached, dead) = look::living_and_dead(snapshot);
    let known = snapshot.audit.is_ok();
    json!({
        "place": look::path(&snapshot.place),
        "state": look::condition(snapshot).0,
        "problem": snapshot.audit.as_ref().err().map(problem),
        "policy": snapshot.policy.name(),
        "size": known.then_some(snapshot.size),
        "max_size": snapshot.max_size,
        "used": known.then(|| snapshot.used()),
        "attached": attached,
        "dead": dead,
    })
}

/// What is wrong, and where.
pub fn problem(error: &Error) -> Value {
    let offset = match error {
        Error::Corrupted { offset, .. } | Error::BeyondRepair { offset, .. } | Error::RootOfNoBlock { offset, .. } => {
            Some(offset)
        }
        _ => None,
    };
    json!({ "message": error.to_string(), "offset": offset })
}

fn process(process: &ProcessInfo) -> Value {
    let ProcessInfo { owner, blocks, bytes } = process;
    json!({ "pid": owner.pid, "state": look::state(owner.state), "blocks": blocks, "bytes": bytes })
}

fn owner(owner: &BlockOwner) -> Value {
    json!({ "pid": owner.pid, "state": look::state(owner.state) })
}

fn root(root: &Root, blocks: &[BlockInfo]) -> Value {
    let target = used_block(blocks, root.offset);
    json!({ "name": root.name, "offset": root.offset.get(), "size": target.map(|block| block.size) })
}

fn block(block: &BlockInfo) -> Value {
    json!({
        "offset": block.offset.get(),
        "size": block.size,
        "state": match block.state { BlockState::Used => "used", BlockState::Free => "free" },
        "owner": block.owner.as_ref().map(owner),
    })
}

fn holes(holes: &HoleStats) -> Value {
    let classes = holes.histogram.iter().enumerate().filter(|&(_, &count)| count > 0);
    json!({
        "count": holes.count,
        "total": holes.total,
        "min": holes.min,
        "max": holes.max,
        "mean": holes.mean(),
        "external_fragmentation": holes.external_fragmentation(),
        "histogram": classes.map(|(power, count)| json!({ "from": 1_u64 << power, "count": count })).collect::<Value>(),
    })
}

fn counters(counters: &Counters) -> Value {
    json!({
        "mallocs": counters.mallocs,
        "frees": counters.frees,
        "reuses": counters.reuses,
        "grows": counters.grows,
        "splits": counters.splits,
        "coalesces": counters.coalesces,
        "resizes": counters.resizes,
        "blocks": counters.blocks,
        "holes": counters.holes,
        "requested": counters.requested,
        "rounded": counters.rounded,
        "live": counters.live,
        "peak_live": counters.peak_live,
        "heap_size": counters.heap_size,
        "peak_heap_size": counters.peak_heap_size,
        "utilisation": counters.utilisation(),
    })
}
