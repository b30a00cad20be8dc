//! Starting a worker, waiting for it, and understanding how it ended.

use std::env;
use std::ffi::CStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::board::{Report, Shared, Task, ending};
use super::script::Script;
use super::worker::{self, source};
use super::{Latencies, Payload, Run, Settings, Threads};
use crate::allocator::Allocator;
use crate::bench::memory;
use crate::child::is_same_file;
use crate::number;

/// A worker that does no batch for so long has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many samples there are of a long run.
const SAMPLES: u64 = 256;
/// Operations between samples at least: looking at memory disturbs what comes after.
const SHORTEST_STRIDE: u64 = 512;

/// Operations read at a time at most.
const LONGEST_WINDOW: u64 = 1 << 16;
/// Threads at a time at most.
const MOST_LANES: u64 = 512;

/// Complaints of a child that are kept, in bytes.
const MOST_COMPLAINTS: u64 = 1 << 14;

/// Performs `script` under `allocator` in a process of its own.
///
/// # Errors
/// When the allocator cannot be loaded, crashes, hangs, or does what no allocator may: gives memory twice, loses contents,
/// misaligns. When the trace needs more memory than there is.
pub fn run(script: &Script, allocator: &Allocator, settings: &Settings) -> Result<Run> {
    perform(script, allocator, settings).with_context(|| format!("under {}", allocator.name()))
}

fn perform(script: &Script, allocator: &Allocator, settings: &Settings) -> Result<Run> {
    let task = task(script, allocator, settings)?;
    let (mut shared, file) = Shared::create()?;
    shared.get_mut().task = task;
    let mut command = Command::new(env::current_exe().context("cannot find this command's own file")?);
    command.arg(worker::COMMAND);
    allocator.apply(&mut command)?;
    command.stdin(script.file().try_clone().context("cannot hand on the script")?).stdout(file).stderr(Stdio::piped());
    let child = command.spawn().context("cannot start a child process")?;
    let (status, complaints) = wait(child, &shared)?;
    let report = &shared.get().report;
    check_library(allocator, report, &complaints)?;
    match (status.success(), report.ending.load(Ordering::Acquire)) {
        (true, ending::DONE) => Ok(Run::of(report, script, settings)),
        // Whatever came of it later: the heap is not to be trusted any more.
        (_, ending::VIOLATION) => bail!(told(script, report)?),
        (true, ending::TOO_LONG) => bail!(
            "the heap became longer than {}, half of the memory that is available, after {} events",
            number::bytes(task.allowance),
            number::grouped(report.done.load(Ordering::Relaxed))
        ),
        _ => bail!("{}", crashed(status, report, &complaints)),
    }
}

fn task(script: &Script, allocator: &Allocator, settings: &Settings) -> Result<Task> {
    ensure!(
        *allocator != Allocator::NoOp || settings.payload != Payload::Full,
        "blocks of nobody lie over one another: none of them can keep every byte"
    );
    let allowance = memory::budget()? as u64;
    ensure!(
        settings.payload == Payload::None || script.peak_requested() <= allowance,
        "the trace asks for {} at one time, and {} is half of the memory that is available: replay it with --payload none, \
         or simulated",
        number::bytes(script.peak_requested()),
        number::bytes(allowance)
    );
    let counts = script.counts();
    let rhythm = Rhythm::of(script, settings.threads)?;
    Ok(Task {
        events: script.events(),
        slots: script.slots() as u64,
        peak: rhythm.peak,
        longest: counts.longest,
        window: rhythm.window,
        stride: rhythm.stride,
        threads: script.thread_numbers(),
        lanes: rhythm.lanes,
        allowance,
        source: match allocator {
            Allocator::System => source::SYSTEM,
            Allocator::NoOp => source::NOBODY,
            Allocator::Heapwright(_) | Allocator::Peer(_) => source::LIBRARY,
        },
        payload: match settings.payload {
            Payload::None => worker::payload::NONE,
            Payload::Touch => worker::payload::TOUCH,
            Payload::Full => worker::payload::FULL,
        },
        watch: match settings.latencies {
            Latencies::Off => worker::watch::BLIND,
            Latencies::On => worker::watch::EACH,
        },
    })
}

/// In which portions a script is performed.
struct Rhythm {
    window: u64,
    stride: u64,
    peak: u64,
    lanes: u64,
}

impl Rhythm {
    fn of(script: &Script, threads: Threads) -> Result<Rhythm> {
        let events = script.events();
        if threads == Threads::TotalOrder || events == 0 {
            let stride = events.div_ceil(SAMPLES).max(SHORTEST_STRIDE);
            return Ok(Rhythm { window: LONGEST_WINDOW, stride, peak: script.counts().peak_event + 1, lanes: 0 });
        }
        // Long enough that waiting for one another at its end does not count.
        let window = events.div_ceil(64).next_power_of_two().clamp(LONGEST_WINDOW / 16, LONGEST_WINDOW);
        let stride = events.div_ceil(SAMPLES).next_multiple_of(window);
        let lanes = script.threads_at_once(window) as u64;
        ensure!(
            lanes <= MOST_LANES,
            "{lanes} threads are there at one time, and {MOST_LANES} can be: replay without --threads"
        );
        Ok(Rhythm { window, stride, peak: 0, lanes })
    }
}

/// Waits until the worker ends, and returns how it did and what it complained of.
fn wait(mut child: Child, shared: &Shared) -> Result<(ExitStatus, String)> {
    let stderr = child.stderr.take().context("no standard error")?;
    let complained = thread::spawn(move || {
        let mut text = Vec::new();
        let mut stderr = stderr.take(MOST_COMPLAINTS);
        // What cannot be read is not reported.
        let _ = stderr.read_to_end(&mut text);
        let _ = std::io::copy(&mut stderr.into_inner(), &mut std::io::sink());
        String::from_utf8_lossy(&text).trim().to_owned()
    });
    let (mut done, mut since) = (0, Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let now = shared.get().report.done.load(Ordering::Relaxed);
        if now != done {
            (done, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            let (done, patience) = (number::grouped(done), PATIENCE.as_secs());
            bail!("it hung: nothing happened for {patience} s after event {done}, and it was ended");
        }
        thread::sleep(Duration::from_millis(2));
    };
    Ok((status, complained.join().unwrap_or_default()))
}

/// The dynamic linker goes on without a library that it cannot load; a run must not.
fn check_library(allocator: &Allocator, report: &Report, complaints: &str) -> Result<()> {
    let Some(library) = allocator.library()? else { return Ok(()) };
    let loaded = CStr::from_bytes_until_nul(&report.malloc).unwrap_or_default();
    let loaded = PathBuf::from(loaded.to_string_lossy().into_owned());
    // A process that ended before it could say is told of elsewhere.
    if loaded.as_os_str().is_empty() || is_same_file(&loaded, &library) {
        return Ok(());
    }
    let complaints = if complaints.is_empty() { "no reason was given" } else { complaints };
    bail!("{} was not loaded, malloc came from {}: {complaints}", library.display(), loaded.display())
}

fn crashed(status: ExitStatus, report: &Report, complaints: &str) -> String {
    let done = number::grouped(report.done.load(Ordering::Relaxed));
    let end = match status.signal() {
        Some(signal) => {
            format!("it was ended by signal {signal} ({}) some time after event {done}", signal_name(signal))
        }
        None => format!("it ended with {status}"),
    };
    if complaints.is_empty() { end } else { format!("{end}: {complaints}") }
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).unwrap_or("unknown").to_owned()
}

/// A violation in words, with the number that the block has in the trace.
fn told(script: &Script, report: &Report) -> Result<String> {
    let violation = &report.violation;
    let block = script.block_in(violation.slot as usize, violation.event)?;
    Ok(format!("event {}: block {block} {violation}", violation.event))
}
