//! `heapwright inspect`: what the memory of a running process is, and what would bring it down.
//!
//! The process is not changed: nothing is injected, and pages that are not in memory are not touched. Everything that
//! is read counts as damaged until it was checked: walks are bounded, and contradictions are counted.

mod allocators;
mod bounds;
pub mod core_file;
pub mod glibc;
pub mod growth;
pub mod image;
pub mod mappings;
pub mod memory;
mod own;
mod page;
pub mod peek;
pub mod picture;
pub mod shown;
pub mod threads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::memory::budget;
use heapwright_host::target::{Ending, Target};
use heapwright_show::{results, usage};
use heapwright_watch::figures::HeapFigures;
use serde::Serialize;

use self::core_file::Core;
use self::glibc::Listing;
use self::growth::{Growth, History};
use self::image::{Backed, Image};
use self::peek::MappedFiles;
use self::picture::{Picture, Subject, Times};
use self::threads::Threads;

/// Arguments of `inspect`.
#[derive(Args)]
pub struct Arguments {
    /// The process.
    #[arg(value_name = "PID", required_unless_present = "core")]
    pid: Option<u32>,
    /// Read a core file instead of a process.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "stop"])]
    core: Option<PathBuf>,
    /// Stop the process while its memory is copied: the picture is exact. A call of `epoll_wait` in which it waits
    /// returns `EINTR`, and so do a few others.
    #[arg(long)]
    stop: bool,
    /// Take a picture every few seconds, 5 by default, and show what changed.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        value_parser = heapwright_show::number::parse_duration,
        conflicts_with = "core"
    )]
    watch: Option<Duration>,
    /// Look into blocks of glibc's malloc: which C++ classes they are objects of, and texts. Their contents may be
    /// private.
    #[arg(long, conflicts_with = "watch")]
    peek: bool,
    /// Write a page with heap maps to this file.
    #[arg(short, long, value_name = "FILE.html", conflicts_with_all = ["watch", "json"])]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright inspect $(pidof redis-server)    what is in its memory, and what would bring it down?
  heapwright inspect --stop 4711              exact: the process is stopped while it is read
  heapwright inspect --watch=10 4711          what grows, and what stays?
  heapwright inspect --core core.4711         a process that has ended
  heapwright inspect --peek 4711              which classes and texts fill the blocks?
  heapwright inspect 4711 -o memory.html      a page with heap maps
  heapwright inspect --json 4711              the same as JSON";

/// What the process does while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// It runs: the picture may mix moments.
    Runs,
    /// It is stopped: the picture is exact.
    IsStopped,
}

/// What is wanted of the blocks of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Their numbers and bytes.
    Totals,
    /// Each one's address and size, too.
    Blocks,
    /// What they contain, too.
    Contents,
}

impl Wanted {
    fn listing(self) -> Listing {
        if self == Wanted::Totals { Listing::Counted } else { Listing::Listed }
    }
}

/// How long a process that has given back its memory may take to end.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let meanwhile = if arguments.stop { Meanwhile::IsStopped } else { Meanwhile::Runs };
    if let (Some(pause), Some(pid)) = (arguments.watch, arguments.pid) {
        return watch(arguments, pid, meanwhile, pause);
    }
    let wanted = if arguments.peek { Wanted::Contents } else { Wanted::Totals };
    let sources = arguments.core.as_deref();
    let output = arguments.output.as_deref().map(|place| Destination::of(place, Contents::Other, sources.as_slice()));
    let output = output.transpose()?;
    let picture = match (&arguments.core, arguments.pid) {
        (Some(file), _) => picture_of_core(file, wanted)?,
        (None, Some(pid)) => picture_of(pid, meanwhile, wanted)?,
        (None, None) => usage::refuse("a process or --core FILE is needed"),
    };
    if let Some(output) = output {
        output.write(page::html(&picture).as_bytes())?;
        heapwright_show::print!("{}", shown::lead(&picture));
    } else if arguments.json {
        results::print(&[picture])?;
    } else {
        heapwright_show::print!("{}", shown::text(&picture));
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a picture every `pause` until the process has ended.
fn watch(arguments: &Arguments, pid: u32, meanwhile: Meanwhile, pause: Duration) -> Result<ExitCode> {
    if pause.is_zero() {
        usage::refuse("--watch needs a time between pictures that is above 0");
    }
    let mut history = History::default();
    let ending = Ending::of(pid);
    let mut is_first = true;
    loop {
        let picture = match picture_of(pid, meanwhile, Wanted::Blocks) {
            Ok(picture) => picture,
            // A process has no memory before it has ended.
            Err(_) if !is_first && ending.comes_within(LAST_BREATH) => break,
            Err(error) => return Err(error),
        };
        is_first = false;
        let seen = picture.clone();
        let growth = history.add(picture);
        if arguments.json {
            results::print(&[Watched { picture: &seen, growth: growth.as_ref() }])?;
        } else {
            heapwright_show::print!("{}\n", growth::text(&seen, growth.as_ref()));
        }
        if ending.comes_within(pause) {
            break;
        }
    }
    // Standard output may be read by a program.
    heapwright_show::eprintln!("heapwright: process {pid} has ended");
    Ok(ExitCode::SUCCESS)
}

/// A picture in the output of `--watch --json`.
#[derive(Serialize)]
struct Watched<'a> {
    #[serde(flatten)]
    picture: &'a Picture,
    growth: Option<&'a Growth>,
}

/// Takes a picture of process `pid`.
///
/// # Errors
/// When it has ended, may not be read, or is no 64-bit program.
pub fn picture_of(pid: u32, meanwhile: Meanwhile, wanted: Wanted) -> Result<Picture> {
    let target = Target::open(pid)?;
    if target.program_head().is_some_and(|head| head.starts_with(b"\x7fELF\x01")) {
        bail!("process {pid} is a 32-bit program: its heap has another layout, which is not supported");
    }
    let linked = target.program().and_then(allocators::linked);
    let mut stopping = match meanwhile {
        Meanwhile::Runs => None,
        Meanwhile::IsStopped => Some((Instant::now(), target.stop()?)),
    };
    let mappings = mappings::parse(&target.smaps()?);
    let readable = mappings.iter().find(|mapping| mapping.is_data() && mapping.rss > 0);
    if let Some(reason) = readable.and_then(|mapping| target.refusal(mapping.range.start)) {
        bail!("{reason}");
    }
    let threads = Threads::find(&target, &mappings, &target.threads());
    let (program, listing) = (target.name(), wanted.listing());
    let subject = Subject { pid, program, stopped: stopping.is_some(), threads, linked, listing };
    let statics = MappedFiles::new(&target, &mappings);
    let start = Instant::now();
    let copy = Image::copy(&target, &mappings, budget().unwrap_or(0) as u64);
    let copying = start.elapsed().as_secs_f64();
    let own = HeapFigures::of(pid, |range| picture::present(&target, &range));
    // Memory of a process that ends looks like pages that are not there.
    target.check_life()?;
    let mut go_on = || {
        stopping.take().map_or(0.0, |(start, stopped)| {
            drop(stopped);
            start.elapsed().as_secs_f64()
        })
    };
    // What does not fit a second time into memory is read where it lies.
    let (mut picture, times) = match copy {
        Some((image, copied)) => {
            let times = Times { stopped: go_on(), copying, copied };
            let mut picture = Picture::take(subject, &image, &mappings);
            picture.add_own(own, &mappings);
            if wanted == Wanted::Contents {
                picture.peek(&Backed::new(&image, &target), &mappings, &statics);
                target.check_life()?;
            }
            (picture, times)
        }
        None => {
            let mut picture = Picture::take(subject, &target, &mappings);
            picture.add_own(own, &mappings);
            if wanted == Wanted::Contents {
                picture.peek(&target, &mappings, &statics);
            }
            target.check_life()?;
            (picture, Times { stopped: go_on(), copying: 0.0, copied: 0 })
        }
    };
    picture.times = Some(times);
    Ok(picture)
}

/// Takes a picture of the process that a core file contains.
///
/// # Errors
/// When it is no core file of a supported machine, or is damaged.
pub fn picture_of_core(file: &Path, wanted: Wanted) -> Result<Picture> {
    let core = Core::open(file)?;
    let mappings = core.mappings();
    let threads = Threads::find(&core, &mappings, &core.threads);
    let subject = Subject {
        pid: core.pid,
        program: core.program.clone(),
        stopped: true,
        threads,
        linked: None,
        listing: wanted.listing(),
    };
    let mut picture = Picture { missing: core.missing, ..Picture::take(subject, &core, &mappings) };
    if wanted == Wanted::Contents {
        picture.peek(&core, &mappings, &core);
    }
    Ok(picture)
}
