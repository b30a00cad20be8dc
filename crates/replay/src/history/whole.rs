//! Records the history of a heap during a whole trace.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use heapwright_placement::{Engine, Growth};
use heapwright_trace::{Reader, SiteId};

use super::census::Census;
use super::extents::{self, Exchange, Extent};
use super::grid::Classes;
use super::map::HeapMap;
use super::moment::Moment;
use super::series::Series;
use super::sites::SiteClasses;
use crate::error::ReplayError;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::profile::is_peak;
use crate::simulation::Simulation;

/// The resolution of a history.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The limit of buckets of a series.
    pub buckets: usize,
    /// The limit of rows of the finest map.
    pub rows: usize,
    /// The limit of columns of the finest map.
    pub columns: usize,
    /// The call sites that the map distinguishes, if the trace is read [with them](Reader::with_sites).
    pub sites: SiteClasses,
}

impl Default for Detail {
    /// Returns 1024 buckets, as in a [`Census`], 800 rows, 1600 columns and no call sites.
    fn default() -> Self {
        Detail { buckets: Census::BUCKETS, rows: 800, columns: 1600, sites: SiteClasses::default() }
    }
}

/// The history of a heap under one policy. Sizes in bytes. A series has the value after each event, without the second
/// copy of a block during a move.
#[derive(Clone, Debug)]
pub struct History {
    /// The length of the heap.
    pub heap: Series,
    /// The bytes in used blocks.
    pub live: Series,
    /// The number of holes, including the free tail.
    pub holes: Series,
    /// Addresses against time. Its colourings: by size ([`History::size_class`]), by age ([`History::age_class`]), and
    /// by call site if [`Detail::sites`] has groups.
    pub map: HeapMap,
    /// The peak: after the heap grew for the last time, or, in a fixed region, when the requested bytes were first at
    /// their maximum. A heap without the holes of this moment would have been that much shorter.
    pub peak: Option<Moment>,
    /// The state after the last event.
    pub end: Moment,
}

impl History {
    /// The number of size classes and of age classes.
    pub const CLASSES: usize = 8;

    /// Returns the size class of a request: up to 16, 64, 256 bytes, 1, 4, 16, 64 KiB, and more.
    ///
    /// ```
    /// use heapwright_replay::history::History;
    /// assert_eq!([0, 16, 17, 65_536, 65_537].map(History::size_class), [0, 0, 1, 6, 7]);
    /// ```
    #[must_use]
    pub fn size_class(size: u64) -> u8 {
        let power = size.saturating_sub(1).checked_ilog2().map_or(0, |power| power + 1);
        (power.saturating_sub(3) / 2).min(Self::CLASSES as u32 - 1) as u8
    }

    /// Returns the age class of a block: the eighth of all `blocks` of the trace that it is in, the oldest first.
    ///
    /// ```
    /// use heapwright_replay::history::History;
    /// assert_eq!([0, 124, 125, 999].map(|block| History::age_class(block, 1000)), [0, 0, 1, 7]);
    /// ```
    #[must_use]
    pub fn age_class(block: u64, blocks: u64) -> u8 {
        let classes = Self::CLASSES as u64;
        let class = match block.checked_mul(classes) {
            Some(product) => product / blocks.max(1),
            None => (u128::from(block) * u128::from(classes) / u128::from(blocks.max(1))) as u64,
        };
        class.min(classes - 1) as u8
    }

    /// Replays a trace under `model` and records its history. `outcome` is that of [`replay`](crate::replay()) for the
    /// same trace and model, and `census` that of the trace: they define the extent of the map and the peak.
    ///
    /// Memory: that of a [`Simulation`], 24 bytes per live block at two moments, 15 bytes per cell of the finest map,
    /// and 48 bytes per live block with a site if [`Detail::sites`] has groups. Time: some three times that of a
    /// replay.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn of(
        trace: &mut Reader<'_>,
        model: &Model,
        outcome: &Outcome,
        census: &Census,
        detail: &Detail,
    ) -> Result<History, ReplayError> {
        let mut observer = Observer::new(model, outcome, census, detail)?;
        while let Some(event) = trace.next_call()? {
            let exchange = extents::apply(&mut observer.simulation, &event, model.rules.header as usize);
            observer.record(exchange, trace.site());
        }
        Ok(observer.finish())
    }
}

/// The state while a trace is replayed.
struct Observer<'t> {
    simulation: Simulation,
    outcome: &'t Outcome,
    census: &'t Census,
    sites: &'t SiteClasses,
    /// The classes of the live blocks with a site, by number.
    site_of: HashMap<u64, u8, RandomState>,
    growth: Growth,
    heap: Series,
    live: Series,
    holes: Series,
    map: HeapMap,
    peak: Option<Moment>,
}

impl<'t> Observer<'t> {
    fn new(
        model: &Model,
        outcome: &'t Outcome,
        census: &'t Census,
        detail: &'t Detail,
    ) -> Result<Observer<'t>, ReplayError> {
        let series = || Series::new(detail.buckets);
        let (granule, events) = (u64::from(model.rules.granule), census.events);
        let size_and_age = [History::CLASSES; 2].map(Classes::from);
        let classes: Vec<Classes> = size_and_age.into_iter().chain(detail.sites.classes()).collect();
        Ok(Observer {
            simulation: Simulation::new(model)?,
            outcome,
            census,
            sites: &detail.sites,
            site_of: HashMap::default(),
            growth: model.rules.growth,
            heap: series(),
            live: series(),
            holes: series(),
            map: HeapMap::new(outcome.peak_heap, granule, events, detail.rows, detail.columns, &classes),
            peak: None,
        })
    }

    /// Records one event.
    #[inline]
    fn record(&mut self, exchange: Exchange, site: Option<SiteId>) {
        if let Some(extent) = exchange.removed {
            let site = self.take_site(extent.block);
            self.map.vacate(extent.start as u64..extent.end as u64, &self.classes(extent, site));
        }
        if let Some(extent) = exchange.added {
            let site = self.store_site(extent.block, site);
            self.map.occupy(extent.start as u64..extent.end as u64, &self.classes(extent, site));
        }
        self.map.end_event();
        let counters = self.simulation.engine().counters().unwrap_or_default();
        self.heap.push(counters.heap_size);
        self.live.push(counters.live);
        self.holes.push(counters.holes);
        if self.peak.is_none() && is_peak(&self.simulation, self.growth, self.outcome) {
            self.peak = Some(Moment::of(&self.simulation));
        }
    }

    #[inline]
    fn classes(&self, extent: Extent, site: u8) -> [u8; 3] {
        [History::size_class(extent.size as u64), History::age_class(extent.block, self.census.blocks), site]
    }

    /// Stores the site class of a block; returns it.
    #[inline]
    fn store_site(&mut self, block: u64, site: Option<SiteId>) -> u8 {
        let class = self.sites.of(site);
        if self.sites.classes().is_some() && class != self.sites.unknown() {
            self.site_of.insert(block, class);
        }
        class
    }

    /// Removes the site class of a block; returns it.
    #[inline]
    fn take_site(&mut self, block: u64) -> u8 {
        self.site_of.remove(&block).unwrap_or(self.sites.unknown())
    }

    fn finish(self) -> History {
        let end = Moment::of(&self.simulation);
        let Observer { heap, live, holes, map, peak, .. } = self;
        History { heap, live, holes, map, peak, end }
    }
}
