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

use super::board::{MOST_SAMPLES, Report, Sample, Shared, Task, ending};
use super::calls::{Calls, Scratch};
use super::crew::{Crew, Size};
use super::lane::Lane;
use super::op::Op;
use super::payload::{Full, Payload, Touched, Untouched};
use super::player::Player;
use super::resident::{self, Resident};
use super::team::{Solo, Team};
use super::watch::{Blind, Each, Glibc, Watch};
use crate::bench::clock::Calibration;
use crate::bench::lazy::{Lazy, Plain};

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
    let nobody = task.source == source::NOBODY;
    let calls = if nobody { Calls::to_nobody() } else { own };
    let believed = if nobody { 0 } else { u64::MAX };
    let stage = Stage { calls, script, task };
    match task.payload {
        payload::NONE => stage.watched(Untouched, &mut board.report),
        payload::TOUCH => stage.watched(Touched { believed }, &mut board.report),
        payload::FULL => stage.watched(Full, &mut board.report),
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
    task: Task,
}

impl Stage {
    fn watched(self, payload: impl Payload, report: &mut Report) -> Result<()> {
        if self.task.watch == watch::BLIND {
            return self.teamed(payload, || Ok(Blind), report, |_, _| ());
        }
        let calibration = Calibration::measure();
        (report.tick, report.clock_cost) = (calibration.tick, calibration.cost);
        let is_glibc = self.task.source == source::SYSTEM;
        let glibc = is_glibc.then(resident::start_of_break).flatten().map(Glibc::new);
        self.teamed(
            payload,
            || Each::new(glibc.as_ref()),
            report,
            |each, report| {
                report.histograms.iter_mut().zip(&each.histograms[..]).for_each(|(all, one)| all.add(one));
            },
        )?;
        report.system_peak = glibc.map_or(0, |glibc| glibc.peak());
        Ok(())
    }

    /// Performs the script with as many threads as the task says, each watched by what `watch` makes.
    fn teamed<P: Payload, W: Watch>(
        self,
        payload: P,
        watch: impl Fn() -> Result<W>,
        report: &mut Report,
        told: impl Fn(&W, &mut Report),
    ) -> Result<()> {
        let task = self.task;
        let player = || -> Result<_> { Ok(Player { calls: self.calls, payload, watch: watch()?, refused: 0 }) };
        let scratch = || match task.source {
            source::NOBODY => Scratch::for_blocks_of(task.longest as usize).map(Some),
            _ => Ok(None),
        };
        let own = scratch()?;
        own.iter().for_each(Scratch::adopt);
        if task.lanes == 0 {
            let solo = Solo::new(task.slots as usize, player()?)?;
            return perform(&task, &self.script, solo, report, told);
        }
        let size = Size {
            threads: task.threads as usize,
            lanes: task.lanes as usize,
            slots: task.slots as usize,
            window: task.window as usize,
        };
        let mut last = Lazy::<u64>::committed(size.threads)?;
        read_at(&self.script, task.events * size_of::<Op>() as u64, &mut last)?;
        let crew = Crew::new(size, last, || Lane::new(player()?, scratch()?))?;
        perform(&task, &self.script, crew, report, told)
    }
}

/// Performs a script, and writes down what comes of it.
fn perform<T: Team>(
    task: &Task,
    script: &File,
    mut team: T,
    report: &mut Report,
    told: impl Fn(&T::Watch, &mut Report),
) -> Result<()> {
    let mut ops = Lazy::<Op>::committed(task.window as usize)?;
    let mut sampler = Sampler::start(task)?;
    let mut clock = Clock::start();
    let faults = Faults::so_far();
    let mut at = 0;
    while at < task.events {
        let wanted = usize::try_from(task.events - at).unwrap_or(usize::MAX).min(ops.len());
        read_at(script, at * size_of::<Op>() as u64, &mut ops[..wanted])?;
        let mut rest = &ops[..wanted];
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(sampler.distance(at).min(rest.len()));
            team.prepare(batch)?;
            let performed = clock.time(|| team.perform(batch, at));
            (at, rest) = (at + batch.len() as u64, others);
            report.note_progress(at);
            if let Err(violation) = performed {
                report.violation = violation;
                report.end(ending::VIOLATION);
                return Ok(());
            }
            team.settle(at);
            if !sampler.look(at, clock.wall, report)? {
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
    for player in team.players() {
        report.refused += player.refused;
        told(&player.watch, report);
    }
    report.end(ending::DONE);
    Ok(())
}

/// Fills `items` with what stands in the script from a byte on.
fn read_at<T: Plain>(script: &File, at: u64, items: &mut [T]) -> Result<()> {
    let start = items.as_mut_ptr().cast::<u8>();
    // SAFETY: what is plain and read here is made of integers without gaps, of which any bytes are values.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start, size_of_val(items)) };
    script.read_exact_at(bytes, at).context("the script is shorter than it should be")
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
        let peak = self.task.peak.checked_sub(at).filter(|&distance| distance > 0);
        let regular = self.task.stride - at % self.task.stride;
        peak.map_or(regular, |peak| peak.min(regular)) as usize
    }

    /// Takes a sample if it is time for one; `false` when the heap has become too long.
    fn look(&mut self, at: u64, ran: Duration, report: &mut Report) -> Result<bool> {
        let matters = at == self.task.peak || at == self.task.events;
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
