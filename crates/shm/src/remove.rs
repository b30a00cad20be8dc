//! `heapwright shm remove`.

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use heapwright_shared::{Error, SharedHeap, Snapshot};

use super::arguments::RemoveArgs;
use super::{look, waiting};
use heapwright_show::number::counted;

/// Removes a segment's name, unless a process uses it.
pub fn run(args: &RemoveArgs) -> Result<ExitCode> {
    let place = &args.name.place;
    let attached = match waiting::read(place, &args.trust.access()) {
        Ok(Snapshot { doubt: Some(doubt), .. }) if !args.force => {
            bail!("whether a process uses {place} is unknown, because {doubt}; remove --force removes it")
        }
        Ok(snapshot) => look::living_and_dead(&snapshot).0 as u64,
        // Another user's file, or one that is no segment, is never removed, whatever is forced.
        Err(error @ (Error::NotFound { .. } | Error::NotASegment { .. } | Error::NotOurs { .. })) => {
            return Err(error.into());
        }
        Err(error @ Error::System { .. }) => {
            return Err(anyhow!("{error}; whether it is a segment is not known: get the permission to read it first"));
        }
        Err(_) if args.force => 0,
        Err(error) => {
            return Err(anyhow!("{error}; whether a process uses it is not known: remove --force removes it"));
        }
    };
    if attached > 0 && !args.force {
        let (live, them) = if attached == 1 { ("lives", "it") } else { ("live", "them") };
        let processes = counted(attached, "process");
        bail!("{place} is in use by {processes} that {live}; end {them}, or remove it with --force");
    }
    SharedHeap::unlink(place)?;
    let afterlife = match attached {
        0 => String::new(),
        1 => "; the process that is attached keeps the memory until it ends".to_owned(),
        some => format!("; the {some} processes that are attached keep the memory until they end"),
    };
    heapwright_show::println!("{place}: removed{afterlife}");
    Ok(ExitCode::SUCCESS)
}
