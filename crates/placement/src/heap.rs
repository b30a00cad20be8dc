//! The parts that all engines have in common: the state, the counters, the block map and an index of free blocks.
//!
//! The fits and the buddies differ in their index and in its use. Creating, attaching to, recovering and reading such a
//! heap is the same for both and is implemented here.

use core::ptr::NonNull;

use crate::cells::Cells;
use crate::counters::{Census, Counters, verify};
use crate::error::{FreeError, RulesError, Violation};
use crate::lookup;
use crate::map::{self, BlockMap};
use crate::parts::{Part, Parts, Reach};
use crate::rules::{Growth, PolicyKind, Rules, Statistics};
use crate::state::State;
use crate::store::{self, Sections, begin_recovery, state_at};

/// An index of free blocks as a section of the metadata block.
pub trait Section<'m>: Sized {
    /// Returns the number of cells that the index of a region of `granules` needs.
    fn cells_for(granules: usize) -> usize;

    /// Returns the limit of short blocks, if a part of the index is used for short holes only.
    #[inline(always)]
    fn short_limit(&mut self) -> Option<&mut ShortLimit> {
        None
    }

    /// Adds the parts of such an index, as far as a heap with this reach, in granules, uses them.
    fn add_parts(parts: &mut Parts<'_>, granules: usize, reach: Reach);

    /// Creates the index in `cells`: all zeros for an empty one, or the contents of an earlier index of the same
    /// region.
    fn new(cells: Cells<'m, u64>, granules: usize) -> Self;
}

/// How far there may be blocks and holes of up to 64 granules.
#[derive(Clone, Copy)]
pub struct ShortLimit {
    /// None may start at or above this granule.
    pub(crate) granule: usize,
    /// What [`ShortLimit::granule`] would have to be for the last request that was refused because of it; otherwise 0.
    pub(crate) missing: usize,
}

impl ShortLimit {
    pub(crate) const NONE: ShortLimit = ShortLimit { granule: usize::MAX, missing: 0 };
}

/// A heap without its policy.
pub(crate) struct Heap<'m, I: ?Sized> {
    pub(crate) state: &'m mut State,
    pub(crate) counters: Option<&'m mut Counters>,
    pub(crate) map: BlockMap<'m>,
    /// The granule up to which the heap may grow at present, at most the capacity.
    pub(crate) limit: usize,
    /// Last, so that a heap with any index can be seen as one with [`AnyIndex`](crate::index::AnyIndex).
    pub(crate) index: I,
}

impl<'m, I: Section<'m>> Heap<'m, I> {
    fn sections(granules: usize, statistics: Statistics) -> Sections {
        Sections::new(statistics, map::cells_for(granules), I::cells_for(granules))
    }

    /// Returns the number of cells that the metadata of a region of `capacity` bytes needs.
    pub(crate) fn metadata_cells(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        let state = State::new(policy, capacity, rules)?;
        Ok(Self::sections(state.capacity, rules.statistics).total())
    }

    /// Calls `visit` with each part of that metadata, as far as a heap with this reach uses it.
    #[cold]
    #[inline(never)]
    pub(crate) fn each_part(
        policy: PolicyKind,
        capacity: usize,
        rules: &Rules,
        reach: Reach,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), RulesError> {
        let state = State::new(policy, capacity, rules)?;
        let granules = state.capacity;
        let [end, short] = [reach.end, reach.short].map(|bytes| bytes.div_ceil(1 << state.shift()).min(granules));
        let mut parts = Parts::new(visit);
        parts.add_whole(Self::sections(granules, rules.statistics).before_map());
        map::add_parts(&mut parts, granules, end);
        I::add_parts(&mut parts, granules, Reach { end, short });
        Ok(())
    }

    /// Zeroes as much of `metadata` as a region of `capacity` bytes needs and returns its address.
    pub(crate) fn zeroed(
        policy: PolicyKind,
        metadata: &'m mut [u64],
        capacity: usize,
        rules: &Rules,
    ) -> Result<NonNull<u64>, RulesError> {
        let cells = Self::metadata_cells(policy, capacity, rules)?;
        metadata.get_mut(..cells).ok_or(RulesError::MetadataTooShort)?.fill(0);
        Ok(NonNull::from(metadata).cast())
    }

    /// Creates the heap over the metadata at `metadata`, with `state` as its state.
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of as many cells as a region of `state.capacity` granules needs, for
    /// `'m`, and is used through nothing else. Its bytes may be anything.
    pub(crate) unsafe fn over(metadata: NonNull<u64>, state: State) -> Self {
        let granules = state.capacity;
        let sections = Self::sections(granules, state.statistics());
        // SAFETY: `metadata` is valid for as many cells as these sections need, for `'m`, and used through nothing
        // else, as this function requires. The block begins with a valid state once that is written, before any
        // reference to it is made.
        let store::Parts { state, counters, map, index } = unsafe {
            metadata.cast::<State>().write(state);
            store::Parts::of(metadata, sections)
        };
        let (map, index) = (BlockMap::new(map, granules), I::new(index, granules));
        Heap { state, counters, map, limit: granules, index }
    }

    /// Lets the heap reach as far as this, at most to its capacity, and no further.
    pub(crate) fn set_limit(&mut self, reach: Reach) {
        let granules = |bytes: usize| (bytes >> self.state.shift()).min(self.state.capacity);
        self.limit = granules(reach.end);
        let short = granules(reach.short);
        if let Some(limit) = self.index.short_limit() {
            limit.granule = short;
        }
    }

    /// Returns [`Reach::short`] as the last request would have needed it that was refused for that; otherwise 0.
    pub(crate) fn missing(&mut self) -> usize {
        let missing = self.index.short_limit().map_or(0, |limit| core::mem::take(&mut limit.missing));
        missing << self.state.shift()
    }

    /// Attaches to the heap of `policy` whose metadata lies at `metadata`.
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through nothing else.
    pub(crate) unsafe fn attach(policy: PolicyKind, metadata: NonNull<u64>, cells: usize) -> Result<Self, RulesError> {
        // SAFETY: `metadata` is valid for reads of `cells` cells, as this function requires.
        let state = unsafe { state_at(metadata, cells) }?;
        if !state.is_plausible(policy) {
            return Err(RulesError::NotAHeap);
        }
        if cells < Self::sections(state.capacity, state.statistics()).total() {
            return Err(RulesError::MetadataTooShort);
        }
        // SAFETY: the block is valid and used through nothing else for `'m`, as this function requires, and was just
        // found to be as long as this state needs.
        Ok(unsafe { Self::over(metadata, state) })
    }

    /// Returns the heap of `policy` at `metadata` with an empty index, for recovery; its region is now `capacity` bytes
    /// long, and it follows `rules`.
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through nothing else.
    pub(crate) unsafe fn to_recover(
        policy: PolicyKind,
        metadata: NonNull<u64>,
        cells: usize,
        capacity: usize,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        // SAFETY: the block is valid and used through nothing else for `'m`, as this function requires.
        // `begin_recovery` refuses one that is shorter than all parts of the state that it returns, and the parts are
        // integers, for which any bytes are valid.
        unsafe {
            let state = begin_recovery(metadata, cells, policy, capacity, rules, Self::sections)?;
            Ok(Self::over(metadata, state))
        }
    }
}

impl<I: ?Sized> Heap<'_, I> {
    /// The start of the used block whose payload is at `offset`.
    #[inline(always)]
    pub(crate) fn used_block(&self, offset: usize) -> Option<usize> {
        lookup::used_block(self.state, &self.map, offset)
    }

    /// Returns why no used block's payload is at `offset`.
    pub(crate) fn diagnose(&self, offset: usize) -> FreeError {
        lookup::diagnose(self.state, &self.map, offset)
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.state.end << self.state.shift()
    }

    pub(crate) fn top(&self) -> usize {
        self.state.top << self.state.shift()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.state.capacity << self.state.shift()
    }

    pub(crate) fn counters(&self) -> Option<Counters> {
        self.counters.as_deref().copied()
    }

    #[inline(always)]
    pub(crate) fn counters_mut(&mut self) -> Option<&mut Counters> {
        self.counters.as_deref_mut()
    }

    /// Moves the heap's end to granule `end`.
    pub(crate) fn set_end(&mut self, end: usize) {
        self.state.end = end;
        let size = (end << self.state.shift()) as u64;
        if let Some(counters) = &mut self.counters {
            counters.heap_size = size;
            counters.peak_heap_size = counters.peak_heap_size.max(size);
        }
    }

    /// Moves the heap's end to `heap_size` bytes, if that leaves a part of the wilderness; returns whether it did.
    pub(crate) fn move_end(&mut self, heap_size: usize) -> bool {
        let end = heap_size >> self.state.shift();
        let has_wilderness = self.state.top < self.state.end && self.state.growth() != Growth::Fixed;
        let moves = has_wilderness && self.state.top < end && end <= self.limit && end != self.state.end;
        if moves {
            self.set_end(end);
        }
        moves
    }

    /// Returns a census of `blocks` blocks, `holes` of them free; `live` granules are in used blocks.
    pub(crate) fn census(&self, at_creation: u64, blocks: u64, holes: u64, live: usize) -> Census {
        let shift = self.state.shift();
        let (live, heap_size) = ((live << shift) as u64, (self.state.end << shift) as u64);
        Census { at_creation, blocks, holes, live, heap_size }
    }

    /// Checks that the counters, if they are kept, agree with a walk of the heap.
    pub(crate) fn check_counters(&self, census: &Census) -> Result<(), Violation> {
        self.counters().map_or(Ok(()), |counters| verify(&counters, census))
    }
}
