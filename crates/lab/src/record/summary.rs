//! What is said of a recording at its end.

use std::io::{self, Write};

use heapwright_os::FileError;

use super::collector::Recorded;
use super::program::Recording;
use super::sites::Sampled;
use crate::number;
use crate::table::Table;

/// How many traces are listed.
const LISTED: usize = 12;

/// Prints a line per trace, and what is missing or odd, on standard error.
pub fn print(recording: &Recording) -> io::Result<()> {
    let recorded = &recording.traces;
    let has_sites = recorded.iter().any(|one| one.sampled.is_some());
    let sites = has_sites.then_some("sites");
    let headings = ["trace", "program", "events", "blocks", "peak live", "threads", "bytes/event"];
    let mut table = Table::new(headings.into_iter().chain(sites));
    for one in recorded.iter().take(LISTED) {
        let figures = &one.figures;
        let row = [
            one.path.display().to_string(),
            one.program.clone(),
            number::grouped(figures.events()),
            number::grouped(figures.blocks()),
            number::bytes(figures.peak_live),
            figures.threads.to_string(),
            bytes_per_event(one),
        ];
        table.row(row.into_iter().chain(one.sampled.map(|sampled| number::grouped(sampled.sites))));
    }
    let mut out = anstream::stderr().lock();
    let traces = if recorded.len() == 1 { "1 trace".to_owned() } else { format!("{} traces", recorded.len()) };
    writeln!(out, "heapwright: {traces} in {}", number::seconds(recording.elapsed.as_secs_f64()))?;
    write!(out, "{table}")?;
    if let Some(more) = recorded.len().checked_sub(LISTED).filter(|&more| more > 0) {
        writeln!(out, "  and {more} more")?;
    }
    if let Some(remark) = whose(recording) {
        writeln!(out, "heapwright: {remark}")?;
    }
    if recording.left_out > 0 {
        let count = number::grouped(recording.left_out as u64);
        writeln!(out, "heapwright: {count} more processes called little; --min-events 0 keeps their traces")?;
    }
    let remarks: Vec<String> = recorded.iter().flat_map(remarks).chain(inherited(recorded)).collect();
    remarks.iter().take(LISTED).try_for_each(|remark| writeln!(out, "heapwright: {remark}"))?;
    match remarks.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(out, "heapwright: and {more} more remarks of the same kind"),
    }
}

/// What is to be said of the likenesses of their parents, of which there are often many.
fn inherited(recorded: &[Recorded]) -> Option<String> {
    let heirs = recorded.iter().filter(|one| one.forked && one.figures.unknown > 0);
    let (count, blocks) = heirs.fold((0, 0), |(count, blocks), heir| (count + 1, blocks + heir.figures.unknown));
    let (heirs, blocks) = (number::grouped(count), number::grouped(blocks));
    (count > 0).then(|| {
        format!("{heirs} forked processes freed or resized {blocks} of their parents' blocks; not in their traces")
    })
}

/// Which trace is the one to look at, if it is not the first.
fn whose(recording: &Recording) -> Option<String> {
    let main = recording.main();
    let first = recording.traces.first().is_some_and(|first| first.path == main.path);
    (!first).then(|| format!("most by far was called by {}: see {}", main.program, main.path.display()))
}

fn bytes_per_event(one: &Recorded) -> String {
    match one.figures.events() {
        0 => "-".to_owned(),
        events => number::short(one.length as f64 / events as f64),
    }
}

/// What somebody who uses the trace must know.
fn remarks(one: &Recorded) -> Vec<String> {
    let who = format!("{} [{}]", one.program, one.pid);
    let figures = &one.figures;
    let mut remarks = Vec::new();
    if let Some(error) = &one.error {
        remarks.push(format!("the trace of {who} is not complete: {error:#}"));
    }
    if let Some(failure) = one.failure {
        let why = reason(failure);
        let lost = number::grouped(one.lost);
        remarks.push(format!("the recording of {who} ended before it did, {lost} calls are missing: {why}"));
    }
    if one.outlived {
        remarks.push(format!("{who} was still running when the program ended; its trace ends there"));
    }
    if figures.unknown > 0 && !one.forked {
        let count = number::grouped(figures.unknown);
        remarks
            .push(format!("{who} freed or resized {count} blocks that nobody was seen to allocate; not in its trace"));
    }
    if figures.unseen_frees > 0 {
        let count = number::grouped(figures.unseen_frees);
        remarks.push(format!(
            "{who} freed {count} blocks by other means; its trace frees them when their place is used again"
        ));
    }
    remarks.extend(one.sampled.and_then(|sampled| of_sites(&who, sampled)));
    if figures.failed > 0 {
        remarks.push(format!("{who} was refused memory {} times", number::grouped(figures.failed)));
    }
    remarks
}

/// What is missing of the call sites that were asked for.
fn of_sites(who: &str, sampled: Sampled) -> Option<String> {
    let Sampled { requests, unclear, left_out, .. } = sampled;
    let missing = match (unclear, left_out) {
        (0, 0) => return None,
        (unclear, 0) => format!("{} have a stack that leads nowhere", number::grouped(unclear)),
        (unclear, left_out) => {
            let (unclear, left_out) = (number::grouped(unclear), number::grouped(left_out));
            format!("{unclear} have a stack that leads nowhere, {left_out} a site for which the trace has no room")
        }
    };
    Some(format!("of {} requests of {who} that were chosen for their sites, {missing}", number::grouped(requests)))
}

fn reason(failure: i32) -> String {
    match failure {
        libc::ETIMEDOUT => "the collector did not keep up with it for ten seconds".to_owned(),
        code => FileError::of(code).to_string(),
    }
}
