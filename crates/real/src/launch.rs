//! Starts a worker process, waits for it, and turns its report or its end into a result.

use std::ffi::CStr;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::board::{Report, Shared, Task, ending};
use super::script::{LONGEST_WINDOW, Script, window_length};
use super::worker::{self, source};
use super::{Latencies, Payload, Run, Settings, Threads};
use heapwright_allocators::allocator::Allocator;
use heapwright_host::child::{Child, End};
use heapwright_host::identity::ensure_preloaded;
use heapwright_host::memory;
use heapwright_host::process::start_without_huge_pages;
use heapwright_show::number;

/// A worker that completes no batch for this long has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of samples of a long run.
const SAMPLES: u64 = 256;
/// Minimal number of operations between two samples: reading the resident memory disturbs the calls that follow.
const SHORTEST_STRIDE: u64 = 512;

/// Maximal number of threads at a time.
const MOST_LANES: u64 = 512;

/// Performs `script` under `allocator` in a worker process.
///
/// # Errors
/// When the allocator cannot be loaded, crashes, hangs, or violates its contract: overlapping blocks, lost contents,
/// wrong alignment. When the trace needs more memory than is available.
pub fn run(script: &Script, allocator: &Allocator, settings: &Settings) -> Result<Run> {
    perform(script, allocator, settings).with_context(|| Under(allocator.name().to_owned()))
}

/// Under which allocator a replay failed: the context of its error.
#[derive(Debug)]
struct Under(String);

impl fmt::Display for Under {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "under {}", self.0)
    }
}

/// Returns why a replay failed, without the name of the allocator.
pub fn reason(error: &anyhow::Error) -> String {
    let named = usize::from(error.is::<Under>());
    error.chain().skip(named).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn perform(script: &Script, allocator: &Allocator, settings: &Settings) -> Result<Run> {
    let task = task(script, allocator, settings)?;
    let (mut shared, file) = Shared::create()?;
    shared.get_mut().task = task;
    let mut command = worker::JOB.command()?;
    allocator.apply(&mut command)?;
    if script.totals().huge_pages_off {
        start_without_huge_pages(&mut command);
    }
    command.stdin(script.file().try_clone().context("cannot hand on the script")?).stdout(file);
    let end = wait(Child::start(command)?, &shared)?;
    let report = &shared.get().report;
    check_library(allocator, report, &end)?;
    match (end.status.success(), report.ending.load(Ordering::Acquire)) {
        (true, ending::DONE) => Ok(Run::of(report, script, settings)),
        // Also when the worker crashed afterwards: the heap was corrupt by then.
        (_, ending::VIOLATION) => bail!(describe_violation(script, report)?),
        (true, ending::TOO_LONG) => bail!(
            "the heap became longer than {}, half of the memory that is available, after {} events",
            number::bytes(task.allowance),
            number::grouped(report.done.load(Ordering::Relaxed))
        ),
        _ => bail!("{}", crashed(&end, report)),
    }
}

/// Returns how many bytes a replay may use.
///
/// # Errors
/// When this trace needs more, whatever the allocator.
pub fn ensure_room(script: &Script, settings: &Settings) -> Result<u64> {
    let allowance = memory::budget()? as u64;
    ensure!(
        settings.payload == Payload::None || script.peak_written() <= allowance,
        "a replay writes to {} of its blocks at one time, and {} is half of the available memory: simulate it \
         (`compare --policies-only`, `report --no-real`), or write nothing to its blocks (`replay --real --payload \
         none`)",
        number::bytes(script.peak_written()),
        number::bytes(allowance)
    );
    Ok(allowance)
}

fn task(script: &Script, allocator: &Allocator, settings: &Settings) -> Result<Task> {
    ensure!(
        *allocator != Allocator::NoOp || settings.payload != Payload::Full,
        "the blocks of no-op overlap, so none of them can keep every byte: use another --payload"
    );
    let allowance = ensure_room(script, settings)?;
    let counts = script.counts();
    let division = Division::of(script, settings.threads)?;
    Ok(Task {
        events: script.events(),
        slots: script.slots() as u64,
        peak: division.peak,
        longest: counts.longest,
        window: division.window,
        stride: division.stride,
        threads: script.thread_numbers(),
        lanes: division.lanes,
        windows: script.windows().ends.len() as u64,
        marks: script.marks() as u64,
        allowance,
        source: match allocator {
            Allocator::System => source::SYSTEM,
            Allocator::NoOp => source::NO_OP,
            Allocator::Heapwright(_) | Allocator::Ruled(..) | Allocator::Peer(_) => source::LIBRARY,
        },
        payload: match settings.payload {
            Payload::None => worker::payload::NONE,
            Payload::Touch => worker::payload::TOUCH,
            Payload::Full => worker::payload::FULL,
        },
        latencies: match settings.latencies {
            Latencies::Off => worker::latencies::OFF,
            Latencies::On => worker::latencies::ON,
        },
    })
}

/// How a script is divided: windows, samples, lanes.
struct Division {
    window: u64,
    stride: u64,
    peak: u64,
    lanes: u64,
}

impl Division {
    fn of(script: &Script, threads: Threads) -> Result<Division> {
        let events = script.events();
        if threads == Threads::One || script.threads() <= 1 {
            let stride = events.div_ceil(SAMPLES).max(SHORTEST_STRIDE);
            return Ok(Division { window: LONGEST_WINDOW, stride, peak: script.counts().peak_event + 1, lanes: 0 });
        }
        let window = window_length(events);
        let stride = events.div_ceil(SAMPLES).next_multiple_of(window);
        let lanes = script.windows().threads as u64;
        ensure!(
            lanes <= MOST_LANES,
            "{lanes} threads run at one time, and at most {MOST_LANES} can be replayed: add --one-thread, which \
             replays all calls in one thread"
        );
        Ok(Division { window, stride, peak: script.counts().peak_event + 1, lanes })
    }
}

/// Waits until the worker ends. One that makes no progress is killed.
fn wait(mut worker: Child, shared: &Shared) -> Result<End> {
    let done = || shared.get().report.done.load(Ordering::Relaxed);
    match worker.wait(PATIENCE, done)? {
        Some(end) => Ok(end),
        None => {
            let (done, patience) = (number::grouped(done()), PATIENCE.as_secs());
            bail!("it hung: no progress for {patience} s after event {done}, and it was killed")
        }
    }
}

/// Checks that the allocator's library was loaded: the dynamic linker only warns about one that it cannot load.
fn check_library(allocator: &Allocator, report: &Report, end: &End) -> Result<()> {
    let loaded = CStr::from_bytes_until_nul(&report.malloc).unwrap_or_default();
    let loaded = PathBuf::from(loaded.to_string_lossy().into_owned());
    // Empty when the worker ended before it reported the library: the caller reports that.
    if loaded.as_os_str().is_empty() {
        return Ok(());
    }
    let loaded = ensure_preloaded(allocator.library()?.as_deref(), &loaded);
    loaded.map_err(|error| if end.errors.is_empty() { error } else { anyhow!("{error}: {}", end.errors) })
}

fn crashed(end: &End, report: &Report) -> String {
    let done = number::grouped(report.done.load(Ordering::Relaxed));
    let how = match end.status.signal() {
        Some(signal) => {
            format!("it was killed by signal {signal} ({}) some time after event {done}", signal_name(signal))
        }
        None => format!("it ended with {}", end.status),
    };
    if end.errors.is_empty() { how } else { format!("{how}: {}", end.errors) }
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).unwrap_or("unknown").to_owned()
}

/// Describes a violation, with the number that the block has in the trace.
fn describe_violation(script: &Script, report: &Report) -> Result<String> {
    let violation = &report.violation;
    let block = script.block_in(violation.slot as usize, violation.event)?;
    Ok(format!("event {}: block {block} {violation}", violation.event))
}
