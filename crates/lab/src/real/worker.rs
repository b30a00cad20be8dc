//! The process that performs a script under one allocator. What it needs is mapped and touched before it begins, and it
//! allocates nothing until it ends but what the script asks for.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::board::{Board, MOST_SAMPLES, Report, Sample, Shared, Task, ending};
use super::calls::{Calls, Scratch};
use super::op::Op;
use super::payload::{Full, Payload, Touched, Untouched};
use super::player::{Entry, Player};
use super::resident::{self, Resident};
use super::watch::{Blind, Each, Glibc, Watch};
use crate::bench::clock::Calibration;
use crate::bench::lazy::Lazy;

/// The one argument under which this command is a worker. Nothing else is parsed then: it would leave the heap used.
pub const COMMAND: &str = "replay-worker";

/// Whose functions are called.
pub mod source {
    /// glibc's.
    pub const SYSTEM: u32 = 0;
    /// Another library's.
    pub const LIBRARY: u32 = 1;
    /// Nobody's.
    pub const NOBODY: u32 = 2;
}

/// What is written to blocks.
pub mod payload {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// A few words.
    pub const TOUCH: u32 = 1;
    /// Every byte.
    pub const FULL: u32 = 2;
}

/// How the run is watched.
pub mod watch {
    /// For its time.
    pub const BLIND: u32 = 0;
    /// Call by call.
    pub const EACH: u32 = 1;
}

/// Operations read at a time.
const CHUNK: usize = 1 << 16;

/// Sampling may take so long more than the run itself before samples are left out.
const PATIENCE: Duration = Duration::from_millis(200);

/// Whether this process was started as a worker.
pub fn is_wanted() -> bool {
    let mut arguments = env::args_os().skip(1);
    arguments.next().is_some_and(|argument| argument == COMMAND) && arguments.next().is_none()
}

/// Does what the board on standard output says with the script on standard input.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<()> {
    let mut shared = Shared::open(&io::stdout())?;
    let script = File::from(io::stdin().as_fd().try_clone_to_owned().context("no script")?);
    shared.touch();
    let board = shared.get_mut();
    let task = board.task;
    // If memory runs out, it is this process that shall end.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let own = Calls::of_this_process()?;
    note_library(own, &mut board.report);
    let (scratch, believed) = match task.source {
        source::NOBODY => (Some(Scratch::for_blocks_of(task.longest as usize)?), 0),
        _ => (None, u64::MAX),
    };
    let stage = Stage { calls: scratch.as_ref().map_or(own, Calls::to_nobody), script };
    match task.payload {
        payload::NONE => stage.watched(Untouched, board),
        payload::TOUCH => stage.watched(Touched { believed }, board),
        payload::FULL => stage.watched(Full, board),
        other => bail!("no payload has the number {other}"),
    }
}

fn note_library(calls: Calls, report: &mut Report) {
    let Some(library) = resident::library_of(calls.malloc as *const libc::c_void) else { return };
    let name = library.to_bytes();
    let len = name.len().min(report.malloc.len() - 1);
    report.malloc[..len].copy_from_slice(&name[..len]);
}

/// What a run begins with.
struct Stage {
    calls: Calls,
    script: File,
}

impl Stage {
    fn watched(self, payload: impl Payload, board: &mut Board) -> Result<()> {
        let Board { task, report } = board;
        if task.watch == watch::BLIND {
            return self.performed(payload, Blind, task, report).map(|_| ());
        }
        let calibration = Calibration::measure();
        (report.tick, report.clock_cost) = (calibration.tick, calibration.cost);
        let glibc = (task.source == source::SYSTEM).then(resident::start_of_break).flatten().map(Glibc::new);
        let mut histograms = report.histograms;
        let each = self.performed(payload, Each { histograms: &mut histograms, glibc }, task, report)?;
        report.system_peak = each.glibc.map_or(0, |glibc| glibc.peak());
        report.histograms = histograms;
        Ok(())
    }

    fn performed<P: Payload, W: Watch>(self, payload: P, watch: W, task: &Task, report: &mut Report) -> Result<W> {
        let mut ops = Lazy::<Op>::committed(CHUNK)?;
        let mut table = Lazy::<Entry>::committed(task.slots as usize)?;
        let mut player = Player { calls: self.calls, payload, watch, refused: 0 };
        let mut sampler = Sampler::start(task)?;
        let mut clock = Clock::start();
        let faults = Faults::so_far();
        let mut at = 0;
        while at < task.events {
            let read = read_ops(&self.script, at, task.events, &mut ops)?;
            let mut rest = &ops[..read];
            while !rest.is_empty() {
                let (batch, others) = rest.split_at(sampler.distance(at).min(rest.len()));
                let played = clock.time(|| player.perform_all(batch, at, &mut table));
                (at, rest) = (at + batch.len() as u64, others);
                report.note_progress(at);
                if let Err(violation) = played {
                    report.violation = violation;
                    report.end(ending::VIOLATION);
                    return Ok(player.watch);
                }
                if !sampler.look(at, clock.wall, report)? {
                    report.end(ending::TOO_LONG);
                    return Ok(player.watch);
                }
            }
        }
        let now = Faults::so_far();
        (report.minor_faults, report.major_faults) = (now.minor - faults.minor, now.major - faults.major);
        report.high_water = sampler.high_water();
        report.nanoseconds = clock.wall.as_nanos() as u64;
        report.processor_nanoseconds = clock.processor.as_nanos() as u64;
        report.refused = player.refused;
        report.end(ending::DONE);
        Ok(player.watch)
    }
}

/// Reads operations from number `at` on; returns how many.
fn read_ops(script: &File, at: u64, events: u64, ops: &mut [Op]) -> Result<usize> {
    let wanted = usize::try_from(events - at).unwrap_or(usize::MAX).min(ops.len());
    let start = ops.as_mut_ptr().cast::<u8>();
    // SAFETY: the operations are integers without gaps, of which any bytes are values.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start, wanted * size_of::<Op>()) };
    script.read_exact_at(bytes, at * size_of::<Op>() as u64).context("the script is shorter than it should be")?;
    Ok(wanted)
}

/// The time of batches alone.
struct Clock {
    wall: Duration,
    processor: Duration,
    /// What reading the processor's time costs, which is a system call.
    cost: Duration,
}

impl Clock {
    fn start() -> Clock {
        let mut gaps = [Duration::ZERO; 101];
        for gap in &mut gaps {
            let before = processor_time();
            *gap = processor_time().saturating_sub(before);
        }
        let middle = gaps.len() / 2;
        let cost = *gaps.select_nth_unstable(middle).1;
        Clock { wall: Duration::ZERO, processor: Duration::ZERO, cost }
    }

    fn time<R>(&mut self, batch: impl FnOnce() -> R) -> R {
        let (processor, wall) = (processor_time(), Instant::now());
        let result = batch();
        self.wall += wall.elapsed();
        self.processor += processor_time().saturating_sub(processor + self.cost);
        result
    }
}

fn processor_time() -> Duration {
    // SAFETY: all zeroes is a time.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is written only.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Page faults of this process.
struct Faults {
    minor: u64,
    major: u64,
}

impl Faults {
    fn so_far() -> Faults {
        // SAFETY: all zeroes is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is written only.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        Faults { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
    }
}

/// Looks at the heap's memory from time to time.
struct Sampler {
    resident: Resident,
    /// What was resident before anything happened.
    baseline: u64,
    high_baseline: Option<u64>,
    task: Task,
    spent: Duration,
}

impl Sampler {
    fn start(task: &Task) -> Result<Sampler> {
        let resident = Resident::open()?;
        resident::forget_high_water();
        let high_baseline = resident::high_water();
        let baseline = resident.bytes()?;
        Ok(Sampler { resident, baseline, high_baseline, task: *task, spent: Duration::ZERO })
    }

    /// How many operations may be done before the next look.
    fn distance(&self, at: u64) -> usize {
        let peak = (self.task.peak_event + 1).checked_sub(at).filter(|&distance| distance > 0);
        let regular = self.task.stride - at % self.task.stride;
        peak.map_or(regular, |peak| peak.min(regular)) as usize
    }

    /// Takes a sample if it is time for one; `false` when the heap has become too long.
    fn look(&mut self, at: u64, ran: Duration, report: &mut Report) -> Result<bool> {
        let matters = at == self.task.peak_event + 1 || at == self.task.events;
        let due = at.is_multiple_of(self.task.stride) && self.spent <= ran + PATIENCE;
        if !(matters || due) {
            return Ok(true);
        }
        let start = Instant::now();
        let rss = self.resident.bytes()?.saturating_sub(self.baseline);
        self.spent += start.elapsed();
        if report.sampled < MOST_SAMPLES as u64 {
            report.samples[report.sampled as usize] = Sample { event: at, rss };
            report.sampled += 1;
        }
        Ok(rss <= self.task.allowance)
    }

    fn high_water(&self) -> u64 {
        resident::high_water().zip(self.high_baseline).map_or(0, |(now, before)| now.saturating_sub(before))
    }
}
