//! `heapwright shm repair`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use heapwright_shared::{Condition, Error, ProcessState, SharedHeap, Snapshot, Strangers};

use super::arguments::RepairArgs;
use super::blocks::used_blocks;
use super::waiting::{self, announced};
use heapwright_show::number::counted;

/// Repairs a segment, and prints what was found and done.
pub fn run(args: &RepairArgs) -> Result<ExitCode> {
    let (place, access) = (&args.name.place, args.trust.access());
    let before = waiting::read(place, &access);
    let strangers = if args.take_over { Strangers::Displace } else { Strangers::Respect };
    match &before {
        Ok(snapshot) => refuse_in_use(snapshot, strangers)?,
        // Its holder lives, so that the repair would wait for it once more.
        Err(Error::TimedOut { holder }) => return Err(Error::TimedOut { holder: *holder }.into()),
        Err(_) => {}
    }
    let repaired = announced(place, &access, || SharedHeap::repair(place, &access, strangers))?;
    let after = Snapshot::read_with(place, &access)?;
    after.audit.clone()?;
    heapwright_show::println!("{place}: {}", found(&before, repaired.found));
    for name in &repaired.unset {
        heapwright_show::println!("{place}: the root {name:?} pointed at no block, and is not set any more");
    }
    heapwright_show::println!("{place}: in order and sealed, {} used", counted(used_blocks(&after), "block"));
    Ok(ExitCode::SUCCESS)
}

/// Refuses a segment that live processes use: they repair it themselves. Where it is unknown which of them live, the
/// user may say that none does.
fn refuse_in_use(snapshot: &Snapshot, strangers: Strangers) -> Result<()> {
    if snapshot.doubt.is_some() && strangers == Strangers::Displace {
        return Ok(());
    }
    let living = snapshot.processes.iter().filter(|process| process.owner.state == ProcessState::Attached);
    let pids: Vec<String> = living.map(|process| super::look::pid(process.owner)).collect();
    if pids.is_empty() {
        return Ok(());
    }
    if let Some(doubt) = snapshot.doubt {
        bail!(
            "{} was not closed by {}; whether a process uses it is unknown, because {doubt}; end what uses it, and \
             when nothing does run repair --take-over",
            snapshot.place,
            pids.join(", ")
        )
    }
    bail!(
        "{} is in use by processes that live ({}), which keep it in order themselves; end them to repair it",
        snapshot.place,
        pids.join(", ")
    )
}

fn found(before: &Result<Snapshot, Error>, condition: Condition) -> String {
    match before {
        Ok(Snapshot { doubt: Some(doubt), .. }) => format!(
            "whether a process used it was unknown, because {doubt}; it was taken over, and all that can be was \
             derived anew"
        ),
        Err(Error::OtherNamespace { .. } | Error::HolderUnknown { .. }) => {
            "it came from another namespace of processes, and is of this one now; all that can be was derived anew"
                .into()
        }
        Ok(Snapshot { audit: Ok(()), .. }) => done(condition),
        _ => "it was damaged: what it says of blocks was believed as far as it can be true, all else derived \
              anew; what blocks contain was not looked at"
            .into(),
    }
}

/// Returns what was done to a segment without damage.
fn done(condition: Condition) -> String {
    match condition {
        Condition::Interrupted { by } => {
            format!("process {by} died in an operation, which was completed or undone; all else was derived anew")
        }
        Condition::Abandoned => "all its processes died; it was checked and rebuilt".into(),
        Condition::AtRest | Condition::InUse | Condition::Broken => "nothing was wrong with it".into(),
    }
}
