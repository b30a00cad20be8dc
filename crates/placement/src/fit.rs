//! The fits: one engine for every policy that takes a hole, cuts what it needs from its low end and, on free, merges
//! with both neighbours. They differ only in the hole they choose ([`Choose`]).
//!
//! The wilderness `[top, end)`, the free tail of the heap, stands in the map as a start that is not a hole, and is
//! never in the index: a heap that grows and shrinks at its end touches neither.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::counters::Counters;
use crate::engine::{Block, Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
use crate::index::{Choice, Choose, Index};
use crate::lookup;
use crate::map::{self, BlockMap, Hole, words_for};
use crate::noted::{Change, Noted};
use crate::rules::{Growth, PolicyKind, Rules, Statistics};
use crate::state::{Need, State};
use crate::store::{Parts, Sections, state_at};

mod carve;
mod check;
mod recover;
mod resize;

/// An engine that places blocks by a choice among holes: [`FirstFit`](crate::FirstFit) and its kin.
///
/// ```
/// use heapwright_placement::{Engine, FirstFit, Fit, Rules};
/// let rules = Rules::default();
/// let mut metadata = vec![0u64; Fit::<FirstFit>::metadata_cells(1 << 16, &rules).unwrap()];
/// let mut heap = Fit::<FirstFit>::create(&mut metadata, 1 << 16, &rules).unwrap();
/// let a = heap.allocate(100, 16).unwrap();
/// let b = heap.allocate(100, 16).unwrap();
/// assert_eq!((a, b), (0, 112));
/// heap.deallocate(a).unwrap();
/// assert!(heap.deallocate(a).is_err());
/// assert_eq!(heap.allocate(32, 16).unwrap(), 0);
/// heap.check().unwrap();
/// ```
pub struct Fit<'m, P: Choose> {
    state: &'m mut State,
    counters: Option<&'m mut Counters>,
    map: BlockMap<'m>,
    index: P::Index<'m>,
    _policy: PhantomData<P>,
}

impl<'m, P: Choose> Fit<'m, P> {
    fn sections(granules: usize, statistics: Statistics) -> Sections {
        Sections::new(statistics, map::cells_for(granules), <P::Index<'m>>::cells_for(granules))
    }

    /// How many cells of 8 bytes the metadata of a region of `capacity` bytes takes.
    ///
    /// # Errors
    /// The rule that makes no sense, or [`RulesError::Capacity`].
    pub fn metadata_cells(capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        let state = State::new(P::KIND, capacity, rules)?;
        Ok(Self::sections(state.capacity, rules.statistics).total())
    }

    /// Creates a heap over a region of `capacity` bytes (rounded down to granules) with its metadata in `metadata`.
    ///
    /// Time: proportional to the metadata, which is zeroed.
    ///
    /// # Errors
    /// As [`Fit::metadata_cells`], or [`RulesError::MetadataTooShort`].
    pub fn create(metadata: &'m mut [u64], capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let cells = Self::metadata_cells(capacity, rules)?;
        metadata.get_mut(..cells).ok_or(RulesError::MetadataTooShort)?.fill(0);
        // SAFETY: the block is exclusively ours for 'm, long enough, and was just zeroed.
        unsafe { Self::create_zeroed(NonNull::from(metadata).cast(), capacity, rules) }
    }

    /// As [`Fit::create`] over metadata that is known to be zero, of which only what is used is touched.
    ///
    /// # Errors
    /// As [`Fit::metadata_cells`].
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of [`Fit::metadata_cells`] cells for `'m`, is used through nothing
    /// else, and every byte of it is 0.
    pub unsafe fn create_zeroed(metadata: NonNull<u64>, capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let state = State::new(P::KIND, capacity, rules)?;
        let fixed = state.end != 0;
        // SAFETY: the caller's promise.
        let mut fit = unsafe { Self::over(metadata, state) };
        fit.map.mark_block(0);
        if let Some(counters) = &mut fit.counters {
            counters.blocks = u64::from(fixed);
            counters.holes = u64::from(fixed);
            counters.heap_size = (fit.state.end << fit.state.shift()) as u64;
            counters.peak_heap_size = counters.heap_size;
        }
        Ok(fit)
    }

    /// # Safety
    /// As [`Fit::create_zeroed`], for a block whose state may be replaced by `state` without harm.
    unsafe fn over(metadata: NonNull<u64>, state: State) -> Self {
        let granules = state.capacity;
        let sections = Self::sections(granules, state.statistics());
        // SAFETY: the caller's promise; the state is written before it is referred to.
        let Parts { state, counters, map, index } = unsafe {
            metadata.cast::<State>().write(state);
            Parts::of(metadata, sections)
        };
        Fit {
            state,
            counters,
            map: BlockMap::new(map, granules),
            index: <P::Index<'m>>::new(index, granules),
            _policy: PhantomData,
        }
    }

    /// Takes up the heap whose metadata lies at `metadata`, wherever it was created: metadata holds no pointers.
    ///
    /// Attaching, [`Engine::check`] and everything else that only asks are safe whatever the bytes are: nothing outside
    /// the block is touched, and every walk ends. What changes the heap trusts them. Who cannot trust the bytes attaches,
    /// calls `check`, and only then anything else. (Of a heap that grows by itself the check sees nothing beyond the heap's
    /// end: [`Fit::recover`] clears that, and trusts less.)
    ///
    /// # Errors
    /// [`RulesError::NotAHeap`] when the block does not begin like a heap of this policy;
    /// [`RulesError::MetadataTooShort`] when `cells` is less than such a heap takes.
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through nothing else. Before the heap
    /// is changed, it must be known that its bytes were written by an engine of this version and by nothing else, or its
    /// check must have passed.
    pub unsafe fn attach(metadata: NonNull<u64>, cells: usize) -> Result<Self, RulesError> {
        // SAFETY: the caller's promise.
        let state = unsafe { state_at(metadata, cells, P::KIND) }?;
        if !state.is_plausible(P::KIND) {
            return Err(RulesError::NotAHeap);
        }
        if cells < Self::sections(state.capacity, state.statistics()).total() {
            return Err(RulesError::MetadataTooShort);
        }
        // SAFETY: the caller's promise, and the block is as long as this state needs.
        Ok(unsafe { Self::over(metadata, state) })
    }

    /// Sets the seed of random fit (the other policies have none). The same seed and requests give the same heap.
    pub fn seed(&mut self, seed: u64) {
        if P::KIND == PolicyKind::Random {
            self.state.cursor = seed;
        }
    }

    #[inline(always)]
    fn need(&self, granules: usize, align: usize) -> Need {
        let state = &*self.state;
        let header = usize::from(state.header);
        Need {
            len: granules + header,
            align: (align >> state.shift()).max(1),
            skew: state.phase as usize + header,
            min_gap: state.min_remainder as usize,
        }
    }

    #[inline(always)]
    fn choose(&mut self, need: &Need) -> Choice {
        if self.map.has_summary() {
            self.settle_pending();
            P::choose(&self.index, &self.map, self.state, need)
        } else {
            P::scan(&self.map, self.state, need)
        }
    }

    /// The start of the used block whose payload is at `offset`.
    #[inline(always)]
    fn used_block(&self, offset: usize) -> Option<usize> {
        lookup::used_block(self.state, &self.map, offset)
    }

    /// Makes the heap long enough, by the growth rule, for the wilderness to hold the block that `need` describes.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, need: &Need) -> Result<(), AllocateError> {
        let growth = self.state.growth();
        let start = match growth {
            Growth::Fixed => return Err(AllocateError::RegionFull),
            Growth::Append => self.state.end,
            Growth::Extend | Growth::Pages(_) => self.state.top,
        };
        let room = self.state.capacity - start;
        let gap = need.gap(start);
        if need.len > room || gap > room - need.len {
            return Err(AllocateError::RegionFull);
        }
        let end = self.grown_end(start + gap + need.len).ok_or(AllocateError::RegionFull)?;
        let had_wilderness = self.state.top < self.state.end;
        let settled = had_wilderness && growth == Growth::Append;
        if settled {
            self.settle_wilderness(gap);
        }
        let joined = had_wilderness && !settled;
        self.set_end(end);
        if let Some(counters) = &mut self.counters {
            counters.grows += 1;
            counters.blocks += u64::from(!joined);
            counters.holes += u64::from(!joined);
            counters.coalesces += u64::from(joined);
            if settled && gap > 0 {
                // The gap was cut from the new block and joined the hole before it.
                counters.splits += 1;
                counters.coalesces += 1;
            }
        }
        Ok(())
    }

    /// Where the growth rule puts the heap's end so that it reaches `wanted`, which the capacity allows.
    fn grown_end(&self, wanted: usize) -> Option<usize> {
        match self.state.growth() {
            Growth::Fixed => None,
            Growth::Append | Growth::Extend => Some(wanted),
            Growth::Pages(step) => {
                let longer = (wanted - self.state.end).next_multiple_of(step as usize >> self.state.shift());
                Some(self.state.end.saturating_add(longer).min(self.state.capacity))
            }
        }
    }

    fn set_end(&mut self, end: usize) {
        self.state.end = end;
        let size = (end << self.state.shift()) as u64;
        if let Some(counters) = &mut self.counters {
            counters.heap_size = size;
            counters.peak_heap_size = counters.peak_heap_size.max(size);
        }
    }

    /// The wilderness and the `gap` behind it become a hole like any other, because the heap goes on there.
    fn settle_wilderness(&mut self, gap: usize) {
        let hole = Hole { start: self.state.top, len: self.state.wilderness() + gap };
        self.state.top = hole.end();
        self.raise_index();
        self.index_insert(hole);
        self.map.mark_hole(hole.start);
        self.map.mark_block(self.state.top);
    }

    /// Tells the index of the pending hole, if there is one.
    #[inline(always)]
    fn settle_pending(&mut self) {
        let hole = self.map.pending();
        if hole.len != 0 {
            self.map.set_pending(Hole::NONE);
            self.index.insert(&mut self.map, self.state.height, hole);
        }
    }

    /// A hole appears; the index will hear of it when that is needed.
    #[inline(always)]
    fn index_insert(&mut self, hole: Hole) {
        if self.map.has_summary() {
            self.settle_pending();
            self.map.set_pending(hole);
        }
    }

    /// A hole goes. What is pending is settled before, so that the index never takes it for one that it holds.
    #[inline(always)]
    fn index_remove(&mut self, hole: Hole) {
        if self.map.has_summary() {
            if self.map.pending() == hole {
                self.map.set_pending(Hole::NONE);
            } else {
                self.settle_pending();
                self.index.remove(&mut self.map, self.state.height, hole);
            }
        }
    }

    /// A hole changes its start, its length or both.
    #[inline(always)]
    fn index_moved(&mut self, from: Hole, to: Hole) {
        if self.map.has_summary() {
            if self.map.pending() == from {
                self.map.set_pending(to);
            } else {
                self.settle_pending();
                self.index.moved(&mut self.map, self.state.height, from, to);
            }
        }
    }

    /// Raises the index until its root covers `top`.
    #[inline(always)]
    fn raise_index(&mut self) {
        while words_for(self.state.top) > 1 << (<P::Index<'m>>::LEVEL_BITS * (u32::from(self.state.height) + 1)) {
            if self.map.has_summary() {
                self.index.raise(&self.map, self.state.height);
            }
            self.state.height += 1;
        }
    }
}

impl<P: Choose> Engine for Fit<'_, P> {
    fn policy(&self) -> PolicyKind {
        P::KIND
    }

    #[inline]
    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        self.allocate_noted(bytes, align, |_| {})
    }

    #[inline]
    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        self.deallocate_noted(offset, |_| {})
    }

    #[inline]
    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        let start = self.used_block(offset).ok_or_else(|| lookup::diagnose(self.state, &self.map, offset))?;
        let len = self.map.next_start(start) - start;
        if bytes > (len - usize::from(self.state.header)) << self.state.shift() {
            return Err(FreeError::WrongSize);
        }
        if let Some(counters) = &mut self.counters {
            counters.released += bytes as u64;
        }
        Ok(self.release(start, len, |_| {}))
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        self.resize_noted(offset, old, new, |_| {})
    }

    #[inline]
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

impl<P: Choose> Noted for Fit<'_, P> {
    #[inline]
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
        let need = self.need(granules, align);
        let mut choice = self.choose(&need);
        let grown = choice == Choice::Nowhere;
        if grown {
            self.grow(&need)?;
            choice = Choice::Wilderness;
        }
        let (start, end) = match choice {
            Choice::Hole(hole) => self.carve(hole, &need, note),
            _ => self.carve_wilderness(&need, note),
        };
        if P::KIND == PolicyKind::Next {
            self.state.cursor = end as u64;
        }
        let shift = self.state.shift();
        if let Some(counters) = &mut self.counters {
            counters.mallocs += 1;
            counters.reuses += u64::from(!grown);
            counters.requested += bytes as u64;
            counters.rounded += (granules << shift) as u64;
            counters.live += ((end - start) << shift) as u64;
            counters.peak_live = counters.peak_live.max(counters.live);
        }
        Ok((start + usize::from(self.state.header)) << shift)
    }

    #[inline]
    fn deallocate_noted(&mut self, offset: usize, note: impl FnOnce(Change)) -> Result<Freed, FreeError> {
        let start = self.used_block(offset).ok_or_else(|| lookup::diagnose(self.state, &self.map, offset))?;
        if let Some(counters) = &mut self.counters {
            counters.unsized_frees += 1;
        }
        let len = self.map.next_start(start) - start;
        Ok(self.release(start, len, note))
    }

    fn resize_noted(
        &mut self,
        offset: usize,
        old: usize,
        new: usize,
        note: impl FnOnce(Change),
    ) -> Result<(), ResizeError> {
        self.resize_in_place(offset, old, new, note)
    }

    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError> {
        let (shift, top) = (self.state.shift(), self.state.top);
        let end = heap_size >> shift;
        if end > self.state.capacity {
            return Err(AllocateError::RegionFull);
        }
        if end > self.state.end {
            note(Change::of_granules(top, end, top, top, shift));
            if top == self.state.end {
                self.count_split();
            }
            self.set_end(end);
        }
        Ok(())
    }
}
