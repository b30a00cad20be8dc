//! The worker process, which performs a script under one allocator. It maps and touches its own memory before the run.
//! During the run, the only allocations are those of the script.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use heapwright_host::clock::processor_duration;
use heapwright_host::process::Faults;

use super::board::{Report, Shared, Task, ending};
use super::calls::{Calls, Scratch};
use super::course::{Batches, Pauses};
use super::lane::Lane;
use super::observer::{Glibc, Observer, Timed, Untimed, Usable};
use super::op::Op;
use super::payload::{Full, Payload, Touched, Untouched};
use super::performer::{Performer, Solo};
use super::player::Player;
use super::resident;
use super::sampler::Sampler;
use super::timeline::Mark;
use super::workers::{Size, Workers};
use heapwright_host::child::Job;
use heapwright_host::clock::Calibration;
use heapwright_host::lazy::{Lazy, Plain};
use heapwright_host::shown_time;

/// The job that a child of this executable does for one run. It takes no task: parsing one would use the heap under
/// test.
pub const JOB: Job = Job { name: "replay", perform: |_| perform_script() };

/// Which functions are called.
pub mod source {
    /// Those of glibc's malloc.
    pub const SYSTEM: u32 = 0;
    /// Those of another library.
    pub const LIBRARY: u32 = 1;
    /// Functions that allocate nothing.
    pub const NO_OP: u32 = 2;
}

/// What is written to blocks.
pub mod payload {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// A word at the head, at the tail and in each page.
    pub const TOUCH: u32 = 1;
    /// Every byte.
    pub const FULL: u32 = 2;
}

/// Whether calls are timed.
pub mod latencies {
    /// Only the run as a whole is timed.
    pub const OFF: u32 = 0;
    /// Every call is timed.
    pub const ON: u32 = 1;
}

/// Performs the script on standard input as the board on standard output says.
fn perform_script() -> Result<()> {
    let mut shared = Shared::open(&io::stdout())?;
    let script = File::from(io::stdin().as_fd().try_clone_to_owned().context("no script")?);
    shared.touch();
    let board = shared.get_mut();
    let task = board.task;
    // If memory runs out, the kernel is to kill this process rather than another one.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let own = Calls::of_this_process()?;
    note_library(own, &mut board.report);
    let is_no_op = task.source == source::NO_OP;
    let calls = if is_no_op { Calls::no_op() } else { own };
    if task.source == source::LIBRARY && task.marks > 0 {
        // SAFETY: the library is preloaded, and nothing unloads it.
        unsafe { shown_time::show_to(own.malloc as *const () as *const c_void) }.context("cannot show a clock")?;
    }
    let compared = if is_no_op { 0 } else { u64::MAX };
    calls.warm_up();
    let stage = Stage { calls, script, task };
    match task.payload {
        payload::NONE => stage.run(Untouched, &mut board.report),
        payload::TOUCH => stage.run(Touched { compared }, &mut board.report),
        payload::FULL => stage.run(Full, &mut board.report),
        other => bail!("no payload has the number {other}"),
    }
}

fn note_library(calls: Calls, report: &mut Report) {
    heapwright_os::object_at(calls.malloc as *const () as usize, |library| {
        let name = library.path.to_bytes();
        let len = name.len().min(report.malloc.len() - 1);
        report.malloc[..len].copy_from_slice(&name[..len]);
    });
}

/// The inputs of a run.
struct Stage {
    calls: Calls,
    script: File,
    task: Task,
}

impl Stage {
    fn run(self, payload: impl Payload, report: &mut Report) -> Result<()> {
        if self.task.latencies == latencies::OFF {
            return self.run_observed(payload, || Ok(Untimed), report, |_, _| ());
        }
        let calibration = Calibration::measure();
        (report.tick, report.clock_cost) = (calibration.tick, calibration.cost);
        let is_glibc = self.task.source == source::SYSTEM;
        let glibc = is_glibc.then(resident::start_of_break).flatten().map(Glibc::new);
        // Asking for the sizes of blocks would change the latencies of calls; verification is not measured.
        let usable = self.calls.usable.filter(|_| self.task.payload == payload::FULL);
        self.run_observed(
            payload,
            || Timed::new(glibc.as_ref(), usable.map(Usable::new)),
            report,
            |each, report| {
                report.histograms.iter_mut().zip(&each.histograms[..]).for_each(|(all, one)| all.add(one));
            },
        )?;
        report.system_peak = glibc.map_or(0, |glibc| glibc.peak());
        Ok(())
    }

    /// Performs the script with the task's number of threads. Each has an observer from `observer`, which `evaluate`
    /// adds to the report.
    fn run_observed<P: Payload, W: Observer>(
        self,
        payload: P,
        observer: impl Fn() -> Result<W>,
        report: &mut Report,
        evaluate: impl Fn(&W, &mut Report),
    ) -> Result<()> {
        let task = self.task;
        let player = || -> Result<_> { Ok(Player { calls: self.calls, payload, observer: observer()?, refused: 0 }) };
        let scratch = || match task.source {
            source::NO_OP => Scratch::for_blocks_of(task.longest as usize).map(Some),
            _ => Ok(None),
        };
        let own = scratch()?;
        own.iter().for_each(Scratch::adopt);
        if task.lanes == 0 {
            let solo = Solo::new(task.slots as usize, player()?)?;
            return perform(&task, &self.script, solo, report, evaluate);
        }
        let size = Size {
            threads: task.threads as usize,
            lanes: task.lanes as usize,
            slots: task.slots as usize,
            window: task.window as usize,
        };
        let mut last = Lazy::<u64>::committed(size.threads)?;
        read_at(&self.script, task.last_events(), &mut last)?;
        let workers = Workers::new(size, last, || Lane::new(player()?, scratch()?))?;
        perform(&task, &self.script, workers, report, evaluate)
    }
}

/// Performs a script and writes the report.
fn perform<T: Performer>(
    task: &Task,
    script: &File,
    mut performer: T,
    report: &mut Report,
    evaluate: impl Fn(&T::Observer, &mut Report),
) -> Result<()> {
    let mut ops = Lazy::<Op>::committed(task.window as usize)?;
    let mut marks = Lazy::<Mark>::committed(task.marks as usize)?;
    read_at(script, task.first_mark(), &mut marks)?;
    let mut batches = batches(task, script, &marks)?;
    let mut pauses = Pauses::new(&marks);
    report.fault_nanoseconds = resident::fault_nanoseconds()?;
    report.start_rss = resident::whole()?;
    let mut sampler = Sampler::start(task)?;
    let mut clock = Clock::start();
    let faults = Faults::so_far();
    let mut at = 0;
    while at < task.events {
        let wanted = usize::try_from(task.events - at).unwrap_or(usize::MAX).min(ops.len());
        read_at(script, at * size_of::<Op>() as u64, &mut ops[..wanted])?;
        let mut rest = &ops[..wanted];
        while !rest.is_empty() {
            let distance = sampler.distance(at).min(batches.distance(at));
            let (batch, others) = rest.split_at(distance.min(rest.len()));
            pauses.end_before(at, performer.threads());
            performer.prepare(batch)?;
            let performed = clock.time(|| performer.perform(batch, at));
            (at, rest) = (at + batch.len() as u64, others);
            report.note_progress(at);
            if let Err(violation) = performed {
                report.violation = violation;
                report.end(ending::VIOLATION);
                return Ok(());
            }
            performer.settle(at);
            if at == task.peak {
                report.usable = usable(&performer);
            }
            if !sampler.sample_if_due(at, clock.wall, report)? {
                report.end(ending::TOO_LONG);
                return Ok(());
            }
        }
    }
    let now = Faults::so_far();
    (report.minor_faults, report.major_faults) = (now.minor - faults.minor, now.major - faults.major);
    report.high_water = sampler.high_water();
    report.nanoseconds = clock.wall.as_nanos() as u64;
    report.processor_nanoseconds = clock.processor.as_nanos() as u64;
    for player in performer.players() {
        report.refused += player.refused;
        evaluate(&player.observer, report);
    }
    report.end(ending::DONE);
    Ok(())
}

/// Returns the usable bytes of all live blocks; 0 when they are not added up.
fn usable<T: Performer>(performer: &T) -> u64 {
    let bytes: Option<i64> = performer.players().map(|player| player.observer.usable()).sum();
    bytes.map_or(0, |bytes| bytes.max(0) as u64)
}

/// Returns where batches end: with the windows of a replay by several threads, or else where the clock moves.
fn batches(task: &Task, script: &File, marks: &[Mark]) -> Result<Batches> {
    let count = if task.lanes == 0 { task.marks } else { task.windows };
    let mut ends = Lazy::<u64>::committed(count as usize)?;
    match task.lanes {
        0 => ends.iter_mut().zip(marks).for_each(|(end, mark)| *end = mark.event),
        _ => read_at(script, task.first_window(), &mut ends)?,
    }
    Ok(Batches::new(ends))
}

/// Fills `items` from the script, starting at byte `at`.
fn read_at<T: Plain>(script: &File, at: u64, items: &mut [T]) -> Result<()> {
    let start = items.as_mut_ptr().cast::<u8>();
    // SAFETY: `start` points to `items`, which are borrowed mutably and cover exactly these bytes. The types read here
    // (u64, Op and Mark) consist of integers without padding, so any bytes are valid values.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start, size_of_val(items)) };
    script.read_exact_at(bytes, at).context("the script is shorter than it should be")
}

/// Measures the time of the batches, without what happens between them.
struct Clock {
    wall: Duration,
    processor: Duration,
    /// The cost of reading the processor time, which is a system call.
    cost: Duration,
}

impl Clock {
    fn start() -> Clock {
        let mut gaps = [Duration::ZERO; 101];
        for gap in &mut gaps {
            let before = processor_duration();
            *gap = processor_duration().saturating_sub(before);
        }
        let middle = gaps.len() / 2;
        let cost = *gaps.select_nth_unstable(middle).1;
        Clock { wall: Duration::ZERO, processor: Duration::ZERO, cost }
    }

    fn time<R>(&mut self, batch: impl FnOnce() -> R) -> R {
        let (processor, wall) = (processor_duration(), Instant::now());
        let result = batch();
        self.wall += wall.elapsed();
        self.processor += processor_duration().saturating_sub(processor + self.cost);
        result
    }
}
