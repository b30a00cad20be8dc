//! The fits: one engine for every policy that takes a hole, cuts what it needs from its low end and, on free, merges
//! with both neighbours. They differ only in the hole they choose ([`Choose`]).
//!
//! The wilderness `[top, end)`, the free tail of the heap, is a start in the map that is not a hole, and is never in
//! the index: a heap that grows and shrinks at its end touches neither.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::counters::Counters;
use crate::engine::{Block, Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
use crate::heap::Heap;
use crate::index::class_map::CLASSES;
use crate::index::{AnyIndex, Choice, Choose, Index, Update};
use crate::lookup;
use crate::map::{Hole, words_for};
use crate::noted::{Change, Noted, unnoted};
use crate::parts::{Part, Reach};
use crate::rules::{Growth, PolicyKind, Rules};
use crate::state::{Need, State};

mod carve;
mod check;
mod pending;
mod recover;
mod resize;

/// An engine that chooses among holes: [`FirstFit`](crate::FirstFit) and the like.
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
    heap: Heap<'m, P::Index<'m>>,
    _policy: PhantomData<P>,
}

impl<'m, P: Choose> Fit<'m, P> {
    /// Returns how many cells of 8 bytes the metadata of a region of `capacity` bytes takes.
    ///
    /// # Errors
    /// The invalid rule, or [`RulesError::Capacity`].
    pub fn metadata_cells(capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        Heap::<P::Index<'m>>::metadata_cells(P::KIND, capacity, rules)
    }

    /// Calls `visit` with each part of the metadata of such a heap, as far as a heap accesses it that
    /// [`Fit::set_limit`] has kept to this reach. Metadata beyond need not be backed with memory.
    ///
    /// # Errors
    /// As [`Fit::metadata_cells`].
    pub fn each_part(
        capacity: usize,
        rules: &Rules,
        reach: Reach,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), RulesError> {
        Heap::<P::Index<'m>>::each_part(P::KIND, capacity, rules, reach, visit)
    }

    /// Lets the heap reach as far as this, and no further; in the beginning, that is its capacity. A request that would
    /// need more is refused as if the region were full, or a resize as if there were no room. No reach is shorter than
    /// that of an earlier call, except that its end may be any that the heap does not pass.
    pub fn set_limit(&mut self, reach: Reach) {
        self.heap.set_limit(reach);
    }

    /// Makes the wilderness shorter or longer: the heap ends at `heap_size` bytes from now on. Returns `false`, and
    /// changes nothing, unless there is a wilderness, of which a part stays, and the heap grows and may reach as far. A
    /// heap that was made shorter may place blocks elsewhere than one that was not: under policies that compare the
    /// length of the wilderness with that of holes, and where blocks are appended.
    pub fn move_end(&mut self, heap_size: usize) -> bool {
        self.heap.move_end(heap_size)
    }

    /// Returns the [`Reach::short`] that the last request or resize would have needed, if it was refused for that; else
    /// 0. The next call returns 0.
    pub fn missing(&mut self) -> usize {
        self.heap.missing()
    }

    /// Returns what the policy decides by besides the holes, as a number: the rover of next fit, the generator of
    /// random fit. It is always the same under other policies.
    #[inline(always)]
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.heap.state.cursor
    }

    /// Returns the counters, for a caller that [counts](crate::Reuse::count_again) what it did not do; `None` without
    /// statistics.
    #[inline(always)]
    pub fn counters_mut(&mut self) -> Option<&mut Counters> {
        self.heap.counters_mut()
    }

    /// Creates a heap over a region of `capacity` bytes (rounded down to granules) with its metadata in `metadata`.
    ///
    /// Time: proportional to the metadata, which is zeroed.
    ///
    /// # Errors
    /// As [`Fit::metadata_cells`], or [`RulesError::MetadataTooShort`].
    pub fn create(metadata: &'m mut [u64], capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let metadata = Heap::<P::Index<'m>>::zeroed(P::KIND, metadata, capacity, rules)?;
        // SAFETY: the block is borrowed exclusively for 'm, long enough, and was just zeroed.
        unsafe { Self::create_zeroed(metadata, capacity, rules) }
    }

    /// Creates a heap as [`Fit::create`] does, over metadata that is already zero; touches only the metadata in use.
    ///
    /// # Errors
    /// As [`Fit::metadata_cells`].
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of [`Fit::metadata_cells`] cells for `'m`, is used through nothing
    /// else, and every byte of it is 0. For a heap that grows by itself it suffices that those cells are valid which
    /// [`Fit::each_part`] names for a reach of 0, and those for each reach to which [`Fit::set_limit`] lets it grow
    /// later; that is called before anything else.
    pub unsafe fn create_zeroed(metadata: NonNull<u64>, capacity: usize, rules: &Rules) -> Result<Self, RulesError> {
        let state = State::new(P::KIND, capacity, rules)?;
        // SAFETY: `metadata` points to `metadata_cells` zeroed cells that are used through nothing else and are valid
        // for `'m` as far as the heap is allowed to grow, as this function requires.
        Ok(Fit { heap: unsafe { Heap::create_zeroed(metadata, state) }, _policy: PhantomData })
    }

    /// Attaches to the heap whose metadata lies at `metadata`. Its address may differ from that at creation: metadata
    /// contains no pointers.
    ///
    /// Attaching, [`Engine::check`] and every other query are safe whatever the bytes are: they access nothing outside
    /// the block, and every walk ends. Operations that change the heap trust the bytes. If you cannot trust them,
    /// attach, call `check`, and only then anything else. In a heap that grows by itself, the check does not cover the
    /// metadata beyond the heap's end: [`Fit::recover`] clears that, and trusts less.
    ///
    /// # Errors
    /// [`RulesError::NotAHeap`] when the block does not begin like a heap of this policy;
    /// [`RulesError::MetadataTooShort`] when `cells` is less than such a heap takes.
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through nothing else. Before the
    /// heap is changed, its bytes must have been written by an engine of this version and by nothing else, or its check
    /// must have passed.
    pub unsafe fn attach(metadata: NonNull<u64>, cells: usize) -> Result<Self, RulesError> {
        // SAFETY: `metadata` is valid for `cells` cells for `'m` and used through nothing else, as this function
        // requires.
        let heap = unsafe { Heap::attach(P::KIND, metadata, cells) }?;
        Ok(Fit { heap, _policy: PhantomData })
    }

    /// Sets the seed of random fit (the other policies have none). The same seed and requests give the same heap.
    pub fn seed(&mut self, seed: u64) {
        if P::KIND == PolicyKind::Random {
            self.heap.state.cursor = seed;
        }
    }

    #[inline(always)]
    fn choose(&mut self, need: &Need) -> Choice {
        let heap = &mut self.heap;
        if !heap.map.has_summary() {
            return P::scan(&heap.map, heap.state, need);
        }
        if !P::WEIGHS_PENDING {
            heap.settle_pending();
            return P::choose(&heap.index, &heap.map, heap.state, need);
        }
        let pending = heap.map.pending();
        let choice = P::choose(&heap.index, &heap.map, heap.state, need);
        if pending.len == 0 {
            return choice;
        }
        // Not one test after the other: that the hole is long enough and that it comes first are seldom true together.
        let is_first = (pending.len >= need.len) & P::takes_pending(pending, choice, heap.state);
        if is_first && need.fits(pending.start, pending.len) {
            return Choice::Hole(pending);
        }
        heap.settle_pending();
        choice
    }

    fn choose_soon(&mut self, need: &Need) -> Choice {
        let heap = &mut self.heap;
        if heap.map.has_summary() {
            heap.settle_pending();
            P::choose_soon(&heap.index, &heap.map, heap.state, need)
        } else {
            P::scan(&heap.map, heap.state, need)
        }
    }

    /// Returns what a request needs.
    #[inline(always)]
    fn need(&self, bytes: usize, align: usize) -> Result<Need, AllocateError> {
        if !align.is_power_of_two() {
            return Err(AllocateError::BadAlignment);
        }
        let granules = self.heap.state.granules(bytes).ok_or(AllocateError::RegionFull)?;
        Ok(self.heap.need(granules, align))
    }

    /// Places a block of `bytes` as chosen.
    #[inline(always)]
    fn take(
        &mut self,
        mut choice: Choice,
        need: &Need,
        bytes: usize,
        note: impl FnOnce(Change),
    ) -> Result<usize, AllocateError> {
        let heap = &mut self.heap;
        heap.shun_short(choice, need)?;
        let grown = choice == Choice::Nowhere;
        if grown {
            heap.shared(|heap| heap.grow(need))?;
            choice = Choice::Wilderness;
        }
        let (start, end) = match choice {
            Choice::Hole(hole) => heap.carve(hole, need, note),
            _ => heap.carve_wilderness(need, note),
        };
        if P::KIND == PolicyKind::Next {
            heap.state.cursor = end as u64;
        }
        let (shift, header) = (heap.state.shift(), usize::from(heap.state.header));
        if let Some(counters) = &mut heap.counters {
            counters.mallocs += 1;
            counters.reuses += u64::from(!grown);
            counters.requested += bytes as u64;
            counters.rounded += ((need.len - header) << shift) as u64;
            counters.live += ((end - start) << shift) as u64;
            counters.peak_live = counters.peak_live.max(counters.live);
        }
        Ok((start + header) << shift)
    }
}

impl<'m, I: Index<'m>> Heap<'m, I> {
    /// Creates a heap without used blocks.
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of as many cells as `state` needs, for `'m`, is used through nothing
    /// else, and every byte of it is 0.
    unsafe fn create_zeroed(metadata: NonNull<u64>, state: State) -> Self {
        let fixed = state.end != 0;
        // SAFETY: `metadata` is valid for as many cells as `state` needs, for `'m`, and used through nothing else, as
        // this function requires.
        let mut heap = unsafe { Self::over(metadata, state) };
        heap.map.mark_block(0);
        heap.set_end(heap.state.end);
        if let Some(counters) = &mut heap.counters {
            counters.blocks = u64::from(fixed);
            counters.holes = u64::from(fixed);
        }
        heap
    }

    #[inline(always)]
    fn need(&self, granules: usize, align: usize) -> Need {
        let state = &*self.state;
        let header = usize::from(state.header);
        Need {
            len: granules + header,
            align: (align >> state.shift()).max(1),
            skew: state.phase() + header,
            min_gap: state.min_remainder as usize,
        }
    }

    /// Raises the index until its root covers `top`.
    #[inline(always)]
    fn raise_index(&mut self) {
        if self.must_rise() {
            self.shared(|heap| heap.raise_rarely());
        }
    }

    /// Runs `act`, which is compiled once and not once for each index, on this heap.
    ///
    /// It is given a copy of the references that the heap consists of, for the compiler must assume that a call behind
    /// a table of functions keeps what it is given: it would read the heap's own from memory again and again.
    #[cold]
    #[inline(never)]
    fn shared<R>(&mut self, act: impl for<'a> FnOnce(&mut Heap<'a, AnyIndex<'a>>) -> R) -> R {
        let (map, index) = (self.map.reborrow(), self.index.reborrow());
        let mut heap =
            Heap { state: &mut *self.state, counters: self.counters.as_deref_mut(), map, limit: self.limit, index };
        act(&mut heap)
    }

    /// Extends the heap to `heap_size` bytes, if it is shorter.
    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError> {
        let (shift, top) = (self.state.shift(), self.state.top);
        let end = heap_size >> shift;
        if end > self.limit {
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

impl<'m, I: Index<'m>> Heap<'m, I> {
    /// Refuses a choice that would leave a short block or hole beyond the limit for those.
    #[inline(always)]
    fn shun_short(&mut self, choice: Choice, need: &Need) -> Result<(), AllocateError> {
        let Some(limit) = self.index.short_limit() else { return Ok(()) };
        let behind = |start: usize| (start + need.gap(start)).saturating_add(need.len);
        let reaches_to = match choice {
            Choice::Hole(hole) => hole.end(),
            Choice::Nowhere if self.state.growth() == Growth::Append => behind(self.state.end),
            Choice::Wilderness | Choice::Nowhere => behind(self.state.top),
        };
        if reaches_to > limit.granule && makes_short(self.state, choice, need) {
            limit.missing = reaches_to;
            return Err(AllocateError::RegionFull);
        }
        Ok(())
    }
}

impl<'m, I: Update<'m> + ?Sized> Heap<'m, I> {
    /// Whether the root of the index no longer covers `top`.
    #[inline(always)]
    fn must_rise(&self) -> bool {
        words_for(self.state.top) > 1 << self.index.root_bits(self.state.height)
    }

    /// One more piece has been cut off, and it is free.
    fn count_split(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.splits += 1;
            counters.blocks += 1;
            counters.holes += 1;
        }
    }
}

impl<'m> Heap<'m, AnyIndex<'m>> {
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
        let room = self.limit.saturating_sub(start);
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
                Some(self.state.end.saturating_add(longer).min(self.limit))
            }
        }
    }

    /// The wilderness and the `gap` behind it become a hole like any other, because the heap goes on there.
    fn settle_wilderness(&mut self, gap: usize) {
        let hole = Hole { start: self.state.top, len: self.state.wilderness() + gap };
        self.state.top = hole.end();
        self.raise_rarely();
        self.index_insert_rarely(hole);
        self.map.mark_hole(hole.start);
        self.map.mark_block(self.state.top);
    }

    /// As [`Heap::index_insert`], where that is rare.
    #[cold]
    #[inline(never)]
    fn index_insert_rarely(&mut self, hole: Hole) {
        self.index_insert(hole);
    }

    /// Does the same as [`Heap::index_remove`], where that is rare.
    #[cold]
    #[inline(never)]
    fn index_remove_rarely(&mut self, hole: Hole) {
        self.index_remove(hole);
    }

    /// Does the same as [`Heap::index_moved`], where that is rare.
    #[cold]
    #[inline(never)]
    fn index_moved_rarely(&mut self, from: Hole, to: Hole) {
        self.index_moved(from, to);
    }

    /// As [`Heap::raise_index`], where that is rare.
    #[cold]
    #[inline(never)]
    fn raise_rarely(&mut self) {
        while self.must_rise() {
            if self.map.has_summary() {
                self.index.raise(&self.map, self.state.height);
            }
            self.state.height += 1;
        }
    }
}

/// Returns whether a choice leaves a short block or hole.
#[cold]
#[inline(never)]
fn makes_short(state: &State, choice: Choice, need: &Need) -> bool {
    let is_short = |len: usize| (1..=CLASSES).contains(&len);
    let (before, behind) = match choice {
        Choice::Hole(hole) => (need.gap(hole.start), hole.len - need.gap(hole.start) - need.len),
        // The wilderness becomes a hole, together with the gap behind it.
        Choice::Nowhere if state.growth() == Growth::Append => (state.wilderness() + need.gap(state.end), 0),
        // What is left of the wilderness is in no index.
        Choice::Wilderness | Choice::Nowhere => (need.gap(state.top), 0),
    };
    is_short(need.len) || is_short(before) || is_short(behind)
}

impl<P: Choose> Engine for Fit<'_, P> {
    fn policy(&self) -> PolicyKind {
        P::KIND
    }

    #[inline]
    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        self.allocate_noted(bytes, align, unnoted)
    }

    fn allocate_soon(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        let need = self.need(bytes, align)?;
        let choice = self.choose_soon(&need);
        self.take(choice, &need, bytes, unnoted)
    }

    #[inline]
    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        self.deallocate_noted(offset, unnoted)
    }

    #[inline]
    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        self.heap.free(offset, Some(bytes), unnoted)
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        self.resize_noted(offset, old, new, unnoted)
    }

    #[inline]
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
        self.heap.check(P::KIND)
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
        let need = self.need(bytes, align)?;
        let choice = self.choose(&need);
        self.take(choice, &need, bytes, note)
    }

    #[inline]
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
        self.heap.shun_short_resize(offset, new)?;
        self.heap.shared(|heap| heap.resize_in_place(offset, old, new, note))
    }

    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError> {
        self.heap.extend(heap_size, note)
    }
}
