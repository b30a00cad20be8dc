//! Binary buddies: blocks are powers of two long, lie at multiples of their length and are halved and joined in pairs.
//!
//! The block map says where blocks start, as for the fits. The index is one set per order of the places of its free
//! blocks. A region of any length is first cut into the fewest blocks of powers of two; a heap that grows does so by
//! such blocks, which join with what is free before them.

use core::ptr::NonNull;

use crate::counters::Counters;
use crate::engine::{Block, Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
use crate::lookup;
use crate::map::{self, BlockMap};
use crate::noted::{Change, Noted};
use crate::rules::{Growth, PolicyKind, Rules, Statistics};
use crate::state::State;
use crate::store::{Parts, Sections, state_at};

mod check;
mod free_sets;
mod recover;

use free_sets::FreeSets;

/// The binary buddy engine.
///
/// A request (and its header) is rounded up to a power of two granules; the lowest free block of the smallest
/// sufficient order is halved, keeping the low half, until it is as short as that. A freed block joins its buddy as
/// long as that is free. An alignment is met by taking a block at least as long; no minimum remainder applies.
///
/// Allocation and free take one step per order between the block found and the block needed.
///
/// ```
/// use heapwright_placement::{Buddy, Engine, Rules};
/// let rules = Rules::default();
/// let mut metadata = vec![0u64; Buddy::metadata_cells(1 << 16, &rules).unwrap()];
/// let mut heap = Buddy::create(&mut metadata, 1 << 16, &rules).unwrap();
/// let a = heap.allocate(100, 16).unwrap();
/// assert_eq!((a, heap.usable_size(a)), (0, Some(128)));
/// assert_eq!(heap.allocate(100, 16).unwrap(), 128);
/// heap.check().unwrap();
/// ```
pub struct Buddy<'m> {
    state: &'m mut State,
    counters: Option<&'m mut Counters>,
    map: BlockMap<'m>,
    free: FreeSets<'m>,
}

impl<'m> Buddy<'m> {
    fn sections(granules: usize, statistics: Statistics) -> Sections {
        Sections::new(statistics, map::cells_for(granules), FreeSets::cells_for(granules))
    }

    /// How many cells of 8 bytes the metadata of a region of `capacity` bytes takes.
    ///
    /// # Errors
    /// The rule that makes no sense, or [`RulesError::Capacity`].
    pub fn metadata_cells(capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        let state = State::new(PolicyKind::Buddy, capacity, rules)?;
        Ok(Self::sections(state.capacity, rules.statistics).total())
    }

    /// Creates a heap over a region of `capacity` bytes (rounded down to granules) with its metadata in `metadata`.
    ///
    /// Time: proportional to the metadata, which is zeroed.
    ///
    /// # Errors
    /// As [`Buddy::metadata_cells`], or [`RulesError::MetadataTooShort`].
    pub fn create(metadata: &'m mut [u64], capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let cells = Self::metadata_cells(capacity, rules)?;
        metadata.get_mut(..cells).ok_or(RulesError::MetadataTooShort)?.fill(0);
        // SAFETY: the block is exclusively ours for 'm, long enough, and was just zeroed.
        unsafe { Self::create_zeroed(NonNull::from(metadata).cast(), capacity, rules) }
    }

    /// As [`Buddy::create`] over metadata that is known to be zero, of which only what is used is touched.
    ///
    /// # Errors
    /// As [`Buddy::metadata_cells`].
    ///
    /// # Safety
    /// As [`Fit::create_zeroed`](crate::Fit::create_zeroed).
    pub unsafe fn create_zeroed(metadata: NonNull<u64>, capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let mut state = State::new(PolicyKind::Buddy, capacity, rules)?;
        let initial = state.end;
        (state.end, state.top) = (0, 0);
        // SAFETY: the caller's promise.
        let mut buddy = unsafe { Self::over(metadata, state) };
        buddy.map.mark_block(0);
        buddy.append(initial);
        Ok(buddy)
    }

    /// # Safety
    /// As [`Buddy::create_zeroed`], for a block whose state may be replaced by `state` without harm.
    unsafe fn over(metadata: NonNull<u64>, state: State) -> Self {
        let granules = state.capacity;
        let sections = Self::sections(granules, state.statistics());
        // SAFETY: the caller's promise; the state is written before it is referred to.
        let Parts { state, counters, map, index } = unsafe {
            metadata.cast::<State>().write(state);
            Parts::of(metadata, sections)
        };
        Buddy { state, counters, map: BlockMap::new(map, granules), free: FreeSets::new(index, granules) }
    }

    /// Takes up the heap whose metadata lies at `metadata`, wherever it was created.
    ///
    /// # Errors
    /// As [`Fit::attach`](crate::Fit::attach).
    ///
    /// # Safety
    /// As [`Fit::attach`](crate::Fit::attach).
    pub unsafe fn attach(metadata: NonNull<u64>, cells: usize) -> Result<Self, RulesError> {
        // SAFETY: the caller's promise.
        let state = unsafe { state_at(metadata, cells, PolicyKind::Buddy) }?;
        if !state.is_plausible(PolicyKind::Buddy) {
            return Err(RulesError::NotAHeap);
        }
        if cells < Self::sections(state.capacity, state.statistics()).total() {
            return Err(RulesError::MetadataTooShort);
        }
        // SAFETY: the caller's promise, and the block is as long as this state needs.
        Ok(unsafe { Self::over(metadata, state) })
    }

    /// The order of the block that a request takes, or `None` when no block can satisfy it.
    fn order_for(&self, granules: usize, align: usize) -> Option<u32> {
        let state = &*self.state;
        let len = (granules + usize::from(state.header)).checked_next_power_of_two()?;
        let align = (align >> state.shift()).max(1);
        let skew = state.phase as usize + usize::from(state.header);
        (skew & (align - 1) == 0).then(|| len.max(align).ilog2())
    }

    /// Adds `len` granules behind the heap's end as the fewest blocks of powers of two that lie there, joins them
    /// with what is free before, and returns how many blocks that were.
    fn append(&mut self, len: usize) -> u64 {
        let mut at = self.state.end;
        let end = at + len;
        let mut pieces = 0;
        while at < end {
            let order = order_at(at, end - at);
            let next = at + (1 << order);
            (self.state.end, self.state.top) = (next, next);
            self.map.mark_block(next);
            if let Some(counters) = &mut self.counters {
                counters.blocks += 1;
            }
            self.join(at, order);
            pieces += 1;
            at = next;
        }
        let size = (self.state.end << self.state.shift()) as u64;
        if let Some(counters) = &mut self.counters {
            counters.heap_size = size;
            counters.peak_heap_size = counters.peak_heap_size.max(size);
        }
        pieces
    }

    /// Makes a free block of `order` or more by growing the heap; returns where it is, and its order.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, order: u32) -> Result<(usize, u32), AllocateError> {
        let growth = self.state.growth();
        let len = 1usize << order;
        let wanted = self.state.end.checked_next_multiple_of(len).and_then(|start| start.checked_add(len));
        let wanted = wanted.filter(|&end| end <= self.state.capacity && growth != Growth::Fixed);
        let mut end = wanted.ok_or(AllocateError::RegionFull)?;
        if let Growth::Pages(step) = growth {
            end = end.next_multiple_of(step as usize >> self.state.shift()).min(self.state.capacity);
        }
        let pieces = self.append(end - self.state.end);
        if let Some(counters) = &mut self.counters {
            counters.grows += 1;
            counters.splits += pieces - 1;
        }
        self.find(order).ok_or(AllocateError::RegionFull)
    }

    /// The lowest free block of the smallest order from `order` on, and that order.
    #[inline]
    fn find(&self, order: u32) -> Option<(usize, u32)> {
        let found = self.free.smallest_order_from(order)?;
        Some((self.free.lowest(found)? << found, found))
    }

    /// Takes the free block of order `found` at `start`, halving it until its low half is of `order`.
    #[inline]
    fn take(&mut self, start: usize, found: u32, order: u32) {
        self.free.remove(found, start);
        self.map.mark_block(start);
        self.cut(start, found, order);
        if let Some(counters) = &mut self.counters {
            counters.holes -= 1;
        }
    }

    /// Halves the used block at `start` from order `from` down to order `to`; the high halves become free.
    fn cut(&mut self, start: usize, from: u32, to: u32) {
        if from == to {
            return;
        }
        self.map.mark_high_halves(start, from, to);
        self.free.insert_high_halves(start, from, to);
        if let Some(counters) = &mut self.counters {
            let cuts = u64::from(from - to);
            counters.splits += cuts;
            counters.blocks += cuts;
            counters.holes += cuts;
        }
    }

    /// The block of order `from` at `start` becomes free and joins its buddy, the pair its buddy, and so on; returns what it
    /// became part of.
    #[inline]
    fn join(&mut self, start: usize, from: u32) -> (usize, u32) {
        let to = self.free.remove_buddies(start, from);
        let whole = start >> to << to;
        if to > from {
            self.map.unmark_buddies(start, from, to);
        }
        self.map.mark_hole(whole);
        self.free.insert(to, whole);
        if let Some(counters) = &mut self.counters {
            let merges = u64::from(to - from);
            counters.coalesces += merges;
            counters.blocks -= merges;
            counters.holes = counters.holes + 1 - merges;
        }
        (whole, to)
    }

    /// Blocks that existed before the first request.
    fn blocks_at_creation(&self) -> u64 {
        self.state.blocks_at_creation() * u64::from(self.state.capacity.count_ones())
    }

    fn used_block(&self, offset: usize) -> Option<usize> {
        lookup::used_block(self.state, &self.map, offset)
    }

    #[inline]
    fn order_of(&self, start: usize) -> u32 {
        (self.map.next_start(start) - start).ilog2()
    }

    fn release(&mut self, start: usize, note: impl FnOnce(Change)) -> Freed {
        let shift = self.state.shift();
        let order = self.order_of(start);
        let size = 1usize << order << shift;
        note(Change::of_granules(start, start + (1 << order), start, start, shift));
        if let Some(counters) = &mut self.counters {
            counters.frees += 1;
            counters.live -= size as u64;
        }
        let (hole, hole_order) = self.join(start, order);
        Freed { offset: start << shift, size, hole_offset: hole << shift, hole_size: 1 << hole_order << shift }
    }

    /// Whether the block of order `from` at `start` can become one of order `to` by taking the free buddies above it.
    fn can_lengthen(&self, start: usize, from: u32, to: u32) -> bool {
        start & ((1 << to) - 1) == 0
            && (from..to).all(|order| {
                let buddy = start + (1 << order);
                buddy + (1 << order) <= self.state.end && self.free.contains(order, buddy)
            })
    }

    fn lengthen(&mut self, start: usize, from: u32, to: u32) {
        for order in from..to {
            let buddy = start + (1 << order);
            self.free.remove(order, buddy);
            self.map.unmark(buddy);
        }
        if let Some(counters) = &mut self.counters {
            let merges = u64::from(to - from);
            counters.coalesces += merges;
            counters.blocks -= merges;
            counters.holes -= merges;
        }
    }
}

/// The order of the longest block that may start at `at` and has `room` granules.
fn order_at(at: usize, room: usize) -> u32 {
    if at == 0 { room.ilog2() } else { at.trailing_zeros().min(room.ilog2()) }
}

impl Engine for Buddy<'_> {
    fn policy(&self) -> PolicyKind {
        PolicyKind::Buddy
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        self.allocate_noted(bytes, align, |_| {})
    }

    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        self.deallocate_noted(offset, |_| {})
    }

    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        let start = self.used_block(offset).ok_or_else(|| lookup::diagnose(self.state, &self.map, offset))?;
        if self.usable_size(offset).is_none_or(|usable| bytes > usable) {
            return Err(FreeError::WrongSize);
        }
        if let Some(counters) = &mut self.counters {
            counters.released += bytes as u64;
        }
        Ok(self.release(start, |_| {}))
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        self.resize_noted(offset, old, new, |_| {})
    }

    fn usable_size(&self, offset: usize) -> Option<usize> {
        lookup::usable_size(self.state, &self.map, offset)
    }

    fn block_containing(&self, offset: usize) -> Option<Block> {
        lookup::block_containing(self.state, &self.map, offset)
    }

    fn heap_size(&self) -> usize {
        self.state.end << self.state.shift()
    }

    fn top(&self) -> usize {
        self.state.top << self.state.shift()
    }

    fn capacity(&self) -> usize {
        self.state.capacity << self.state.shift()
    }

    fn counters(&self) -> Option<Counters> {
        self.counters.as_deref().copied()
    }

    fn check(&self) -> Result<(), Violation> {
        self.check_all()
    }
}

impl Noted for Buddy<'_> {
    fn allocate_noted(
        &mut self,
        bytes: usize,
        align: usize,
        note: impl FnOnce(Change),
    ) -> Result<usize, AllocateError> {
        if !align.is_power_of_two() {
            return Err(AllocateError::BadAlignment);
        }
        let granules = self.state.granules(bytes).ok_or(AllocateError::RegionFull)?;
        let order = self.order_for(granules, align).ok_or(AllocateError::RegionFull)?;
        let (found, grown) = match self.find(order) {
            Some(found) => (found, false),
            None => (self.grow(order)?, true),
        };
        let (start, whole) = found;
        let shift = self.state.shift();
        note(Change::of_granules(start, start + (1 << whole), start, start + (1 << order), shift));
        self.take(start, whole, order);
        if let Some(counters) = &mut self.counters {
            counters.mallocs += 1;
            counters.reuses += u64::from(!grown);
            counters.requested += bytes as u64;
            counters.rounded += (granules << shift) as u64;
            counters.live += 1 << order << shift;
            counters.peak_live = counters.peak_live.max(counters.live);
        }
        Ok((start + usize::from(self.state.header)) << shift)
    }

    fn deallocate_noted(&mut self, offset: usize, note: impl FnOnce(Change)) -> Result<Freed, FreeError> {
        let start = self.used_block(offset).ok_or_else(|| lookup::diagnose(self.state, &self.map, offset))?;
        if let Some(counters) = &mut self.counters {
            counters.unsized_frees += 1;
        }
        Ok(self.release(start, note))
    }

    /// A block that needs a smaller order gives its high halves back; one that needs a larger order takes the free
    /// buddies above it, when it is the low half of each pair.
    fn resize_noted(
        &mut self,
        offset: usize,
        old: usize,
        new: usize,
        note: impl FnOnce(Change),
    ) -> Result<(), ResizeError> {
        let start = self.used_block(offset).ok_or(ResizeError::NotABlock)?;
        let granules = self.state.granules(new).ok_or(ResizeError::NoRoom)?;
        let (from, to) = (self.order_of(start), self.order_for(granules, 1).ok_or(ResizeError::NoRoom)?);
        let old = old.min(self.usable_size(offset).unwrap_or(old));
        if to > from && !self.can_lengthen(start, from, to) {
            return Err(ResizeError::NoRoom);
        }
        let shift = self.state.shift();
        if to != from {
            note(Change::of_granules(start, start + (1 << from.max(to)), start, start + (1 << to), shift));
        }
        if to > from {
            self.lengthen(start, from, to);
        } else {
            self.cut(start, from, to);
        }
        if let Some(counters) = &mut self.counters {
            counters.resizes += 1;
            counters.requested += new.saturating_sub(old) as u64;
            counters.rounded += self.state.rounded_growth(old, new);
            counters.released += old.saturating_sub(new) as u64;
            counters.live = counters.live + (1 << to << shift) - (1 << from << shift);
            counters.peak_live = counters.peak_live.max(counters.live);
        }
        Ok(())
    }

    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError> {
        let shift = self.state.shift();
        let (from, end) = (self.state.end, heap_size >> shift);
        if end > self.state.capacity {
            return Err(AllocateError::RegionFull);
        }
        if end > from {
            note(Change::of_granules(from, end, from, from, shift));
            let pieces = self.append(end - from);
            if let Some(counters) = &mut self.counters {
                counters.splits += pieces;
            }
        }
        Ok(())
    }
}
