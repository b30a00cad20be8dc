//! `heapwright shm create`.

use std::process::ExitCode;

use anyhow::Result;
use heapwright_shared::{Error, Settings, SharedHeap, SmallBlocks};

use super::arguments::CreateArgs;
use heapwright_show::{number, usage};

/// Makes a segment, leaves it, and says what it takes.
pub fn run(args: &CreateArgs) -> Result<ExitCode> {
    let settings = Settings {
        size: args.size,
        max_size: args.max_size,
        policy: args.policy,
        mode: args.mode,
        granule: args.granule,
        processes: args.processes,
        roots: args.roots,
        small: if args.slabs { SmallBlocks::Slabs } else { SmallBlocks::Placed },
        ..Settings::default()
    };
    let heap = match SharedHeap::create(&args.name.place, &settings) {
        Err(Error::BadSettings { why }) => usage::refuse(why),
        made => made?,
    };
    let (size, most) = (heap.size()? as u64, heap.max_size() as u64);
    let growth = match most > size {
        true => format!(", {} at most", number::bytes(most)),
        false => String::new(),
    };
    heapwright_show::println!(
        "{}: {} of blocks{growth}, policy {}, mode {:03o}",
        args.name.place,
        number::bytes(size),
        heap.policy().name(),
        args.mode,
    );
    heap.close()?;
    Ok(ExitCode::SUCCESS)
}
