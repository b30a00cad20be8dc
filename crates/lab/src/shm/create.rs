//! `heapwright shm create`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::CommandFactory;
use clap::error::ErrorKind;
use heapwright_shared::{Error, Settings, SharedHeap};

use super::arguments::CreateArgs;
use crate::cli::Cli;
use crate::number;

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
        ..Settings::default()
    };
    let heap = match SharedHeap::create(&args.name.place, &settings) {
        Err(Error::BadSettings { why }) => refuse_as_mistyped(why),
        Err(Error::NotFound { place }) => bail!("there is no directory for {place}; make it first"),
        made => made?,
    };
    let (size, most) = (heap.size()? as u64, heap.max_size() as u64);
    let growth = match most > size {
        true => format!(", {} at most", number::bytes(most)),
        false => String::new(),
    };
    anstream::println!(
        "{}: {} of blocks{growth}, policy {}, mode {:03o}",
        args.name.place,
        number::bytes(size),
        heap.policy().name(),
        args.mode,
    );
    heap.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the command as any mistyped argument of it does.
fn refuse_as_mistyped(why: &str) -> ! {
    let mut command = Cli::command();
    command.build();
    let create = ["shm", "create"].into_iter().try_fold(&mut command, |at, name| at.find_subcommand_mut(name));
    match create {
        Some(create) => create.error(ErrorKind::ValueValidation, why).exit(),
        None => Cli::command().error(ErrorKind::ValueValidation, why).exit(),
    }
}
