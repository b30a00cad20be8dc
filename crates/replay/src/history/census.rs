//! Policy-independent facts of a trace.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use heapwright_trace::{Event, LiveBlocks, ReadError, Reader, SiteId};

use super::extents::blocks_of;
use super::histogram::Histogram;
use super::series::Series;
use super::sites::{SiteUse, SiteUses};

/// Policy-independent facts of a trace. A resize counts as a free and an allocation.
#[derive(Clone, Debug)]
pub struct Census {
    /// The number of events, which are the calls of the program: changes of threads are none.
    pub events: u64,
    /// The highest block number plus 1.
    pub blocks: u64,
    /// The requested bytes of all live blocks, after each event.
    pub requested: Series,
    /// The maximum of `requested`, and the number of events until it is first reached.
    pub peak_requested: (u64, u64),
    /// The time of that event, where there are [times](Census::times).
    pub peak_requested_time: u64,
    /// The blocks by requested bytes; their weight is those bytes.
    pub sizes: Histogram,
    /// The freed blocks by lifetime in events; their weight is their requested bytes.
    pub lifetimes: Histogram,
    /// The freed blocks by lifetime in allocated bytes, including their own; same weight.
    pub lifetimes_in_bytes: Histogram,
    /// The number of blocks that are never freed, and their bytes.
    pub immortal: (u64, u64),
    /// The time of each event in nanoseconds since the beginning, in up to four times as many buckets as `requested`;
    /// `None` if the trace has no times or the reader does not read [them](Reader::with_times).
    pub times: Option<Series>,
    /// The memory use of each call site, by descending byte-events; empty if the trace has no sites or the reader does
    /// not read [them](Reader::with_sites).
    pub sites: Vec<SiteUse>,
}

/// The allocation of a live block: the events and requested bytes before it, and its size.
#[derive(Clone, Copy)]
struct Birth {
    event: u64,
    clock: u64,
    size: u64,
    /// The entry of its call site.
    site: u32,
}

/// The state while a trace is read.
struct Counting {
    census: Census,
    births: LiveBlocks<Birth>,
    times: Series,
    sites: SiteUses,
    live: u64,
    /// The requested bytes so far.
    clock: u64,
}

impl Census {
    /// The limit of buckets of [`Census::requested`].
    pub const BUCKETS: usize = 1024;

    /// Reads a whole trace. Memory: some 60 bytes per live block, and 48 bytes per call site.
    ///
    /// # Errors
    /// [`ReadError`]; a damaged trace has a census only if it is read [up to the damage](Reader::up_to_damage).
    pub fn take(trace: &mut Reader<'_>) -> Result<Census, ReadError> {
        let mut counting = Counting::new();
        while let Some(event) = trace.next_call()? {
            counting.count(&event, trace.site());
            // Events before the first known time count as happening at the beginning.
            let time = trace.time().unwrap_or_default();
            counting.times.push(time);
            if counting.census.peak_requested.1 == counting.census.events {
                counting.census.peak_requested_time = time;
            }
        }
        Ok(counting.finish())
    }
}

impl Counting {
    fn new() -> Counting {
        let census = Census {
            events: 0,
            blocks: 0,
            requested: Series::new(Census::BUCKETS),
            peak_requested: (0, 0),
            peak_requested_time: 0,
            sizes: Histogram::default(),
            lifetimes: Histogram::default(),
            lifetimes_in_bytes: Histogram::default(),
            immortal: (0, 0),
            times: None,
            sites: Vec::new(),
        };
        let times = Series::new(4 * Census::BUCKETS);
        Counting { census, births: LiveBlocks::default(), times, sites: SiteUses::default(), live: 0, clock: 0 }
    }

    fn count(&mut self, event: &Event, site: Option<SiteId>) {
        match *event {
            Event::Allocate { block, size, .. } => self.add_block(block, size, site),
            Event::Resize { block, becomes, size } => {
                self.remove_block(block);
                self.add_block(becomes, size, site);
            }
            Event::Free { block } => self.remove_block(block),
            Event::Failed { .. } | Event::Thread { .. } => {}
        }
        let census = &mut self.census;
        census.events += 1;
        census.requested.push(self.live);
        if self.live > census.peak_requested.0 {
            census.peak_requested = (self.live, census.events);
        }
    }

    fn add_block(&mut self, block: u64, size: u64, site: Option<SiteId>) {
        let site = self.sites.add_block(site, size);
        self.births.insert(block, Birth { event: self.census.events, clock: self.clock, size, site });
        self.census.blocks = self.census.blocks.max(block.saturating_add(1));
        self.census.sizes.add(size, size);
        self.clock = self.clock.saturating_add(size);
        self.live = self.live.saturating_add(size);
    }

    fn remove_block(&mut self, block: u64) {
        if let Some((_, Birth { event, clock, size, site })) = self.births.remove(block) {
            self.sites.add_lifetime(site, size, self.census.events - event);
            self.census.lifetimes.add(self.census.events - event, size);
            self.census.lifetimes_in_bytes.add(self.clock - clock, size);
            self.live = self.live.saturating_sub(size);
        }
    }

    fn finish(mut self) -> Census {
        for (_, _, birth) in self.births.iter() {
            self.sites.add_lifetime(birth.site, birth.size, self.census.events - birth.event);
        }
        self.census.immortal = (self.births.len() as u64, self.live);
        self.census.sites = self.sites.finish();
        self.census.times = Some(self.times).filter(|times| times.max() > Some(0));
        self.census
    }
}

/// The life of a block, by numbers of events from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The event that created the block.
    pub born: u64,
    /// The event that freed or resized the block; `None` if it stays live.
    pub died: Option<u64>,
    /// The call site; `None` if the trace has none for it or the reader does not read [sites](Reader::with_sites).
    pub site: Option<SiteId>,
}

/// Reads a whole trace and returns the lives of some of its blocks, by number.
///
/// # Errors
/// [`ReadError`].
pub fn lives(trace: &mut Reader<'_>, blocks: impl IntoIterator<Item = u64>) -> Result<HashMap<u64, Life>, ReadError> {
    let unborn = Life { born: u64::MAX, died: None, site: None };
    let mut lives = blocks.into_iter().map(|block| (block, unborn)).collect();
    follow(trace, &mut lives)?;
    Ok(lives.into_iter().filter(|(_, life)| life.born != u64::MAX).collect())
}

/// Sets the lives of some blocks. Compiled here, where code is optimised, and not where it is called.
fn follow(trace: &mut Reader<'_>, lives: &mut HashMap<u64, Life, RandomState>) -> Result<(), ReadError> {
    let mut now = 0;
    while let Some(event) = trace.next_call()? {
        let (removed, added) = blocks_of(&event);
        if let Some(life) = added.and_then(|block| lives.get_mut(&block)) {
            (life.born, life.site) = (now, trace.site());
        }
        if let Some(life) = removed.and_then(|block| lives.get_mut(&block)) {
            life.died.get_or_insert(now);
        }
        now += 1;
    }
    Ok(())
}
