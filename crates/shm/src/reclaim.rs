//! `heapwright shm reclaim`.

use std::collections::HashMap;
use std::process::ExitCode;

use anyhow::Result;
use heapwright_shared::{BlockInfo, BlockOwner, Leavers, Offset, ProcessState, Reclaimed, SharedHeap, Snapshot};

use super::arguments::ReclaimArgs;
use super::output::print;
use super::{look, waiting};
use heapwright_show::number::{self, counted};
use heapwright_show::table::{Cell, Side, Table};

/// How many blocks are listed when they are freed at once.
const LISTED: usize = 20;

/// Lists the blocks that processes left, and frees them unless this is a dry run.
pub fn run(args: &ReclaimArgs) -> Result<ExitCode> {
    let (place, access) = (&args.name.place, args.trust.access());
    let leavers = if args.closed { Leavers::DeadAndClosed } else { Leavers::Dead };
    let snapshot = waiting::read(place, &access)?;
    snapshot.audit.clone()?;
    let left: Vec<Left> = left_behind(&snapshot, leavers).collect();
    if left.is_empty() {
        heapwright_show::println!("{place}: nothing was left behind");
        return Ok(ExitCode::SUCCESS);
    }
    print(&table(&left, if args.dry_run { left.len() } else { LISTED }))?;
    if args.dry_run {
        heapwright_show::println!("{place}: {}", describe(&expected(&left), ("would be", "would stay")));
        return Ok(ExitCode::SUCCESS);
    }
    let heap = SharedHeap::open_with(place, &access)?;
    let reclaimed = heap.reclaim(leavers)?;
    heap.close()?;
    heapwright_show::println!("{place}: {}", describe(&reclaimed, ("were", "stayed")));
    Ok(ExitCode::SUCCESS)
}

/// A block whose owner died or closed the segment.
struct Left<'s> {
    block: &'s BlockInfo,
    owner: BlockOwner,
    /// The name of a root that points at it.
    root: Option<&'s str>,
}

fn left_behind(snapshot: &Snapshot, leavers: Leavers) -> impl Iterator<Item = Left<'_>> {
    let roots: HashMap<Offset, &str> = snapshot.roots.iter().map(|root| (root.offset, root.name.as_str())).collect();
    snapshot.blocks.iter().filter_map(move |block| {
        let owner = block.owner.filter(|owner| match owner.state {
            ProcessState::Attached => false,
            ProcessState::Closed => leavers == Leavers::DeadAndClosed,
            ProcessState::Dead => true,
        })?;
        Some(Left { block, owner, root: roots.get(&block.offset).copied() })
    })
}

fn table(left: &[Left], most: usize) -> String {
    let mut table = Table::aligned([
        ("offset", Side::Right),
        ("size", Side::Right),
        ("left by", Side::Right),
        ("", Side::Left),
        ("", Side::Left),
    ])
    .indented();
    for Left { block, owner, root } in left.iter().take(most) {
        table.row([
            format!("{:#x}", block.offset.get()).into(),
            number::bytes(block.size as u64).into(),
            look::pid(*owner).into(),
            Cell::styled(look::state(owner.state), look::owner_style(*owner, 0)),
            root.map_or_else(String::new, |name| format!("kept: the root {name:?} points at it")).into(),
        ]);
    }
    match left.len().saturating_sub(most) {
        0 => table.to_string(),
        more => format!("{table}  and {} more\n", number::grouped(more as u64)),
    }
}

/// Returns the expected result of a reclaim, if nothing changes meanwhile.
fn expected(left: &[Left]) -> Reclaimed {
    let (kept, freed): (Vec<&Left>, Vec<&Left>) = left.iter().partition(|one| one.root.is_some());
    let bytes = freed.iter().map(|one| one.block.size as u64).sum();
    Reclaimed { blocks: freed.len() as u64, bytes, kept: kept.len() as u64 }
}

fn describe(reclaimed: &Reclaimed, (are, stay): (&str, &str)) -> String {
    let Reclaimed { blocks, bytes, kept } = *reclaimed;
    let freed = format!("{} ({}) {are} freed", counted(blocks, "block"), number::bytes(bytes));
    match kept {
        0 => freed,
        _ => format!("{freed}; {} that a root points at {stay}", counted(kept, "block")),
    }
}
