//! The division of a region.
//!
//! ```text
//!   region:  | (gap) | handle, if carved | metadata | (gap) | blocks ... | (rest) |
//! ```

use core::mem::MaybeUninit;

use heapwright_placement::{MAX_GRANULES, MIN_GRANULES, PolicyKind, Rules, RulesError};

use crate::policy::Policy;

/// Where the parts lie, in bytes from the region's start.
pub(super) struct Plan {
    pub(super) metadata: usize,
    /// The metadata's length, in cells of 8 bytes.
    pub(super) cells: usize,
    pub(super) blocks: usize,
    /// The blocks' length, whole granules.
    pub(super) capacity: usize,
}

/// The inputs of a plan.
struct Site<P: Policy> {
    choice: P::Choice,
    rules: Rules,
    address: usize,
    len: usize,
    /// The base of the blocks is aligned to this.
    align: usize,
}

/// The largest alignment of the base that buddies get by default.
const PAGE: usize = 4096;

impl<P: Policy> Site<P> {
    fn of(choice: P::Choice, region: &[MaybeUninit<u8>], rules: &Rules) -> Result<Self, RulesError> {
        let rules = Rules { phase: 0, ..*rules };
        rules.validate()?;
        Ok(Site::over(choice, region.as_ptr().addr(), region.len(), &rules))
    }

    /// The site of a region at an address. The rules are valid.
    fn over(choice: P::Choice, address: usize, len: usize, rules: &Rules) -> Self {
        let granule = rules.granule as usize;
        // A buddy block is aligned no better than the base. The alignment may cost a sixteenth of the region at most.
        let align = match P::kind(choice) {
            PolicyKind::Buddy => granule.max((1 << (len / 16).max(1).ilog2()).min(PAGE)),
            _ => granule,
        };
        Site { choice, rules: *rules, address, len, align }
    }

    /// Returns the lowest offset at or above `offset` whose address is a multiple of `align`.
    fn aligned(&self, offset: usize, align: usize) -> usize {
        offset + ((self.address + offset).wrapping_neg() & (align - 1))
    }

    /// Returns the plan for exactly `granules` granules behind metadata at `metadata`; `None` when the region is too
    /// short.
    fn plan_for(&self, granules: usize, metadata: usize) -> Option<Plan> {
        let capacity = granules * self.rules.granule as usize;
        let cells = P::metadata_cells(self.choice, capacity, &self.rules).ok()?;
        let end = cells.checked_mul(size_of::<u64>())?.checked_add(metadata).filter(|&end| end <= self.len)?;
        let blocks = self.aligned(end, self.align);
        (blocks <= self.len && capacity <= self.len - blocks).then_some(Plan { metadata, cells, blocks, capacity })
    }
}

/// Returns the bytes of the shortest region at an address in which a heap of one granule lies, behind `front` bytes.
///
/// The rules are valid.
pub(super) fn least<P: Policy>(choice: P::Choice, address: usize, front: usize, rules: &Rules) -> usize {
    let fits = |len: &usize| {
        let site = Site::<P>::over(choice, address, *len, rules);
        site.plan_for(MIN_GRANULES, site.aligned(0, align_of::<u64>()) + front).is_some()
    };
    // The bounds: a granule without metadata, and with gaps before it of a page each. Every length is tried, because
    // the alignment of buddies depends on it.
    let cells = P::metadata_cells(choice, rules.granule as usize, rules).unwrap_or(0);
    let known = front + cells * size_of::<u64>() + rules.granule as usize;
    (known..known + 3 * PAGE).find(fits).unwrap_or(usize::MAX)
}

impl Plan {
    /// Returns the plan with the most granules whose metadata lies in the region, behind `front` bytes (a multiple of
    /// 8).
    pub(super) fn within<P: Policy>(
        choice: P::Choice,
        region: &[MaybeUninit<u8>],
        front: usize,
        rules: &Rules,
    ) -> Result<Plan, RulesError> {
        let site = Site::<P>::of(choice, region, rules)?;
        let metadata = site.aligned(0, align_of::<u64>()) + front;
        let mut best = None;
        let mut fitting = MIN_GRANULES - 1;
        let mut beyond = (site.len / rules.granule as usize).min(MAX_GRANULES) + 1;
        while fitting + 1 < beyond {
            let granules = fitting.midpoint(beyond);
            match site.plan_for(granules, metadata) {
                Some(plan) => (best, fitting) = (Some(plan), granules),
                None => beyond = granules,
            }
        }
        best.ok_or_else(|| RulesError::TooShort { least: least::<P>(choice, site.address, front, &site.rules) })
    }

    /// Returns the plan for a region whose metadata lies elsewhere.
    pub(super) fn beside<P: Policy>(
        choice: P::Choice,
        region: &[MaybeUninit<u8>],
        rules: &Rules,
    ) -> Result<Plan, RulesError> {
        let site = Site::<P>::of(choice, region, rules)?;
        let granule = rules.granule as usize;
        let blocks = site.aligned(0, site.align);
        let capacity = site.len.saturating_sub(blocks) / granule * granule;
        let cells = P::metadata_cells(choice, capacity, &site.rules)?;
        Ok(Plan { metadata: 0, cells, blocks, capacity })
    }
}
