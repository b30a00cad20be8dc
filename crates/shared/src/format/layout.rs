//! Where the sections of a segment lie: a function of what was decided when it was made, and of nothing else.
//!
//! ```text
//! header | process table | root table | counts of slabs | owners (a byte per granule) | slabs | engine metadata | data
//! ```
//!
//! Counts of slabs (a line per process) and slabs (the metadata of each) are only there in a heap with slabs.
//!
//! A segment that never grows is packed tightly. In one that may grow, owners, slabs, metadata and data are as long as
//! they can ever become and begin at pages, whatever the system's page size; only prefixes of them are backed by
//! memory.

use heapwright_os::page_size;
use heapwright_placement::{AnyEngine, Growth, PolicyKind, Rules, RulesError, Statistics};

use crate::format::header::Header;
use crate::format::process_slot::ProcessSlot;
use crate::format::root_slot::RootSlot;
use crate::format::slab::{SLAB, Shape, SlabCounts};
use crate::terms::error::Error;
use crate::terms::limits::{LARGEST_GRANULE, MAX_PROCESSES, MAX_ROOTS};
use crate::terms::settings::{Settings, SmallBlocks};

/// Sections of a segment that may grow begin at multiples of this, the largest page size there is.
const SECTION_ALIGN: usize = 1 << 16;

/// Blocks of data begin at a multiple of this at least.
const DATA_ALIGN: usize = 64;

/// The largest alignment that is granted, since processes map a segment at any page.
const MAX_ALIGN: usize = 4096;

/// The most bytes of data: lengths and sums of lengths stay far from overflowing.
const MAX_DATA: usize = 1 << 46;

/// What was decided when the segment was made, as far as it decides where things lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) policy: PolicyKind,
    pub(crate) granule: u32,
    pub(crate) processes: usize,
    pub(crate) roots: usize,
    /// Bytes of data at first.
    pub(crate) size: usize,
    /// Bytes of data at most; equal to `size` when the segment never grows.
    pub(crate) max_size: usize,
    pub(crate) small: SmallBlocks,
}

impl Plan {
    /// Returns the plan of a segment with these settings.
    pub(crate) fn of(settings: &Settings) -> Result<Plan, Error> {
        settings.validate()?;
        let granule = settings.granule as usize;
        let unit = if settings.max_size.is_some() { page_size().max(granule) } else { granule };
        let most = settings.max_size.unwrap_or(settings.size);
        if most > MAX_DATA {
            return Err(Error::BadSettings { why: "a segment holds at most 64 TiB of blocks" });
        }
        Ok(Plan {
            policy: settings.policy,
            granule: settings.granule,
            processes: settings.processes,
            roots: settings.roots,
            size: settings.size.next_multiple_of(unit),
            max_size: most.next_multiple_of(unit),
            small: settings.small,
        })
    }

    fn grows(&self) -> bool {
        self.max_size > self.size
    }

    fn is_plausible(&self) -> bool {
        self.granule.is_power_of_two()
            && (16..=4096).contains(&self.granule)
            && (1..=MAX_PROCESSES).contains(&self.processes)
            && self.roots <= MAX_ROOTS
            && self.size <= self.max_size
            && self.max_size <= MAX_DATA
            && self.size.is_multiple_of(self.granule as usize)
            && self.max_size.is_multiple_of(self.granule as usize)
            && (self.small == SmallBlocks::Placed || self.granule <= LARGEST_GRANULE)
    }
}

/// Where the sections lie, in bytes from the segment's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) plan: Plan,
    pub(crate) slots: usize,
    pub(crate) roots: usize,
    /// A line per process; empty without slabs.
    pub(crate) slab_counts: usize,
    pub(crate) owners: usize,
    pub(crate) slabs: usize,
    pub(crate) metadata: usize,
    pub(crate) data: usize,
    /// log2 of the granule.
    pub(crate) shift: u32,
    /// What slabs look like; `None` without them.
    pub(crate) shape: Option<Shape>,
}

impl Layout {
    /// Returns the layout that follows from `plan`.
    pub(crate) fn of(plan: &Plan) -> Result<Layout, Error> {
        if !plan.is_plausible() {
            return Err(Error::BadSettings { why: "they are out of range" });
        }
        let unit = if plan.grows() { SECTION_ALIGN } else { 8 };
        let shift = plan.granule.trailing_zeros();
        let slots = size_of::<Header>();
        let roots = slots + plan.processes * size_of::<ProcessSlot>();
        let shape = (plan.small == SmallBlocks::Slabs).then(|| Shape::of(shift));
        let tables = roots + plan.roots * size_of::<RootSlot>();
        let slab_counts = if shape.is_some() { tables.next_multiple_of(size_of::<SlabCounts>()) } else { tables };
        let lines = if shape.is_some() { plan.processes } else { 0 };
        let owners = (slab_counts + lines * size_of::<SlabCounts>()).next_multiple_of(unit);
        let slabs = (owners + (plan.max_size >> shift)).next_multiple_of(unit.max(64));
        let slabs_end = slabs + shape.map_or(0, |shape| plan.max_size / SLAB * shape.stride());
        let metadata = slabs_end.next_multiple_of(unit);
        let cells = cells(plan, plan.max_size, 0)?;
        let align = unit.max(DATA_ALIGN).max(plan.granule as usize).max(if shape.is_some() { SLAB } else { 1 });
        let data = (metadata + cells * 8).next_multiple_of(align);
        Ok(Layout { plan: *plan, slots, roots, slab_counts, owners, slabs, metadata, data, shift, shape })
    }

    /// Returns how long the whole segment is.
    pub(crate) fn length(&self) -> usize {
        self.data + self.plan.max_size
    }

    /// Returns the rules that the engine follows.
    pub(crate) fn rules(&self) -> Rules {
        rules(&self.plan, self.data)
    }

    /// Returns the number of cells of the engine's metadata while its capacity is `capacity` bytes.
    pub(crate) fn cells(&self, capacity: usize) -> Result<usize, Error> {
        cells(&self.plan, capacity, self.data)
    }

    /// Returns the largest alignment that blocks can have.
    pub(crate) fn max_align(&self) -> usize {
        match self.plan.policy {
            // Buddies lie at multiples of their length from the data's start.
            PolicyKind::Buddy => MAX_ALIGN.min(1 << self.data.trailing_zeros()),
            _ => MAX_ALIGN,
        }
    }

    /// Returns the ranges of the segment, data aside, that may be other than zero while the engine's capacity is so
    /// many bytes.
    pub(crate) fn sealed(&self, capacity: usize) -> Result<[(usize, usize); 3], Error> {
        if !self.plan.grows() {
            return Ok([(0, self.data), (self.data, self.data), (self.data, self.data)]);
        }
        let [(_, owners_end), (_, slabs_end), (_, metadata_end), _] = self.backed(capacity, capacity)?;
        Ok([
            (0, owners_end.next_multiple_of(SECTION_ALIGN)),
            (self.slabs, slabs_end.next_multiple_of(SECTION_ALIGN)),
            (self.metadata, metadata_end.next_multiple_of(SECTION_ALIGN)),
        ])
    }

    /// Returns the ranges of the segment that must be backed by memory while the heap has `size` bytes of an engine's
    /// `capacity`.
    pub(crate) fn backed(&self, size: usize, capacity: usize) -> Result<[(usize, usize); 4], Error> {
        Ok([
            (0, self.owners + (size >> self.shift)),
            (self.slabs, self.slabs + self.shape.map_or(0, |shape| size / SLAB * shape.stride())),
            (self.metadata, self.metadata + self.cells(capacity)? * 8),
            (self.data, self.data + size),
        ])
    }
}

fn rules(plan: &Plan, phase: usize) -> Rules {
    Rules {
        granule: plan.granule,
        header: 0,
        min_remainder: 1,
        growth: Growth::Fixed,
        phase,
        statistics: Statistics::Kept,
    }
}

fn cells(plan: &Plan, capacity: usize, phase: usize) -> Result<usize, Error> {
    AnyEngine::metadata_cells(plan.policy, capacity, &rules(plan, phase)).map_err(|refused| match refused {
        RulesError::Capacity => {
            Error::BadSettings { why: "a segment has at most 2^36 granules, under best and good fit 2^42" }
        }
        _ => Error::BadSettings { why: "the engine refuses these rules" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(settings: Settings) -> Layout {
        Layout::of(&Plan::of(&settings).unwrap()).unwrap()
    }

    #[test]
    fn sections_follow_each_other_and_hold_what_they_must() {
        for policy in PolicyKind::ALL {
            for granule in [16, 64, 1024, 4096] {
                for max_size in [None, Some(1 << 22), Some(1 << 36)] {
                    let layout = layout(Settings { policy, granule, max_size, ..Settings::default() });
                    let Plan { processes, roots, max_size, .. } = layout.plan;
                    assert_eq!(layout.slots, 320);
                    assert_eq!(layout.roots - layout.slots, processes * 16);
                    assert!(layout.owners - layout.roots >= roots * 48);
                    assert!(layout.metadata - layout.owners >= max_size / granule as usize);
                    assert!(layout.data - layout.metadata >= layout.cells(max_size).unwrap() * 8);
                    assert!(layout.data.is_multiple_of(64) && layout.data.is_multiple_of(granule as usize));
                    assert!(layout.data.is_multiple_of(layout.max_align()) || policy != PolicyKind::Buddy);
                }
            }
        }
    }

    #[test]
    fn what_is_backed_lies_apart_and_only_grows() {
        let layout = layout(Settings { max_size: Some(1 << 30), small: SmallBlocks::Slabs, ..Settings::default() });
        let sizes = [1 << 20, 1 << 21, 1 << 25, 1 << 30];
        for pair in sizes.windows(2) {
            let (less, more) = (layout.backed(pair[0], pair[0]).unwrap(), layout.backed(pair[1], pair[1]).unwrap());
            assert!(less.iter().zip(&more).all(|(less, more)| less.0 == more.0 && less.1 < more.1));
            assert!(more.windows(2).all(|pair| pair[0].1 <= pair[1].0) && more[3].1 <= layout.length());
        }
    }
}
