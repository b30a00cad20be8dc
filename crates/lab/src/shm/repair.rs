//! `heapwright shm repair`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use heapwright_shared::{Condition, ProcessState, SharedHeap, Snapshot, Strangers};

use super::arguments::RepairArgs;
use super::plural;

/// Puts a segment in order, and says what was found and done.
pub fn run(args: &RepairArgs) -> Result<ExitCode> {
    let (place, access) = (&args.name.place, args.trust.access());
    if let Ok(snapshot) = Snapshot::read_with(place, &access) {
        refuse_in_use(&snapshot)?;
    }
    let strangers = if args.take_over { Strangers::Displace } else { Strangers::Respect };
    let repaired = SharedHeap::repair(place, &access, strangers)?;
    let after = Snapshot::read_with(place, &access)?;
    after.audit.clone()?;
    anstream::println!("{place}: {}", found(repaired.found));
    for name in &repaired.unset {
        anstream::println!("{place}: the root {name:?} pointed at no block, and is not set any more");
    }
    let used = after.counters.blocks - after.counters.holes;
    anstream::println!("{place}: in order, {} used", plural(used, "block"));
    Ok(ExitCode::SUCCESS)
}

/// Processes that live put it in order themselves, and should not lose their footing.
fn refuse_in_use(snapshot: &Snapshot) -> Result<()> {
    let living = snapshot.processes.iter().filter(|process| process.owner.state == ProcessState::Attached);
    let pids: Vec<String> = living.map(|process| super::look::pid(process.owner)).collect();
    if pids.is_empty() {
        return Ok(());
    }
    bail!(
        "{} is in use by processes that live ({}), which keep it in order themselves; end them to repair it",
        snapshot.place,
        pids.join(", ")
    )
}

fn found(condition: Condition) -> String {
    match condition {
        Condition::Interrupted { by } => {
            format!("process {by} died in an operation, which was completed or undone; all else was derived anew")
        }
        Condition::Abandoned => "all who used it died; everything was looked through and derived anew".to_owned(),
        Condition::Broken => "it had been found broken; everything was looked through and derived anew".to_owned(),
        Condition::AtRest | Condition::InUse => "everything was looked through and derived anew".to_owned(),
    }
}
