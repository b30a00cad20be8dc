//! Pictures of live processes, compared with what their own malloc reports.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::time::Instant;

use heapwright_host::target::Target;
use heapwright_inspect::glibc::Listing;
use heapwright_inspect::growth::{Growth, History};
use heapwright_inspect::image::Image;
use heapwright_inspect::mappings::{self, Mapping};
use heapwright_inspect::picture::{Glibc, Picture};
use heapwright_inspect::shown::text;
use heapwright_inspect::threads::Threads;
use heapwright_inspect::{Meanwhile, Wanted, picture_of};

/// The compiled test program. `HEAPWRIGHT_INSPECT_LIBC` names a folder with another C library for it.
static PROGRAM: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/subject.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g0", "-pthread", "-o"]).arg(folder.path().join("subject")).arg(source);
    if let Some(other) = std::env::var_os("HEAPWRIGHT_INSPECT_LIBC").map(PathBuf::from) {
        let (loader, path) = (other.join("ld-linux-x86-64.so.2"), other.to_str().unwrap());
        compiler.args(["-nodefaultlibs", &format!("-Wl,-rpath,{path}")]);
        compiler.arg(format!("-Wl,--dynamic-linker={}", loader.display()));
        // Threads were in a library of their own before 2.34.
        let libraries = ["libc.so.6", "libpthread.so.0"].map(|name| other.join(name));
        compiler.args(libraries.iter().filter(|library| library.exists())).arg("-lgcc").arg(loader);
    }
    assert!(compiler.status().unwrap().success());
    folder
});

struct Subject {
    child: Child,
    out: BufReader<ChildStdout>,
    /// System bytes, used bytes, free bytes and bytes of own mappings, as `mallinfo2` returns them.
    total: Vec<u64>,
    /// Bytes of each arena, as `malloc_info` prints them.
    arenas: Vec<Own>,
}

/// What `malloc_info` prints of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Own {
    system: u64,
    fast: u64,
    /// Free bytes in other bins and the top.
    rest: u64,
    /// How many of these may be flags.
    flags: u64,
}

impl Own {
    /// Takes a line of the report.
    fn line(&mut self, line: &str) {
        let number = |name: &str| -> u64 {
            let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        match line {
            line if line.starts_with("<system type=\"current\"") => self.system = number("size"),
            line if line.starts_with("<total type=\"fast\"") => self.fast = number("size"),
            line if line.starts_with("<total type=\"rest\"") => {
                // The sizes of free chunks but the top are counted with their flags: 1, and 4 outside the main arena.
                let chunks = number("count") - 1;
                (self.rest, self.flags) = (number("size") - chunks, chunks * 4);
            }
            _ => {}
        }
    }
}

impl Subject {
    fn start(arguments: &[&str]) -> Subject {
        let mut command = Command::new(PROGRAM.path().join("subject"));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut subject = Subject { child, out, total: Vec::new(), arenas: Vec::new() };
        subject.total = subject.line().split(' ').map(|word| word.trim().parse().unwrap()).collect();
        let mut is_in_heap = false;
        loop {
            let line = subject.line();
            match line.trim_end() {
                "end" => break,
                line if line.starts_with("<heap ") => {
                    subject.arenas.push(Own::default());
                    is_in_heap = true;
                }
                "</heap>" => is_in_heap = false,
                line if is_in_heap => subject.arenas.last_mut().unwrap().line(line),
                _ => {}
            }
        }
        subject
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn glibc(picture: &Picture) -> &Glibc {
    picture.glibc.as_ref().expect("arenas are found")
}

fn sum(picture: &Picture, figure: impl Fn(&heapwright_inspect::picture::ArenaPicture) -> u64) -> u64 {
    glibc(picture).arenas.iter().map(figure).sum()
}

/// Threads and bytes of the programs; `HEAPWRIGHT_INSPECT_LARGE` adds the largest.
fn programs() -> Vec<(&'static str, &'static str)> {
    let mut programs = vec![
        ("1", "1048576"),
        ("2", "1048576"),
        ("4", "3000000"),
        ("8", "20000000"),
        ("16", "64000000"),
        ("1", "100000000"),
        ("4", "200000000"),
    ];
    if std::env::var_os("HEAPWRIGHT_INSPECT_LARGE").is_some() {
        programs.extend([("16", "500000000"), ("1", "1073741824"), ("4", "2147483648")]);
    }
    programs
}

#[test]
fn a_stopped_process_is_what_its_own_malloc_reports() {
    for (threads, bytes) in programs() {
        let subject = Subject::start(&[threads, bytes]);
        let picture = picture_of(subject.child.id(), Meanwhile::IsStopped, Wanted::Totals).unwrap();
        let case = format!("{threads} threads, {bytes} bytes: {picture:#?}");
        assert_eq!(sum(&picture, |arena| arena.inconsistencies), 0, "{case}");
        assert_eq!(sum(&picture, |arena| arena.system_bytes), subject.total[0], "{case}");
        assert_eq!(sum(&picture, |arena| arena.used), subject.total[1], "{case}");
        assert_eq!(sum(&picture, |arena| arena.free), subject.total[2], "{case}");
        assert_eq!(glibc(&picture).parameters.unwrap().mmapped_bytes, subject.total[3], "{case}");
        // malloc_info goes round the same ring.
        assert_eq!(glibc(&picture).arenas.len(), subject.arenas.len(), "{case}");
        for (arena, own) in glibc(&picture).arenas.iter().zip(&subject.arenas) {
            assert_eq!((arena.system_bytes, arena.fast), (own.system, own.fast), "{case}");
            let flags = if arena.number == 0 { 0 } else { own.flags };
            assert!((own.rest - flags..=own.rest).contains(&(arena.bins + arena.top)), "{own:?} {case}");
        }
        assert!(sum(&picture, |arena| arena.cached_blocks.unwrap()) > 0, "{case}");
        // Headers of arenas and heaps, and the ends of heaps that are full, are no chunks.
        for arena in &glibc(&picture).arenas {
            let heaps = arena.system_bytes / (64 << 20) + 1;
            assert!(arena.used - arena.live - arena.cached.unwrap() <= 8 << 10 << heaps.ilog2(), "{case}");
        }
        let found = &glibc(&picture).threads;
        assert_eq!(found.len().to_string(), threads, "{case}");
        assert!(found.iter().all(|thread| thread.arena.is_some() && thread.cached > Some(0)), "{case}");
        let cached: u64 = found.iter().filter_map(|thread| thread.cached).sum();
        assert_eq!(cached, sum(&picture, |arena| arena.cached.unwrap()), "{case}");
        let stacks = picture.origins.iter().find(|origin| origin.name == "stacks").unwrap();
        assert!(stacks.rss < 1 << 20, "{case}");
    }
}

#[test]
fn a_process_that_runs_is_what_its_own_malloc_reports_within_a_hundredth() {
    for (threads, bytes) in programs() {
        let subject = Subject::start(&[threads, bytes]);
        let picture = picture_of(subject.child.id(), Meanwhile::Runs, Wanted::Totals).unwrap();
        assert_eq!(glibc(&picture).arenas.len(), subject.arenas.len());
        for (arena, own) in glibc(&picture).arenas.iter().zip(&subject.arenas) {
            let free = own.fast + own.rest;
            for (mine, own) in [(arena.used, own.system - free), (arena.free, free)] {
                assert!(mine.abs_diff(own) <= own / 100, "{mine} {own} {picture:#?}");
            }
        }
    }
}

#[test]
fn a_process_whose_threads_allocate_meanwhile_is_what_its_own_malloc_reported_within_a_hundredth() {
    let subject = Subject::start(&["4", "100000000", "churn"]);
    for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped].into_iter().cycle().take(20) {
        let picture = picture_of(subject.child.id(), meanwhile, Wanted::Totals).unwrap();
        for (mine, own) in [
            (sum(&picture, |arena| arena.used), subject.total[1]),
            (sum(&picture, |arena| arena.free), subject.total[2]),
        ] {
            assert!(mine.abs_diff(own) <= own / 100, "{mine} {own} {picture:#?}");
        }
    }
}

#[test]
fn a_process_that_ends_while_it_is_read_has_ended() {
    const TRIES: u32 = 24;
    for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
        let mut ended = 0;
        for part in 0..TRIES {
            let mut subject = Subject::start(&["4", "20000000"]);
            let start = Instant::now();
            picture_of(subject.child.id(), meanwhile, Wanted::Totals).unwrap();
            let time = start.elapsed();
            let picture = std::thread::scope(|scope| {
                let pid = subject.child.id();
                let reading = scope.spawn(move || picture_of(pid, meanwhile, Wanted::Totals));
                std::thread::sleep(time * part / TRIES);
                subject.child.kill().unwrap();
                reading.join().unwrap()
            });
            match picture {
                Ok(picture) => {
                    let used = sum(&picture, |arena| arena.used);
                    assert!(used.abs_diff(subject.total[1]) <= used / 100, "{}", text(&picture));
                }
                Err(error) => {
                    assert!(error.to_string().contains("has ended"), "{error:#}");
                    ended += 1;
                }
            }
        }
        assert!(ended > 0);
    }
}

#[test]
fn a_trim_gives_back_what_was_predicted() {
    for (threads, bytes) in [("1", "100000000"), ("1", "3000000"), ("4", "100000000")] {
        let mut subject = Subject::start(&[threads, bytes]);
        let picture = picture_of(subject.child.id(), Meanwhile::IsStopped, Wanted::Totals).unwrap();
        subject.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let actual: u64 = subject.line().trim_end().parse().unwrap();
        let predicted = glibc(&picture).trim;
        assert!(predicted.abs_diff(actual) <= (actual / 20).max(1 << 20), "{predicted} {actual}");
        assert!(threads != "1" || actual > 500_000, "{actual}");
    }
}

#[test]
fn a_heap_that_grows_and_shrinks_meanwhile_is_always_found() {
    let subject = Subject::start(&["1", "1048576", "breathe"]);
    for _ in 0..20 {
        let picture = picture_of(subject.child.id(), Meanwhile::Runs, Wanted::Totals).unwrap();
        assert_eq!(glibc(&picture).arenas.len(), subject.arenas.len());
    }
}

#[test]
fn blocks_that_were_made_after_the_first_picture_and_stay_are_shown() {
    let mut subject = Subject::start(&["1", "1048576", "leak"]);
    let mut history = History::default();
    let mut next = || {
        let picture = picture_of(subject.child.id(), Meanwhile::IsStopped, Wanted::Blocks).unwrap();
        subject.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        subject.out.read_line(&mut line).unwrap();
        history.add(picture)
    };
    assert!(next().is_none());
    let growth = next().unwrap();
    // A hole that is longer by less than the shortest chunk is taken as a whole.
    let made = |growth: &Growth| growth.sizes.values().map(|change| change.blocks).sum::<i64>();
    assert_eq!(made(&growth), 100);
    assert!(growth.sizes[&784].blocks > 80 && growth.arenas[&0] >= 78400, "{growth:?}");
    assert!(growth.kept.as_ref().unwrap().is_empty());
    let before = growth;
    let growth = next().unwrap();
    assert_eq!(made(&growth), 100);
    let kept = growth.kept.unwrap();
    assert_eq!(kept.values().map(|kept| kept.blocks).sum::<u64>(), 100);
    assert_eq!(kept[&784].blocks as i64, before.sizes[&784].blocks);
}

/// Copies what can be written of a process.
fn copy(target: &Target, mappings: &[Mapping]) -> Vec<(u64, Vec<u8>)> {
    let data = mappings.iter().filter(|mapping| mapping.is_data());
    let read = |mapping: &Mapping| {
        let mut bytes = vec![0; (mapping.range.end - mapping.range.start) as usize];
        target.read(mapping.range.start, &mut bytes);
        (mapping.range.start, bytes)
    };
    data.map(read).collect()
}

/// `HEAPWRIGHT_INSPECT_TRIES` sets the number of heaps.
#[test]
fn damaged_heaps_are_read_without_a_crash_or_a_hang() {
    let tries = std::env::var("HEAPWRIGHT_INSPECT_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let subject = Subject::start(&["4", "1000000"]);
    let target = Target::open(subject.child.id()).unwrap();
    let mappings = mappings::parse(&target.smaps().unwrap());
    let parts = copy(&target, &mappings);
    let take = |parts: Vec<(u64, Vec<u8>)>| {
        let mut image = Image::default();
        parts.into_iter().for_each(|(start, bytes)| image.push(start, bytes));
        let about = heapwright_inspect::picture::Subject {
            pid: 1,
            program: "damaged".to_owned(),
            stopped: true,
            threads: Threads::default(),
            linked: None,
            listing: Listing::Counted,
        };
        let picture = Picture::take(about, &image, &mappings);
        assert!(!text(&picture).is_empty());
        picture
    };
    // Each arena's bytes from the system become more than there can be.
    let mut beyond = parts.clone();
    for arena in &glibc(&take(parts.clone())).arenas {
        let (before, after) = (arena.system_bytes.to_ne_bytes(), (u64::MAX - 5).to_ne_bytes());
        let words = beyond.iter_mut().flat_map(|(_, bytes)| bytes.as_chunks_mut().0);
        words.filter(|word| **word == before).for_each(|word| *word = after);
    }
    let beyond = take(beyond);
    assert!(glibc(&beyond).arenas.iter().all(|arena| arena.inconsistencies > 0 && arena.system_bytes == 0));
    let mut random = fastrand::Rng::with_seed(17);
    let mut damaged = 0;
    for _ in 0..tries {
        let mut copy = parts.clone();
        for _ in 0..1 << random.u32(0..12) {
            let (_, bytes) = random.choice(&mut copy).unwrap();
            let at = random.usize(0..bytes.len() / 8) * 8;
            let value = match random.u32(0..5) {
                0 => random.u64(..),
                1 => random.u64(0..1 << 20),
                2 => u64::MAX - random.u64(0..4096),
                3 => 0,
                _ => {
                    let (start, bytes) = random.choice(&parts).unwrap();
                    start + random.u64(0..bytes.len() as u64) / 16 * 16
                }
            };
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let picture = take(copy);
        damaged +=
            u32::from(picture.glibc.is_none_or(|glibc| glibc.arenas.iter().any(|arena| arena.inconsistencies > 0)));
    }
    assert!(damaged > tries / 10, "{damaged} of {tries}");
}
