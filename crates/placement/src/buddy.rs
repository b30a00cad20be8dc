//! Binary buddies: blocks are powers of two long, lie at multiples of their length and are halved and joined in pairs.
//!
//! The block map stores where blocks start, as for the fits. The index is one set per order with the places of its free
//! blocks. A region of any length is first cut into the fewest blocks of powers of two; a heap that grows adds such
//! blocks, which join with free blocks before them.

use core::ptr::NonNull;

use crate::counters::Counters;
use crate::engine::{Block, BlockState, Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
use crate::heap::Heap;
use crate::lookup;
use crate::noted::{Change, Noted, unnoted};
use crate::parts::{Part, Reach};
use crate::rules::{Growth, PolicyKind, Rules};
use crate::state::State;

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
    heap: Heap<'m, FreeSets<'m>>,
}

impl<'m> Buddy<'m> {
    /// Returns how many cells of 8 bytes the metadata of a region of `capacity` bytes takes.
    ///
    /// # Errors
    /// The invalid rule, or [`RulesError::Capacity`].
    pub fn metadata_cells(capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        Heap::<FreeSets<'m>>::metadata_cells(PolicyKind::Buddy, capacity, rules)
    }

    /// Calls `visit` with each part of the metadata of such a heap, as far as a heap accesses it that
    /// [`Buddy::set_limit`] has kept to this reach. Metadata beyond need not be backed with memory.
    ///
    /// # Errors
    /// As [`Buddy::metadata_cells`].
    pub fn each_part(
        capacity: usize,
        rules: &Rules,
        reach: Reach,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), RulesError> {
        Heap::<FreeSets<'m>>::each_part(PolicyKind::Buddy, capacity, rules, reach, visit)
    }

    /// Lets the heap grow up to [`Reach::end`], and no further; in the beginning, that is its capacity. A request that
    /// would need more is refused as if the region were full.
    pub fn set_limit(&mut self, reach: Reach) {
        self.heap.set_limit(reach);
    }

    /// Returns 0: no request is refused because of [`Reach::short`].
    pub fn missing(&mut self) -> usize {
        0
    }

    /// Returns what the policy decides by besides the holes, as [`Fit::cursor`](crate::Fit::cursor) does.
    #[inline(always)]
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.heap.state.cursor
    }

    /// Returns the counters, as [`Fit::counters_mut`](crate::Fit::counters_mut) does.
    #[inline(always)]
    pub fn counters_mut(&mut self) -> Option<&mut Counters> {
        self.heap.counters_mut()
    }

    /// Creates a heap over a region of `capacity` bytes (rounded down to granules) with its metadata in `metadata`.
    ///
    /// Time: proportional to the metadata, which is zeroed.
    ///
    /// # Errors
    /// As [`Buddy::metadata_cells`], or [`RulesError::MetadataTooShort`].
    pub fn create(metadata: &'m mut [u64], capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let metadata = Heap::<FreeSets<'m>>::zeroed(PolicyKind::Buddy, metadata, capacity, rules)?;
        // SAFETY: the block is borrowed exclusively for 'm, long enough, and was just zeroed.
        unsafe { Self::create_zeroed(metadata, capacity, rules) }
    }

    /// Creates a heap as [`Buddy::create`] does, over metadata that is already zero; touches only the metadata in use.
    ///
    /// # Errors
    /// As [`Buddy::metadata_cells`].
    ///
    /// # Safety
    /// As for [`Fit::create_zeroed`](crate::Fit::create_zeroed).
    pub unsafe fn create_zeroed(metadata: NonNull<u64>, capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let mut state = State::new(PolicyKind::Buddy, capacity, rules)?;
        let initial = state.end;
        (state.end, state.top) = (0, 0);
        // SAFETY: `metadata` is valid for `metadata_cells` cells for `'m` and used through nothing else, as this
        // function requires.
        let mut heap = unsafe { Heap::<FreeSets<'m>>::over(metadata, state) };
        heap.map.mark_block(0);
        heap.append(initial);
        Ok(Buddy { heap })
    }

    /// Attaches to the heap whose metadata lies at `metadata`; its address may differ from that at creation.
    ///
    /// # Errors
    /// As [`Fit::attach`](crate::Fit::attach).
    ///
    /// # Safety
    /// As for [`Fit::attach`](crate::Fit::attach): `metadata` is valid for reads and writes of `cells` cells for `'m`
    /// and is used through nothing else. Before the heap is changed, its bytes must come from an engine of this
    /// version, or its check must have passed.
    pub unsafe fn attach(metadata: NonNull<u64>, cells: usize) -> Result<Self, RulesError> {
        // SAFETY: `metadata` is valid for `cells` cells for `'m` and used through nothing else, as this function
        // requires.
        let heap = unsafe { Heap::attach(PolicyKind::Buddy, metadata, cells) }?;
        Ok(Buddy { heap })
    }
}

impl Heap<'_, FreeSets<'_>> {
    /// Returns the order of the block that a request takes, or `None` when no block can satisfy it.
    fn order_for(&self, granules: usize, align: usize) -> Option<u32> {
        let state = &*self.state;
        let len = (granules + usize::from(state.header)).checked_next_power_of_two()?;
        let align = (align >> state.shift()).max(1);
        let skew = state.phase() + usize::from(state.header);
        (skew & (align - 1) == 0).then(|| len.max(align).ilog2())
    }

    /// Adds `len` granules behind the heap's end as the fewest blocks of powers of two, joins them with free blocks
    /// before, and returns how many were added.
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
        self.set_end(end);
        pieces
    }

    /// Grows the heap until there is a free block of `order` or more; returns its place and order.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, order: u32) -> Result<(usize, u32), AllocateError> {
        let (growth, shift) = (self.state.growth(), self.state.shift());
        let wanted = (1usize << order).checked_mul(1 << shift).and_then(|length| self.end_to_hold(length));
        let wanted = wanted.map(|end| end >> shift).filter(|&end| end <= self.limit && growth != Growth::Fixed);
        let mut end = wanted.ok_or(AllocateError::RegionFull)?;
        if let Growth::Pages(step) = growth {
            end = end.next_multiple_of(step as usize >> self.state.shift()).min(self.limit);
        }
        let pieces = self.append(end - self.state.end);
        if let Some(counters) = &mut self.counters {
            counters.grows += 1;
            counters.splits += pieces - 1;
        }
        self.find(order).ok_or(AllocateError::RegionFull)
    }

    /// Returns the bytes at which the heap ends when it has a free block of `length` bytes, of which it has none.
    fn end_to_hold(&self, length: usize) -> Option<usize> {
        let block_at = |offset| lookup::block_containing(self.state, &self.map, offset);
        buddy_end(self.heap_size(), length, self.state.growth(), block_at)
    }

    /// Returns the lowest free block of the smallest order from `order` on, and that order.
    #[inline]
    fn find(&self, order: u32) -> Option<(usize, u32)> {
        let found = self.index.smallest_order_from(order)?;
        Some((self.index.lowest(found)?, found))
    }

    /// Takes the free block of order `found` at `start`, halving it until its low half is of `order`.
    #[inline]
    fn take(&mut self, start: usize, found: u32, order: u32) {
        self.index.remove(found, start);
        self.map.mark_taken(start);
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
        self.index.insert_high_halves(start, from, to);
        if let Some(counters) = &mut self.counters {
            let cuts = u64::from(from - to);
            counters.splits += cuts;
            counters.blocks += cuts;
            counters.holes += cuts;
        }
    }

    /// Frees the block of order `from` at `start` and joins it with its buddy, the pair with its buddy, and so on;
    /// returns the joined block.
    #[inline]
    fn join(&mut self, start: usize, from: u32) -> (usize, u32) {
        let to = self.index.remove_buddies(start, from);
        let whole = start >> to << to;
        if to > from {
            self.map.unmark_buddies(start, from, to);
        }
        self.map.mark_released(whole);
        self.index.insert(to, whole);
        if let Some(counters) = &mut self.counters {
            let merges = u64::from(to - from);
            counters.coalesces += merges;
            counters.blocks -= merges;
            counters.holes = counters.holes + 1 - merges;
        }
        (whole, to)
    }

    /// Returns the number of blocks before the first request.
    fn blocks_at_creation(&self) -> u64 {
        self.state.blocks_at_creation() * u64::from(self.state.capacity.count_ones())
    }

    #[inline]
    fn order_of(&self, start: usize) -> u32 {
        (self.map.next_start(start) - start).ilog2()
    }

    /// Frees the used block at `offset`, requested with `bytes` bytes if the caller provides the size.
    #[inline(never)]
    fn free(&mut self, offset: usize, bytes: Option<usize>, note: impl FnOnce(Change)) -> Result<Freed, FreeError> {
        let start = self.used_block(offset).ok_or_else(|| self.diagnose(offset))?;
        let order = self.order_of(start);
        let shift = self.state.shift();
        let payload = (1usize << order).saturating_sub(self.state.header.into());
        if bytes.is_some_and(|bytes| bytes > payload << shift) {
            return Err(FreeError::WrongSize);
        }
        let size = 1usize << order << shift;
        note(Change::of_granules(start, start + (1 << order), start, start, shift));
        if let Some(counters) = &mut self.counters {
            counters.frees += 1;
            counters.unsized_frees += u64::from(bytes.is_none());
            counters.released += bytes.unwrap_or(0) as u64;
            counters.live -= size as u64;
        }
        let (hole, hole_order) = self.join(start, order);
        Ok(Freed { offset: start << shift, size, hole_offset: hole << shift, hole_size: 1 << hole_order << shift })
    }

    /// Returns whether the block of order `from` at `start` can become one of order `to` with the free buddies above
    /// it.
    fn can_lengthen(&self, start: usize, from: u32, to: u32) -> bool {
        start & ((1 << to) - 1) == 0
            && (from..to).all(|order| {
                let buddy = start + (1 << order);
                buddy + (1 << order) <= self.state.end && self.index.contains(order, buddy)
            })
    }

    fn lengthen(&mut self, start: usize, from: u32, to: u32) {
        for order in from..to {
            let buddy = start + (1 << order);
            self.index.remove(order, buddy);
            self.map.unmark(buddy);
        }
        if let Some(counters) = &mut self.counters {
            let merges = u64::from(to - from);
            counters.coalesces += merges;
            counters.blocks -= merges;
            counters.holes -= merges;
        }
    }

    fn allocate(&mut self, bytes: usize, align: usize, note: impl FnOnce(Change)) -> Result<usize, AllocateError> {
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

    /// Resizes a block in place. A smaller order frees the high halves; a larger order takes the free buddies above,
    /// which requires that the block is the low half of each pair.
    fn resize(&mut self, offset: usize, old: usize, new: usize, note: impl FnOnce(Change)) -> Result<(), ResizeError> {
        let start = self.used_block(offset).ok_or(ResizeError::NotABlock)?;
        let granules = self.state.granules(new).ok_or(ResizeError::NoRoom)?;
        let (from, to) = (self.order_of(start), self.order_for(granules, 1).ok_or(ResizeError::NoRoom)?);
        let payload = (1usize << from).saturating_sub(self.state.header.into());
        let old = old.min(payload << self.state.shift());
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
        if end > self.limit {
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

/// Returns the bytes at which a heap of buddies ends when it has grown for a free block of `length` bytes (a power of
/// two), of which it has none; `None` when there is no such number. `block_at` returns the block at an offset.
///
/// What is new joins the free buddies at the heap's end, if these begin where such a block can, unless blocks are
/// appended. Time: logarithmic.
///
/// ```
/// use heapwright_placement::{Engine, Growth, PolicyKind, Rules, AnyEngine, buddy_end};
/// let rules = Rules { growth: Growth::Extend, ..Rules::default() };
/// let mut metadata = vec![0u64; AnyEngine::metadata_cells(PolicyKind::Buddy, 4096, &rules)?];
/// let mut heap = AnyEngine::create(PolicyKind::Buddy, &mut metadata, 4096, &rules)?;
/// let block = heap.allocate(1024, 16)?;
/// heap.deallocate(block)?;
/// assert_eq!(buddy_end(heap.heap_size(), 2048, rules.growth, |offset| heap.block_containing(offset)), Some(2048));
/// assert_eq!((heap.allocate(2048, 16)?, heap.heap_size()), (0, 2048));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn buddy_end(
    heap_size: usize,
    length: usize,
    growth: Growth,
    block_at: impl Fn(usize) -> Option<Block>,
) -> Option<usize> {
    let end = heap_size.checked_next_multiple_of(length)?;
    let is_free = |mut from: usize| {
        while from < heap_size {
            match block_at(from) {
                Some(block) if block.state == BlockState::Free => from = block.offset + block.size,
                _ => return false,
            }
        }
        true
    };
    if end > heap_size && growth != Growth::Append && is_free(end - length) {
        Some(end)
    } else {
        end.checked_add(length)
    }
}

/// Returns the order of the longest block that may start at `at` and has `room` granules.
fn order_at(at: usize, room: usize) -> u32 {
    if at == 0 { room.ilog2() } else { at.trailing_zeros().min(room.ilog2()) }
}

impl Engine for Buddy<'_> {
    fn policy(&self) -> PolicyKind {
        PolicyKind::Buddy
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        self.allocate_noted(bytes, align, unnoted)
    }

    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        self.deallocate_noted(offset, unnoted)
    }

    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        self.heap.free(offset, Some(bytes), unnoted)
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        self.resize_noted(offset, old, new, unnoted)
    }

    fn usable_size(&self, offset: usize) -> Option<usize> {
        lookup::usable_size(self.heap.state, &self.heap.map, offset)
    }

    fn block_containing(&self, offset: usize) -> Option<Block> {
        lookup::block_containing(self.heap.state, &self.heap.map, offset)
    }

    fn heap_size(&self) -> usize {
        self.heap.heap_size()
    }

    fn top(&self) -> usize {
        self.heap.top()
    }

    fn capacity(&self) -> usize {
        self.heap.capacity()
    }

    fn counters(&self) -> Option<Counters> {
        self.heap.counters()
    }

    fn check(&self) -> Result<(), Violation> {
        self.heap.check()
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
        self.heap.allocate(bytes, align, note)
    }

    fn deallocate_noted(&mut self, offset: usize, note: impl FnOnce(Change)) -> Result<Freed, FreeError> {
        self.heap.free(offset, None, note)
    }

    fn resize_noted(
        &mut self,
        offset: usize,
        old: usize,
        new: usize,
        note: impl FnOnce(Change),
    ) -> Result<(), ResizeError> {
        self.heap.resize(offset, old, new, note)
    }

    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError> {
        self.heap.extend(heap_size, note)
    }
}
