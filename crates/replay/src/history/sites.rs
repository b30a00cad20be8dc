//! Memory use by call site.

use heapwright_trace::SiteId;

use super::grid::Classes;

/// The memory use of one call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteUse {
    /// The call site; `None` for blocks without one.
    pub site: Option<SiteId>,
    /// The number of blocks.
    pub blocks: u64,
    /// The requested bytes of all blocks.
    pub bytes: u64,
    /// The live bytes after each event, summed over all events. Divided by the number of events it is the mean.
    pub byte_events: u128,
}

/// Use by call site while a trace is read. Entry 0 is for blocks without a site, entry `1 + n` for site `n`.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteUses(Vec<SiteUse>);

impl SiteUses {
    /// Adds a block; returns the entry that counts it.
    #[inline]
    pub(super) fn add_block(&mut self, site: Option<SiteId>, size: u64) -> u32 {
        let at = site.map_or(0, |site| site.index().saturating_add(1));
        if self.0.len() <= at as usize {
            self.0.resize(at as usize + 1, SiteUse::default());
        }
        let entry = &mut self.0[at as usize];
        entry.site = site;
        entry.blocks += 1;
        entry.bytes = entry.bytes.saturating_add(size);
        at
    }

    /// Adds the lifetime of a block of this entry, in events.
    #[inline]
    pub(super) fn add_lifetime(&mut self, at: u32, size: u64, events: u64) {
        self.0[at as usize].byte_events += u128::from(size) * u128::from(events);
    }

    /// Returns the entries with blocks, by descending byte-events; none if no block has a site.
    pub(super) fn finish(self) -> Vec<SiteUse> {
        let mut uses = self.0;
        uses.retain(|entry| entry.blocks > 0);
        if uses.iter().all(|entry| entry.site.is_none()) {
            return Vec::new();
        }
        uses.sort_by_key(|entry| (std::cmp::Reverse(entry.byte_events), entry.site));
        uses
    }
}

/// The class of a site in no group, while groups are added.
const OTHER: u8 = u8::MAX;

/// The classes by which a map distinguishes call sites: one per group of sites, one for all other sites, and the last
/// for blocks without a site. The last one is the class of a cell only if the cell has nothing else, because a sampled
/// trace has sites for few blocks.
#[derive(Clone, Debug, Default)]
pub struct SiteClasses {
    /// The class of each site, by its index; [`OTHER`] of those in no group.
    classes: Vec<u8>,
    groups: u8,
}

impl SiteClasses {
    /// Returns a class per group. Groups after the 254th are left out.
    #[must_use]
    pub fn new<G: IntoIterator<Item = SiteId>>(groups: impl IntoIterator<Item = G>) -> SiteClasses {
        let mut classes = SiteClasses::default();
        for group in groups.into_iter().take(usize::from(u8::MAX) - 1) {
            group.into_iter().for_each(|site| classes.set(site));
            classes.groups += 1;
        }
        classes
    }

    /// Puts a site into the latest group.
    fn set(&mut self, site: SiteId) {
        let at = site.index() as usize;
        if self.classes.len() <= at {
            self.classes.resize(at + 1, OTHER);
        }
        self.classes[at] = self.groups;
    }

    /// Returns the class of a site.
    #[must_use]
    pub fn of(&self, site: Option<SiteId>) -> u8 {
        let Some(site) = site else { return self.unknown() };
        self.classes.get(site.index() as usize).map_or(self.groups, |&class| class.min(self.groups))
    }

    /// Returns the class of blocks without a site.
    #[must_use]
    pub fn unknown(&self) -> u8 {
        self.groups + 1
    }

    /// Returns the classes; `None` without groups.
    #[must_use]
    pub fn classes(&self) -> Option<Classes> {
        let ranked = usize::from(self.groups) + 1;
        (self.groups > 0).then_some(Classes { count: ranked + 1, ranked })
    }
}
