//! From where blocks are asked for, and what is held for it.

use std::collections::HashMap;

use heapwright_trace::SiteId;

use super::grid::Classes;

/// What the blocks of one call site took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteUse {
    /// `None` for blocks of which the trace does not tell.
    pub site: Option<SiteId>,
    /// How many blocks there were, and the bytes asked for in all of them.
    pub blocks: u64,
    /// See [`SiteUse::blocks`].
    pub bytes: u64,
    /// The bytes that lived after each event, summed over all events: over their number, that is the mean.
    pub byte_events: u128,
}

/// The call sites of a trace while it is read. Blocks without a site are the first, each site stands behind at its number.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteUses(Vec<SiteUse>);

impl SiteUses {
    /// A block appears; returns where its use is counted.
    #[inline]
    pub(super) fn appear(&mut self, site: Option<SiteId>, size: u64) -> u32 {
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

    /// A block that has appeared there has lived for so many events.
    #[inline]
    pub(super) fn live(&mut self, at: u32, size: u64, events: u64) {
        self.0[at as usize].byte_events += u128::from(size) * u128::from(events);
    }

    /// Those that were used, the one with the most byte-events first; none if no block had a site.
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

/// Which call sites a map tells apart: those of one group have one class, all others the next, and blocks whose site is not known the
/// last, which is that of a cell only where nothing else is: of a trace that knows the site of one block in some, cells have the
/// classes of these.
#[derive(Clone, Debug, Default)]
pub struct SiteClasses {
    classes: HashMap<SiteId, u8>,
    groups: u8,
}

impl SiteClasses {
    /// A class for each of these groups, of which those behind the 254th are left out.
    #[must_use]
    pub fn new<G: IntoIterator<Item = SiteId>>(groups: impl IntoIterator<Item = G>) -> SiteClasses {
        let mut told = SiteClasses::default();
        for group in groups.into_iter().take(usize::from(u8::MAX) - 1) {
            told.classes.extend(group.into_iter().map(|site| (site, told.groups)));
            told.groups += 1;
        }
        told
    }

    /// The class of a site.
    #[must_use]
    pub fn of(&self, site: Option<SiteId>) -> u8 {
        site.map_or(self.unknown(), |site| self.classes.get(&site).copied().unwrap_or(self.groups))
    }

    /// The class of blocks whose site is not known.
    #[must_use]
    pub fn unknown(&self) -> u8 {
        self.groups + 1
    }

    /// The classes; `None` when no sites are told apart.
    #[must_use]
    pub fn classes(&self) -> Option<Classes> {
        let told = usize::from(self.groups) + 1;
        (self.groups > 0).then_some(Classes { count: told + 1, told })
    }
}
