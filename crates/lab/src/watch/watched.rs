//! One process that is watched: its heap now, and what it was like before.

use std::fs;
use std::time::Instant;

use heapwright_placement::Counters;

use super::history::{History, Point, Rates};
use super::sample::{Clarity, Sample};
use super::sight::{Sight, Unseen};

/// A process and what is known of its heap.
pub struct Watched {
    /// The process.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    sight: Option<Sight>,
    /// Its heap when it was last seen.
    pub sample: Option<Sample>,
    /// Why it is not seen now.
    pub unseen: Option<Unseen>,
    /// Whether the sample is the last that there will be: the process left it when it ended.
    pub is_last: bool,
    /// What its heap was like.
    pub history: History,
    /// How fast things happen in it.
    pub rates: Rates,
}

impl Watched {
    /// A process that has not been looked at yet.
    pub fn new(pid: u32) -> Watched {
        Watched {
            pid,
            name: name_of(pid).unwrap_or_default(),
            sight: None,
            sample: None,
            unseen: None,
            is_last: false,
            history: History::default(),
            rates: Rates::default(),
        }
    }

    /// Whether the process has ended.
    pub fn is_gone(&self) -> bool {
        self.unseen == Some(Unseen::Gone)
    }

    /// Whether the program worked on its heap while it was copied, however often that was tried.
    pub fn is_blurred(&self) -> bool {
        self.sample.as_ref().is_some_and(|sample| sample.clarity == Clarity::Blurred)
    }

    /// Looks at the heap as it is now.
    pub fn look(&mut self) {
        if self.is_gone() {
            return;
        }
        match self.find().and_then(|sight| Sample::take(&sight)) {
            Ok(sample) => self.put(sample),
            Err(unseen) => self.lose(unseen),
        }
    }

    /// Looks at no more than how long the heap is; bytes.
    pub fn glimpse(&mut self) -> usize {
        if self.is_gone() {
            return 0;
        }
        match self.find().and_then(|sight| Sample::heap_size(&sight)) {
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

    /// The process has ended; `last` is the state that it left.
    pub fn end(&mut self, last: Option<Sample>) {
        if let Some(sample) = last {
            self.put(sample);
            self.is_last = true;
        }
        self.unseen = Some(Unseen::Gone);
    }

    /// The longest that the heap was, in bytes.
    pub fn peak(&self) -> u64 {
        self.counters().map_or(0, |counters| counters.peak_heap_size)
    }

    /// The counters when they were last seen.
    pub fn counters(&self) -> Option<Counters> {
        self.sample.as_ref().and_then(|sample| sample.counters)
    }

    fn find(&mut self) -> Result<Sight, Unseen> {
        if let Some(sight) = self.sight.filter(Sight::holds) {
            return Ok(sight);
        }
        // Not found yet, or the process is another program now.
        self.sight = None;
        let sight = Sight::find(self.pid)?;
        (self.history, self.rates) = (History::default(), Rates::default());
        if let Some(name) = name_of(self.pid) {
            self.name = name;
        }
        Ok(*self.sight.insert(sight))
    }

    /// This is the heap now.
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
        self.sight = None;
        self.unseen = Some(unseen);
        if !matches!(unseen, Unseen::Gone | Unseen::NotAHeap) {
            self.sample = None;
        }
    }
}

fn name_of(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}
