//! The summary that is printed at the end of a recording.

use std::fs::File;
use std::iter;
use std::path::Path;

use heapwright_host::descriptors::described;
use heapwright_host::names::Shown;
use heapwright_host::process::why_unlisted;
use heapwright_trace::{Event, Reader};

use super::outcome::Recording;
use super::reasons::{lacking, reason, why_limited};
use super::recorded::Recorded;
use heapwright_show::table::Table;
use heapwright_show::{eprintln, number};

/// The most traces that are listed.
const LISTED: usize = 12;

/// Prints a line per trace, what the program used, and a line per remark, on standard error.
pub fn print(recording: &Recording) {
    let recorded = &recording.traces;
    let has_sites = recorded.iter().any(|one| one.sampled.is_some());
    let sites = has_sites.then_some("sites");
    let headings = ["trace", "program", "events", "blocks", "peak live", "threads", "bytes/event"];
    let mut table = Table::new(headings.into_iter().chain(sites));
    for one in recorded.iter().take(LISTED) {
        let path = if one.length > 0 { one.path.shown().into_owned() } else { "-".to_owned() };
        let row = [path, one.program.clone()].into_iter().chain(figures(one));
        table.row(row.chain(one.sampled.map(|sampled| number::grouped(sampled.sites))));
    }
    let traces = number::counted(recorded.len() as u64, "trace");
    eprintln!("heapwright: {traces} in {}", number::seconds(recording.elapsed.as_secs_f64()));
    eprintln!("{}", table.to_string().trim_end_matches('\n'));
    if let Some(more) = recorded.len().checked_sub(LISTED).filter(|&more| more > 0) {
        eprintln!("  and {more} more");
    }
    let main = recording.main();
    let used = time_of(main).into_iter().chain(memory_of(main));
    let whole = used.chain(whose(recording)).chain(few_calls(recording)).chain(recording.without_calls());
    whole.for_each(|line| eprintln!("heapwright: {line}"));
    let remarks = failures(recorded).into_iter().chain(recorded.iter().flat_map(remarks)).chain(inherited(recorded));
    let remarks = remarks.chain(recorded.iter().find_map(why_no_stacks).map(str::to_owned));
    let remarks: Vec<String> = remarks.collect();
    remarks.iter().take(LISTED).for_each(|remark| eprintln!("heapwright: {remark}"));
    if let Some(more) = remarks.len().checked_sub(LISTED).filter(|&more| more > 0) {
        eprintln!("heapwright: and {} more of the same kind", number::counted(more as u64, "remark"));
    }
}

/// Returns the figures of a trace: events, blocks, peak of live memory, threads, and bytes per event. Of a file that
/// could not be written to its end, what it holds counts.
fn figures(one: &Recorded) -> [String; 5] {
    let unknown = || "-".to_owned();
    if one.error.is_some() {
        let Held { events, blocks } = if one.length > 0 { Held::of(&one.path) } else { Held::default() };
        return [number::grouped(events), number::grouped(blocks), unknown(), unknown(), unknown()];
    }
    let figures = &one.figures;
    let per_event = match figures.events() {
        0 => unknown(),
        events => number::short(one.length as f64 / events as f64),
    };
    let (events, blocks) = (number::grouped(figures.events()), number::grouped(figures.blocks()));
    [events, blocks, number::bytes(figures.peak_live), figures.threads.to_string(), per_event]
}

/// Describes the processes whose traces were removed.
fn few_calls(recording: &Recording) -> Option<String> {
    match recording.left_out.len() as u64 {
        0 => None,
        1 => Some("1 more process made few calls; --min-events 0 keeps its trace".to_owned()),
        more => {
            Some(format!("{} more processes made few calls; --min-events 0 keeps their traces", number::grouped(more)))
        }
    }
}

/// Describes the processor time that a process used, if that is known.
fn time_of(one: &Recorded) -> Option<String> {
    let time = number::seconds(one.totals.program_nanoseconds()? as f64 / 1e9);
    let share = one.share_of_calls.map(|share| format!(", {} of it in malloc and free", percent(share)));
    Some(format!("{} took {time} of processor time{}", one.program.shown(), share.unwrap_or_default()))
}

/// Describes the memory that a process used, if that is known.
fn memory_of(one: &Recorded) -> Option<String> {
    let peak = number::bytes(one.totals.peak_anonymous?);
    let faults = one.totals.faults.map(|faults| format!(", with {} page faults", number::grouped(faults)));
    Some(format!("{} had {peak} of anonymous memory at its peak{}", one.program.shown(), faults.unwrap_or_default()))
}

fn percent(share: f64) -> String {
    if share < 0.01 { "less than 1 %".to_owned() } else { format!("some {:.0} %", (share * 100.0).min(100.0)) }
}

/// Describes the failures of the collector, each cause once: a full disk concerns every process.
fn failures(recorded: &[Recorded]) -> Vec<String> {
    let mut causes: Vec<(String, &Recorded, &anyhow::Error, usize)> = Vec::new();
    for (one, error) in recorded.iter().filter_map(|one| Some((one, one.error.as_ref()?))) {
        let cause = error.root_cause().to_string();
        match causes.iter_mut().find(|(known, ..)| *known == cause) {
            Some((.., count)) => *count += 1,
            None => causes.push((cause, one, error, 1)),
        }
    }
    let describe = |(_, one, error, count): (String, &Recorded, &anyhow::Error, usize)| {
        let others = match count - 1 {
            0 => String::new(),
            1 => ", nor is that of one other process".to_owned(),
            more => format!(", nor are those of {} other processes", number::grouped(more as u64)),
        };
        format!("the trace of {} is not complete{others}: {}", one.who(), described(error))
    };
    causes.into_iter().map(describe).collect()
}

/// Summarizes forked processes that freed blocks of their parents, of which there are often many.
fn inherited(recorded: &[Recorded]) -> Option<String> {
    let heirs = recorded.iter().filter(|one| one.forked && !one.marked && one.figures.unknown > 0);
    let (count, blocks) = heirs.fold((0, 0), |(count, blocks), heir| (count + 1, blocks + heir.figures.unknown));
    let (heirs, blocks) = (number::counted(count, "forked process"), number::grouped(blocks));
    (count > 0).then(|| format!("{heirs} freed or resized {blocks} of their parents' blocks; not in their traces"))
}

/// Names the trace to analyse, if it is not the first.
fn whose(recording: &Recording) -> Option<String> {
    let main = recording.main();
    let first = recording.traces.first()?;
    let (name, path) = (main.program.shown(), main.path.shown());
    match first.is_the_program {
        false => Some(format!("the program itself has no trace; of the others, {name} called most: see {path}")),
        true if first.path == main.path => None,
        true => Some(format!("most by far was called by {name}: see {path}")),
    }
}

/// Returns what a trace does not show of its process, for every user of its figures.
pub fn cautions(one: &Recorded) -> Vec<String> {
    let failure = one.failure.map(|failure| {
        let (lost, why) = (number::grouped(one.lost), reason(failure));
        format!("the recording of {} ended before it did, {lost} calls are missing: {why}", one.who())
    });
    let hidden = [one.hidden_objects(), one.missed_operators()];
    let others = hidden.into_iter().chain([one.unread_frames(), one.lacks_names(), one.unrecorded_successor()]);
    failure.into_iter().chain(others.flatten()).chain(one.calls_after_the_end()).collect()
}

/// Returns the remarks that a user of the trace needs.
fn remarks(one: &Recorded) -> Vec<String> {
    let who = one.who();
    let figures = &one.figures;
    let mut remarks = cautions(one);
    if !one.is_whole() && one.length > 0 {
        remarks.push(format!("{} keeps {}", one.path.shown(), kept(one)));
    }
    if let Some(limit) = one.limit {
        remarks.push(format!("the recording of {who} ended before it did: {}", why_limited(limit)));
    }
    if one.marked && figures.events() == 0 {
        remarks.push(format!("{who} marked no block in which it requested memory: its trace is empty"));
    }
    // Blocks from outside of marked blocks are not missing.
    if figures.unknown > 0 && !one.forked && !one.marked {
        let count = number::grouped(figures.unknown);
        remarks
            .push(format!("{who} freed or resized {count} blocks whose allocation was not recorded; not in its trace"));
    }
    if figures.unseen_frees > 0 {
        let count = number::grouped(figures.unseen_frees);
        remarks.push(format!(
            "{who} freed {count} blocks by other means; its trace frees them when their place is used again"
        ));
    }
    remarks.extend(lacking(&who, one.sampled.unwrap_or_default(), one.stackless));
    if one.is_hidden {
        remarks.push(format!(
            "{who} is in a namespace of process numbers that is not seen from here: of its memory, and of libraries \
             that it loaded late, only what it noted itself is known"
        ));
    }
    if figures.failed > 0 {
        remarks.push(format!("{who} was refused memory {}", number::counted(figures.failed, "time")));
    }
    remarks
}

/// Describes what a trace keeps that could not be written to its end.
fn kept(one: &Recorded) -> String {
    let (who, recorded) = (one.who(), one.figures.events());
    // How many there would have been is not known: the program went on without the recorder.
    let what = match one.error.as_ref().map(|_| Held::of(&one.path).events) {
        Some(0) => return format!("no event of {who}"),
        Some(kept) if kept < recorded => format!("the first {} events", number::grouped(kept)),
        _ => "what was recorded".to_owned(),
    };
    format!("{what} of {who}, and every command reads it")
}

/// Counts of what is in a file.
#[derive(Default)]
struct Held {
    events: u64,
    blocks: u64,
}

impl Held {
    /// Counts the calls in a trace up to its end or damage.
    fn of(path: &Path) -> Held {
        let mut held = Held::default();
        let Some(mut reader) = File::open(path).ok().and_then(|file| Reader::new(file).ok()) else { return held };
        for event in iter::from_fn(|| reader.next_event().ok().flatten()) {
            held.events += u64::from(event.is_call());
            held.blocks += u64::from(matches!(event, Event::Allocate { .. } | Event::Resize { .. }));
        }
        held
    }
}

/// Returns why every stack of a process leads nowhere, if the system is the reason.
pub fn why_no_stacks(one: &Recorded) -> Option<&'static str> {
    let has_none = one.sampled.is_some_and(|sampled| sampled.sites == 0 && sampled.unclear > 0);
    has_none.then(why_unlisted).flatten()
}
