//! `heapwright shm`: creates, inspects, checks, repairs and removes segments of shared memory.
//!
//! The output comes from a [`Snapshot`], which changes nothing and is safe to read whatever the segment contains, or,
//! for `top`, from an [`Observer`](heapwright_shared::Observer), which takes no lock. Only `create`, `repair`,
//! `reclaim` and `remove` change anything.

mod arguments;
mod check;
mod create;
mod inspect;
mod json;
mod list;
mod look;
mod map;
mod reclaim;
mod remove;
mod repair;
mod top;
mod waiting;

use std::io::{self, Write};
use std::process::ExitCode;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anyhow::Result;
use heapwright_shared::{BlockInfo, BlockState, Offset, Snapshot};

pub use self::arguments::{Command, EXAMPLES};

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Create(args) => create::run(args),
        Command::List { json } => list::run(*json),
        Command::Inspect(args) => inspect::run(args),
        Command::Check(args) => check::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Reclaim(args) => reclaim::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Top(args) => top::run(args),
    }
}

/// Prints `text` at once, however long it is, without its styles where there are no colours.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match AutoStream::choice(&out) {
        ColorChoice::Never => out.write_all(strip_str(text).to_string().as_bytes()),
        _ => out.write_all(text.as_bytes()),
    }
    .and_then(|()| out.flush())
    .map_err(|error| heapwright_show::output::failure(&error))
}

/// The used block that starts at `offset`, among `blocks` in address order.
fn used_block(blocks: &[BlockInfo], offset: Offset) -> Option<&BlockInfo> {
    let at = blocks.binary_search_by_key(&offset.get(), |block| block.offset.get()).ok()?;
    blocks.get(at).filter(|block| block.state == BlockState::Used)
}

/// Returns the number of used blocks, those of slabs included. The counters count a slab as one.
fn used_blocks(snapshot: &Snapshot) -> u64 {
    snapshot.blocks.iter().filter(|block| block.state == BlockState::Used).count() as u64
}

/// A part of a whole, as in "12.5 %".
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

/// Returns a number and its noun: "1 block", "2 processes".
fn plural(count: u64, thing: &str) -> String {
    let ending = match count {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {thing}{ending}", heapwright_show::number::grouped(count))
}
