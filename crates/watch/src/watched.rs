//! One watched process: the last sample of its heap, and its history.

use std::fs;
use std::time::Instant;

use heapwright_placement::Counters;

use super::history::{History, Point, Rates};
use super::location::HeapLocation;
use super::sample::{Clarity, Sample};
use super::unseen::Unseen;

/// A process and the samples of its heap.
pub struct Watched {
    /// The process.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    location: Option<HeapLocation>,
    /// The last sample of its heap.
    pub sample: Option<Sample>,
    /// Why it cannot be sampled now.
    pub unseen: Option<Unseen>,
    /// Whether the sample is final: the process left it when it ended.
    pub is_last: bool,
    /// The history of its heap.
    pub history: History,
    /// The rates of its counters.
    pub rates: Rates,
}

impl Watched {
    /// Creates a process that has not been sampled yet.
    pub fn new(pid: u32) -> Watched {
        Watched {
            pid,
            name: name_of(pid).unwrap_or_default(),
            location: None,
            sample: None,
            unseen: None,
            is_last: false,
            history: History::default(),
            rates: Rates::default(),
        }
    }

    /// Returns whether the process has ended.
    pub fn is_gone(&self) -> bool {
        self.unseen == Some(Unseen::Gone)
    }

    /// Returns whether the last sample may be inconsistent because the program worked on its heap during every attempt.
    pub fn is_blurred(&self) -> bool {
        self.sample.as_ref().is_some_and(|sample| sample.clarity == Clarity::Blurred)
    }

    /// Samples the heap.
    pub fn look(&mut self) {
        if self.is_gone() {
            return;
        }
        match self.find().and_then(|location| Sample::take(&location)) {
            Ok(sample) => self.put(sample),
            Err(unseen) => self.lose(unseen),
        }
    }

    /// Reads only the length of the heap, in bytes.
    pub fn glimpse(&mut self) -> usize {
        if self.is_gone() {
            return 0;
        }
        match self.find().and_then(|location| Sample::heap_size(&location)) {
            Ok(size) => {
                self.unseen = None;
                size
            }
            Err(unseen) => {
                self.lose(unseen);
                0
            }
        }
    }

    /// Handles the end of the process; `last` is the state that it left.
    pub fn end(&mut self, last: Option<Sample>) {
        if let Some(sample) = last {
            self.put(sample);
            self.is_last = true;
        }
        self.unseen = Some(Unseen::Gone);
    }

    /// Returns the peak length of the heap, in bytes.
    pub fn peak(&self) -> u64 {
        self.counters().map_or(0, |counters| counters.peak_heap_size)
    }

    /// Returns the counters of the last sample.
    pub fn counters(&self) -> Option<Counters> {
        self.sample.as_ref().and_then(|sample| sample.counters)
    }

    fn find(&mut self) -> Result<HeapLocation, Unseen> {
        if let Some(location) = self.location.filter(HeapLocation::holds) {
            return Ok(location);
        }
        // The heap is not found yet, or the process has replaced its program.
        self.location = None;
        let location = HeapLocation::find(self.pid)?;
        (self.history, self.rates) = (History::default(), Rates::default());
        if let Some(name) = name_of(self.pid) {
            self.name = name;
        }
        Ok(*self.location.insert(location))
    }

    /// Stores a sample.
    pub fn put(&mut self, sample: Sample) {
        if let Some((counters, live)) = sample.counters.zip(sample.live()) {
            let external = sample.holes.external_fragmentation();
            self.history.add(Point { heap: counters.heap_size, live, external });
            self.rates.add(Instant::now(), counters);
        }
        self.sample = Some(sample);
        self.unseen = None;
    }

    fn lose(&mut self, unseen: Unseen) {
        self.location = None;
        self.unseen = Some(unseen);
        if !matches!(unseen, Unseen::Gone | Unseen::NotAHeap | Unseen::Swapped) {
            self.sample = None;
        }
    }
}

fn name_of(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}
