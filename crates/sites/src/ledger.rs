//! Reads a trace once and adds up what the blocks of each call site take.

use std::collections::HashMap;

use anyhow::Result;
use foldhash::fast::RandomState;
use heapwright_recording::sampling::Sampling;
use heapwright_trace::{Event, LiveBlocks, Reader, SiteId};

use crate::tally::Tally;

/// The moment at which held memory is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// The first maximum of requested bytes.
    #[default]
    Peak,
    /// After this many events; changes of threads do not count.
    Event(u64),
    /// At this time, in nanoseconds since the beginning.
    Time(u64),
}

/// What else tells blocks of one site apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Nothing.
    #[default]
    Nothing,
    /// The thread that requested the block.
    Thread,
    /// The requested size, rounded up to a power of two.
    Size,
}

/// What a tally counts: the blocks of one site, and of one thread or size when the ledger is split by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The call site; `None` for blocks without one.
    pub site: Option<SiteId>,
    /// The thread or the size.
    pub part: u64,
    /// For how many blocks each one stands; 1 for those without a site.
    pub weight: u64,
}

/// What is known of the blocks of a site.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    /// The sums, estimated if the trace is sampled.
    pub whole: Tally,
    /// The sums of blocks that stand for others.
    pub sampled: Tally,
}

impl Estimate {
    /// Adds blocks of which each stands for `weight`.
    fn add(&mut self, tally: &Tally, weight: u64) {
        self.whole.merge(&tally.scaled(weight));
        if weight > 1 {
            self.sampled.merge(tally);
        }
    }

    /// Adds those of another site.
    pub fn merge(&mut self, other: &Estimate) {
        self.whole.merge(&other.whole);
        self.sampled.merge(&other.sampled);
    }
}

/// The sums of a trace.
pub struct Ledger {
    /// The sums by key.
    pub tallies: Vec<(Key, Tally)>,
    /// The sum of all blocks, with and without a site.
    pub total: Tally,
    /// The number of events before the moment at which held memory is counted, and the time of the last of them if the
    /// trace has times.
    pub moment: (u64, Option<u64>),
    /// The number of events, without changes of threads.
    pub events: u64,
    /// The number of requests that have a site.
    pub with_site: u64,
    /// The number of requests.
    pub requests: u64,
    /// Which requests have a site.
    pub sampling: Sampling,
}

impl Ledger {
    /// Reads a trace to its end. Times and sites are known if the reader was told to read them.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn read(trace: &mut Reader<'_>, moment: Moment, split: Split) -> Result<Ledger> {
        let mut reading = Reading::new(split, Sampling::of(trace.about()));
        let mut is_marked = false;
        let mut before = 0;
        // The time of the last event that was taken.
        let mut time = None;
        while let Some(event) = trace.next_event()? {
            let is_due = match moment {
                Moment::Peak => false,
                Moment::Event(events) => before >= events && event.is_call(),
                Moment::Time(time) => trace.time().is_some_and(|now| now > time),
            };
            if is_due && !is_marked {
                is_marked = true;
                reading.mark(before, time);
            }
            reading.take(&event, trace.site());
            time = trace.time();
            before += u64::from(event.is_call());
            if moment == Moment::Peak && reading.live > reading.peak {
                reading.peak = reading.live;
                reading.mark(before, time);
            }
        }
        if !is_marked && moment != Moment::Peak {
            reading.mark(before, time);
        }
        Ok(reading.finish(before))
    }

    /// Returns what is known of each site. Blocks without a site are left out of sampled traces, because those with one
    /// stand for them.
    pub fn estimates(&self) -> Vec<(Option<SiteId>, Estimate)> {
        let mut places: HashMap<Option<SiteId>, usize, RandomState> = HashMap::default();
        let mut estimates: Vec<(Option<SiteId>, Estimate)> = Vec::new();
        for (key, tally) in &self.tallies {
            if key.site.is_some() || self.sampling.every == 1 {
                let at = *places.entry(key.site).or_insert(estimates.len());
                if at == estimates.len() {
                    estimates.push((key.site, Estimate::default()));
                }
                estimates[at].1.add(tally, key.weight);
            }
        }
        estimates
    }
}

/// A live block: its tally, and its requested size.
#[derive(Clone, Copy)]
struct Live {
    at: u32,
    size: u64,
}

/// The state of a ledger while a trace is read.
struct Reading {
    split: Split,
    sampling: Sampling,
    numbers: HashMap<Key, u32, RandomState>,
    tallies: Vec<(Key, Tally)>,
    blocks: LiveBlocks<Live>,
    thread: u64,
    /// The block that the current thread requested last, until it is freed.
    latest: Option<u64>,
    /// The same of the other threads.
    latest_elsewhere: HashMap<u64, u64, RandomState>,
    /// The key that was last looked up, and its number.
    last_key: Option<(Key, u32)>,
    live: u64,
    peak: u64,
    /// The number of marks so far.
    marks: u64,
    moment: (u64, Option<u64>),
    with_site: u64,
    requests: u64,
}

impl Reading {
    fn new(split: Split, sampling: Sampling) -> Reading {
        Reading {
            split,
            sampling,
            numbers: HashMap::default(),
            tallies: Vec::new(),
            blocks: LiveBlocks::default(),
            thread: 0,
            latest: None,
            latest_elsewhere: HashMap::default(),
            last_key: None,
            live: 0,
            peak: 0,
            marks: 0,
            moment: (0, None),
            with_site: 0,
            requests: 0,
        }
    }

    /// Makes the present the moment at which held memory is counted.
    fn mark(&mut self, events: u64, time: Option<u64>) {
        self.marks += 1;
        self.moment = (events, time);
    }

    fn take(&mut self, event: &Event, site: Option<SiteId>) {
        match *event {
            Event::Allocate { block, size, .. } => self.add(block, size, site),
            Event::Resize { block, becomes, size } => {
                self.remove(block);
                self.add(becomes, size, site);
            }
            Event::Free { block } => {
                let is_temporary = self.latest == Some(block);
                let live = self.remove(block);
                if let Some(live) = live.filter(|_| is_temporary) {
                    let tally = &mut self.tallies[live.at as usize].1;
                    tally.temporary.add(live.size);
                    self.latest = None;
                }
            }
            Event::Failed { .. } => {}
            Event::Thread { thread } => self.change_thread(thread),
        }
    }

    fn add(&mut self, block: u64, size: u64, site: Option<SiteId>) {
        self.requests += 1;
        self.with_site += u64::from(site.is_some());
        let at = self.number(site, size);
        let tally = &mut self.tallies[at as usize].1;
        tally.settle(self.marks);
        tally.live.add(size);
        tally.churn.add(size);
        self.live = self.live.wrapping_add(size);
        self.blocks.insert(block, Live { at, size });
        self.latest = Some(block);
    }

    fn change_thread(&mut self, thread: u64) {
        if let Some(block) = self.latest.take() {
            self.latest_elsewhere.insert(self.thread, block);
        }
        self.thread = thread;
        self.latest = self.latest_elsewhere.remove(&thread);
    }

    fn remove(&mut self, block: u64) -> Option<Live> {
        let (_, live) = self.blocks.remove(block)?;
        let tally = &mut self.tallies[live.at as usize].1;
        tally.settle(self.marks);
        tally.live.remove(live.size);
        self.live = self.live.wrapping_sub(live.size);
        Some(live)
    }

    fn number(&mut self, site: Option<SiteId>, size: u64) -> u32 {
        let part = match self.split {
            Split::Nothing => 0,
            Split::Thread => self.thread,
            Split::Size => size.checked_next_power_of_two().unwrap_or(u64::MAX),
        };
        let weight = if site.is_some() { self.sampling.weight(size) } else { 1 };
        let key = Key { site, part, weight };
        if let Some((_, number)) = self.last_key.filter(|(last, _)| *last == key) {
            return number;
        }
        let next = self.tallies.len() as u32;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.tallies.push((key, Tally::default()));
            next
        });
        self.last_key = Some((key, number));
        number
    }

    fn finish(mut self, events: u64) -> Ledger {
        let mut total = Tally::default();
        for (_, tally) in &mut self.tallies {
            tally.settle(self.marks);
            total.merge(tally);
        }
        let Reading { tallies, moment, with_site, requests, sampling, .. } = self;
        Ledger { tallies, total, moment, events, with_site, requests, sampling }
    }
}

impl Tally {
    /// Counts as held what was live when the latest mark was set, before the tally changes for the first time since.
    fn settle(&mut self, marks: u64) {
        if self.settled != marks {
            (self.held, self.settled) = (self.live, marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use heapwright_trace::{About, Kind, Writer};

    use super::*;
    use crate::tally::Amount;

    /// Returns the held, the never freed and the temporary bytes of each site, as an oracle that keeps every state.
    fn oracle(events: &[Event], sites: &[Option<SiteId>], split: usize) -> BTreeMap<u32, [u64; 3]> {
        let state = |upto: usize| {
            let mut live: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
            for (event, site) in events[..upto].iter().zip(sites) {
                match *event {
                    Event::Allocate { block, size, .. } => {
                        live.insert(block, (site.unwrap().index(), size));
                    }
                    Event::Resize { block, becomes, size } => {
                        live.remove(&block);
                        live.insert(becomes, (site.unwrap().index(), size));
                    }
                    Event::Free { block } => {
                        live.remove(&block);
                    }
                    _ => {}
                }
            }
            live
        };
        let mut found: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
        for (at, upto) in [split, events.len()].into_iter().enumerate() {
            for (site, size) in state(upto).into_values() {
                found.entry(site).or_default()[at] += size;
            }
        }
        for (at, event) in events.iter().enumerate() {
            let Event::Free { block } = *event else { continue };
            let request = events[..at].iter().rposition(|event| !matches!(event, Event::Free { .. })).unwrap();
            if let Event::Allocate { block: last, size, .. } | Event::Resize { becomes: last, size, .. } =
                events[request]
                && last == block
            {
                found.entry(sites[request].unwrap().index()).or_default()[2] += size;
            }
        }
        found
    }

    fn random_trace(seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        let sites: Vec<SiteId> = (0..7).map(|n| writer.define_site(&[&format!("f{n}")]).unwrap()).collect();
        let mut live = Vec::new();
        for _ in 0..400 {
            if !live.is_empty() && random.u8(..) < 110 {
                let block = live.swap_remove(random.usize(..live.len()));
                writer.free(block).unwrap();
                continue;
            }
            writer.from_site(sites[random.usize(..7)]).unwrap();
            if !live.is_empty() && random.u8(..) < 60 {
                let at = random.usize(..live.len());
                live[at] = writer.resize(live[at], random.u64(..5000)).unwrap();
            } else {
                live.push(writer.allocate(Kind::Malloc, random.u64(..5000), 16).unwrap());
            }
        }
        writer.finish().unwrap();
        file
    }

    #[test]
    fn sums_are_those_of_an_oracle_that_keeps_every_state() {
        for seed in 0..50 {
            let file = random_trace(seed);
            let mut reader = Reader::new(&file[..]).unwrap().with_sites();
            let (mut events, mut sites) = (Vec::new(), Vec::new());
            while let Some(event) = reader.next_event().unwrap() {
                events.push(event);
                sites.push(reader.site());
            }
            for moment in [Moment::Peak, Moment::Event(seed * 9)] {
                let mut reader = Reader::new(&file[..]).unwrap().with_sites();
                let ledger = Ledger::read(&mut reader, moment, Split::Nothing).unwrap();
                if let Moment::Event(event) = moment {
                    assert_eq!(ledger.moment.0, event.min(events.len() as u64));
                }
                let expected = oracle(&events, &sites, ledger.moment.0 as usize);
                for (key, tally) in &ledger.tallies {
                    let expected = expected.get(&key.site.unwrap().index()).copied().unwrap_or_default();
                    let found = [tally.held.bytes, tally.live.bytes, tally.temporary.bytes];
                    assert_eq!(found, expected, "seed {seed}, {moment:?}, {key:?}");
                }
            }
        }
    }

    #[test]
    fn a_block_of_another_thread_is_not_temporary() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        let site = writer.define_site(&["f"]).unwrap();
        let allocate = |writer: &mut Writer<_>, thread, size| {
            writer.in_thread(thread).unwrap();
            writer.from_site(site).unwrap();
            writer.allocate(Kind::Malloc, size, 16).unwrap()
        };
        let first = allocate(&mut writer, 0, 10);
        let second = allocate(&mut writer, 1, 20);
        writer.in_thread(0).unwrap();
        writer.free(second).unwrap();
        writer.free(first).unwrap();
        writer.finish().unwrap();
        let mut reader = Reader::new(&file[..]).unwrap().with_sites();
        let ledger = Ledger::read(&mut reader, Moment::Peak, Split::Thread).unwrap();
        assert_eq!(ledger.events, 4, "changes of threads are no events here");
        let temporary = |part| ledger.tallies.iter().find(|(key, _)| key.part == part).unwrap().1.temporary;
        assert_eq!((temporary(0).bytes, temporary(1).bytes), (10, 0));
        assert_eq!(ledger.total.held, {
            let mut held = Amount::default();
            held.add(10);
            held.add(20);
            held
        });
    }
}
