//! `heapwright shm`: creates, inspects, checks, repairs and removes segments of shared memory.
//!
//! The output comes from a [`Snapshot`](heapwright_shared::Snapshot), which changes nothing and is safe to read
//! whatever the segment contains, or, for `top`, from an [`Observer`](heapwright_shared::Observer), which takes no
//! lock. Only `create`, `repair`, `reclaim` and `remove` change anything.

mod arguments;
mod blocks;
mod check;
mod create;
mod inspect;
mod json;
mod list;
mod look;
mod map;
mod output;
mod reclaim;
mod remove;
mod repair;
mod top;
mod waiting;

use std::process::ExitCode;

use anyhow::Result;

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
