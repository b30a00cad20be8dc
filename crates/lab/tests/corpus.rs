//! The traces of `corpus/` are whole and sound, small, and what its table says.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use heapwright_trace::{Event, Reader};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

fn traces() -> Vec<PathBuf> {
    let paths = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "hwt")).collect();
    traces.sort();
    traces
}

/// What is to be said of a trace that was read to its end.
#[derive(Default)]
struct Seen {
    name: String,
    program: String,
    length: u64,
    events: u64,
    live: HashMap<u64, u64>,
    live_bytes: u64,
    peak: u64,
    threads: BTreeSet<u64>,
}

impl Seen {
    /// Reads a trace, every event of which is checked: no block goes that is not there.
    fn at(path: &Path) -> Seen {
        let mut reader = Reader::new(BufReader::new(File::open(path).unwrap())).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let program = reader.about().get("program").unwrap().to_owned();
        let length = fs::metadata(path).unwrap().len();
        let mut seen = Seen { name, program, length, threads: BTreeSet::from([0]), ..Seen::default() };
        while let Some(event) = reader.next_event().unwrap() {
            seen.take(event);
        }
        assert!(reader.is_finished(), "{} is cut off", path.display());
        seen
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Allocate { block, size, .. } => self.appear(block, size),
            Event::Resize { block, becomes, size } => {
                self.go(block);
                self.appear(becomes, size);
            }
            Event::Free { block } => self.go(block),
            Event::Failed { .. } => {}
            Event::Thread { thread } => {
                self.threads.insert(thread);
                return;
            }
        }
        self.events += 1;
    }

    fn appear(&mut self, block: u64, size: u64) {
        assert!(self.live.insert(block, size).is_none(), "{}: block {block} appears twice", self.name);
        self.live_bytes += size;
        self.peak = self.peak.max(self.live_bytes);
    }

    fn go(&mut self, block: u64) {
        let size = self.live.remove(&block);
        self.live_bytes -= size.unwrap_or_else(|| panic!("{}: block {block} goes but is not there", self.name));
    }

    fn bytes_per_event(&self) -> f64 {
        self.length as f64 / self.events as f64
    }

    /// The beginning of this trace's row in `corpus/README.md`.
    fn row(&self) -> String {
        let (events, peak, length) = (grouped(self.events), grouped(self.peak / 1024), grouped(self.length / 1024));
        let (name, program, threads) = (&self.name, &self.program, self.threads.len());
        format!("| `{name}` | {program} | {events} | {peak} | {threads} | {length} |")
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

#[test]
fn every_trace_is_complete_and_sound_and_matches_the_table() {
    let seen: Vec<Seen> = traces().iter().map(|path| Seen::at(path)).collect();
    assert!(seen.len() >= 8);
    let table = fs::read_to_string(corpus().join("README.md")).unwrap();
    let missing: Vec<String> = seen.iter().map(Seen::row).filter(|row| !table.contains(row)).collect();
    assert!(missing.is_empty(), "corpus/README.md lacks rows that begin\n{}", missing.join("\n"));
    let mut ratios: Vec<f64> = seen.iter().map(Seen::bytes_per_event).collect();
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[ratios.len() / 2] <= 1.0, "bytes per event: {ratios:?}");
}

#[test]
fn the_corpus_is_small() {
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    assert!(traces().iter().map(length).sum::<u64>() <= 12 << 20);
    assert!(length(&corpus().join("default.hwt")) <= 600 << 10);
}
