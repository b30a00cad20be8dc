//! The history of a heap during a whole trace.

use std::collections::HashMap;
use std::io::Read;

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
use crate::simulation::Simulation;

/// How much of a history is kept.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The most buckets of a series.
    pub buckets: usize,
    /// The most rows of the finest map.
    pub rows: usize,
    /// The most columns of the finest map.
    pub columns: usize,
    /// The call sites that the map tells apart, if the trace is read [with them](Reader::with_sites).
    pub sites: SiteClasses,
}

impl Default for Detail {
    /// 1024 buckets, as in a [`Census`]; 800 by 1600 cells, no call sites.
    fn default() -> Self {
        Detail { buckets: Census::BUCKETS, rows: 800, columns: 1600, sites: SiteClasses::default() }
    }
}

/// What a heap was like under one policy. Sizes in bytes; a value of a series is the one after an event, so what
/// comes and goes within one (a block that is moved lives twice) is not in it.
#[derive(Clone, Debug)]
pub struct History {
    /// From the heap's start to its end.
    pub heap: Series,
    /// In used blocks.
    pub live: Series,
    /// The number of holes, the free tail included.
    pub holes: Series,
    /// Addresses against time. Its layers: by size ([`History::size_class`]), by age ([`History::age_class`]),
    /// and by call site if some are told apart ([`SiteClasses`]).
    pub map: HeapMap,
    /// When the heap was longest: just after it grew for the last time, or, in a region that does not grow, after
    /// most bytes were asked for, for the first time. Holes of this moment are what growing could have been spared by.
    pub peak: Option<Moment>,
    /// After the last event.
    pub end: Moment,
}

impl History {
    /// How many classes of size and of age there are.
    pub const CLASSES: usize = 8;

    /// The class of a block by the bytes asked for: up to 16, 64, 256 bytes, 1, 4, 16, 64 KiB, and more.
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

    /// The class of a block by age: which eighth of all `blocks` of the trace it is in, the oldest first.
    ///
    /// ```
    /// use heapwright_replay::history::History;
    /// assert_eq!([0, 124, 125, 999].map(|block| History::age_class(block, 1000)), [0, 0, 1, 7]);
    /// ```
    #[must_use]
    pub fn age_class(block: u64, blocks: u64) -> u8 {
        let class = u128::from(block) * Self::CLASSES as u128 / u128::from(blocks.max(1));
        class.min(Self::CLASSES as u128 - 1) as u8
    }

    /// Replays all of a trace under `model` and looks at every step. `outcome` is what [`replay`](crate::replay())
    /// made of the same, and `census` what the trace is: they tell how far the map goes, and when the peak is.
    ///
    /// Memory: that of a [`Simulation`], 24 bytes per live block at two moments, 48 per live block whose site is known if sites are told apart,
    /// 15 bytes per cell of the finest map. Time: some three
    /// times that of a replay.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn of(
        trace: &mut Reader<impl Read>,
        model: &Model,
        outcome: &Outcome,
        census: &Census,
        detail: &Detail,
    ) -> Result<History, ReplayError> {
        let mut observer = Observer::new(model, outcome, census, detail)?;
        while let Some(event) = trace.next_event()? {
            let exchange = extents::apply(&mut observer.simulation, &event, model.rules.header as usize);
            observer.note(exchange, trace.site());
        }
        Ok(observer.finish())
    }
}

/// A history under way.
struct Observer<'t> {
    simulation: Simulation,
    outcome: &'t Outcome,
    census: &'t Census,
    sites: &'t SiteClasses,
    /// The live blocks whose sites are known, by number, and their classes.
    site_of: HashMap<u64, u8>,
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
        let told = [History::CLASSES; 2].map(Classes::from);
        let classes: Vec<Classes> = told.into_iter().chain(detail.sites.classes()).collect();
        Ok(Observer {
            simulation: Simulation::new(model)?,
            outcome,
            census,
            sites: &detail.sites,
            site_of: HashMap::new(),
            growth: model.rules.growth,
            heap: series(),
            live: series(),
            holes: series(),
            map: HeapMap::new(outcome.peak_heap, granule, events, detail.rows, detail.columns, &classes),
            peak: None,
        })
    }

    /// Takes note of one event.
    #[inline]
    fn note(&mut self, exchange: Exchange, site: Option<SiteId>) {
        if let Some(extent) = exchange.gone {
            let site = self.forget_site(extent.block);
            self.map.vacate(extent.start as u64..extent.end as u64, &self.classes(extent, site));
        }
        if let Some(extent) = exchange.came {
            let site = self.remember_site(extent.block, site);
            self.map.occupy(extent.start as u64..extent.end as u64, &self.classes(extent, site));
        }
        self.map.end_event();
        let counters = self.simulation.engine().counters().unwrap_or_default();
        self.heap.push(counters.heap_size);
        self.live.push(counters.live);
        self.holes.push(counters.holes);
        if self.peak.is_none() && self.is_peak(counters.heap_size) {
            self.peak = Some(Moment::of(&self.simulation));
        }
    }

    #[inline]
    fn is_peak(&self, heap: u64) -> bool {
        match self.growth {
            Growth::Fixed => self.simulation.requested() == self.outcome.peak_requested,
            _ => heap == self.outcome.peak_heap,
        }
    }

    #[inline]
    fn classes(&self, extent: Extent, site: u8) -> [u8; 3] {
        [History::size_class(extent.size as u64), History::age_class(extent.block, self.census.blocks), site]
    }

    /// A block of this site appears; returns its class.
    #[inline]
    fn remember_site(&mut self, block: u64, site: Option<SiteId>) -> u8 {
        let class = self.sites.of(site);
        if self.sites.classes().is_some() && class != self.sites.unknown() {
            self.site_of.insert(block, class);
        }
        class
    }

    /// A block goes; returns the class of its site.
    #[inline]
    fn forget_site(&mut self, block: u64) -> u8 {
        self.site_of.remove(&block).unwrap_or(self.sites.unknown())
    }

    fn finish(self) -> History {
        let end = Moment::of(&self.simulation);
        let Observer { heap, live, holes, map, peak, .. } = self;
        History { heap, live, holes, map, peak, end }
    }
}
