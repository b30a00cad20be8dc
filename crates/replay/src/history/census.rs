//! What is true of a trace under any policy.

use std::collections::HashMap;
use std::io::Read;

use heapwright_trace::{Event, ReadError, Reader, SiteId};

use super::extents::blocks_of;
use super::histogram::Histogram;
use super::series::Series;
use super::sites::{SiteUse, SiteUses};

/// What a trace asks for, whoever answers. A resized block counts as one that goes and one that appears.
#[derive(Clone, Debug)]
pub struct Census {
    /// How many events there are.
    pub events: u64,
    /// One more than the highest number of a block.
    pub blocks: u64,
    /// Bytes, as asked, that live, after each event.
    pub requested: Series,
    /// Its most, and how many events it took to get there first.
    pub peak_requested: (u64, u64),
    /// The blocks by the bytes asked for; their weight is those bytes.
    pub sizes: Histogram,
    /// The blocks that went, by the events that they lived for; their weight is their bytes.
    pub lifetimes: Histogram,
    /// The same by the bytes that were asked for meanwhile, their own included.
    pub lifetimes_in_bytes: Histogram,
    /// The blocks that were never freed: how many, and their bytes.
    pub immortal: (u64, u64),
    /// When each event happened, in nanoseconds since the beginning, in four times as many buckets; `None` when the trace does not tell, or its
    /// [times](Reader::with_times) are not read.
    pub times: Option<Series>,
    /// What the blocks of each call site took, those that held most for longest first; empty when the trace does not tell, or its
    /// [sites](Reader::with_sites) are not read.
    pub sites: Vec<SiteUse>,
}

/// A block that lives: how many events there had been, how many bytes had been asked for, and its own.
struct Birth {
    event: u64,
    clock: u64,
    size: u64,
    /// Where its site is counted.
    site: u32,
}

/// A census under way.
struct Counting {
    census: Census,
    births: HashMap<u64, Birth>,
    times: Series,
    sites: SiteUses,
    live: u64,
    /// Bytes asked for so far.
    clock: u64,
}

impl Census {
    /// How many buckets [`Census::requested`] has at most.
    pub const BUCKETS: usize = 1024;

    /// Reads all of a trace. Memory: some 60 bytes per live block, and 48 per call site.
    ///
    /// # Errors
    /// [`ReadError`]; a damaged trace gives no census.
    pub fn take(trace: &mut Reader<impl Read>) -> Result<Census, ReadError> {
        let mut counting = Counting::new();
        while let Some(event) = trace.next_event()? {
            counting.count(&event, trace.site());
            // Those that came before any time was told happened at the beginning.
            counting.times.push(trace.time().unwrap_or_default());
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
            sizes: Histogram::default(),
            lifetimes: Histogram::default(),
            lifetimes_in_bytes: Histogram::default(),
            immortal: (0, 0),
            times: None,
            sites: Vec::new(),
        };
        let times = Series::new(4 * Census::BUCKETS);
        Counting { census, births: HashMap::new(), times, sites: SiteUses::default(), live: 0, clock: 0 }
    }

    fn count(&mut self, event: &Event, site: Option<SiteId>) {
        match *event {
            Event::Allocate { block, size, .. } => self.appear(block, size, site),
            Event::Resize { block, becomes, size } => {
                self.go(block);
                self.appear(becomes, size, site);
            }
            Event::Free { block } => self.go(block),
            Event::Failed { .. } | Event::Thread { .. } => {}
        }
        let census = &mut self.census;
        census.events += 1;
        census.requested.push(self.live);
        if self.live > census.peak_requested.0 {
            census.peak_requested = (self.live, census.events);
        }
    }

    fn appear(&mut self, block: u64, size: u64, site: Option<SiteId>) {
        let site = self.sites.appear(site, size);
        self.births.insert(block, Birth { event: self.census.events, clock: self.clock, size, site });
        self.census.blocks = self.census.blocks.max(block.saturating_add(1));
        self.census.sizes.add(size, size);
        self.clock = self.clock.saturating_add(size);
        self.live = self.live.saturating_add(size);
    }

    fn go(&mut self, block: u64) {
        if let Some(Birth { event, clock, size, site }) = self.births.remove(&block) {
            self.sites.live(site, size, self.census.events - event);
            self.census.lifetimes.add(self.census.events - event, size);
            self.census.lifetimes_in_bytes.add(self.clock - clock, size);
            self.live = self.live.saturating_sub(size);
        }
    }

    fn finish(mut self) -> Census {
        for birth in self.births.values() {
            self.sites.live(birth.site, birth.size, self.census.events - birth.event);
        }
        self.census.immortal = (self.births.len() as u64, self.live);
        self.census.sites = self.sites.finish();
        self.census.times = Some(self.times).filter(|times| times.max() > Some(0));
        self.census
    }
}

/// When a block appeared and went, as the number of the event from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The event by which it appeared.
    pub born: u64,
    /// The event by which it went; `None` when it never did.
    pub died: Option<u64>,
    /// From where it was asked for; `None` when the trace does not tell, or its [sites](Reader::with_sites) are not read.
    pub site: Option<SiteId>,
}

/// Reads all of a trace for the lives of some of its blocks, by number.
///
/// # Errors
/// [`ReadError`].
pub fn lives(
    trace: &mut Reader<impl Read>,
    blocks: impl IntoIterator<Item = u64>,
) -> Result<HashMap<u64, Life>, ReadError> {
    let unborn = Life { born: u64::MAX, died: None, site: None };
    let mut lives: HashMap<u64, Life> = blocks.into_iter().map(|block| (block, unborn)).collect();
    let mut now = 0;
    while let Some(event) = trace.next_event()? {
        let (gone, came) = blocks_of(&event);
        if let Some(life) = came.and_then(|block| lives.get_mut(&block)) {
            (life.born, life.site) = (now, trace.site());
        }
        if let Some(life) = gone.and_then(|block| lives.get_mut(&block)) {
            life.died.get_or_insert(now);
        }
        now += 1;
    }
    lives.retain(|_, life| life.born != u64::MAX);
    Ok(lives)
}
