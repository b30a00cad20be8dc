//! The growing heap.
//!
//! A long range of addresses is claimed once, and nothing of it is mapped. The engine places blocks in it. When the
//! heap has to become longer, its memory, the engine's metadata and the marks of its pages are extended together
//! (`extend`). A free marks whole pages that came to lie in holes; when enough of them are pending, one sweep purges
//! them. Blocks never move and have no headers.

use core::alloc::Layout;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, page_size};
use heapwright_placement::{AllocateError, Counters, Engine, Growth, PolicyKind, Reach, Rules, RulesError};
use heapwright_rules::Requests;

use crate::placement::Placement;
use crate::policy::{Chosen, Policy};

mod batch;
mod dirty;
mod extend;
mod global;
mod inspect;
mod metadata;
mod region;
mod release;
mod resize;
mod settings;
mod summary;
mod sweep;

use dirty::DirtyPages;
pub use global::GlobalHeap;
use metadata::{Design, Metadata};
use region::Region;
pub use release::PurgedBeside;
pub use settings::{Backing, CreateError, Room, Settings};
pub use sweep::PageReturns;
use sweep::Sweep;

/// The shortest region that is acceptable when address space is scarce.
const LEAST_CAPACITY: usize = 1 << 20;

/// Engines know the base address modulo this power of two in granules, so that blocks are aligned to no more.
const LOG2_MOST_GRANULES: u32 = 32;

/// A failed request: the heap's address space is used up, the system has no memory, or the alignment is too large:
/// above 2^32 granules (64 GiB), for buddies above 1 GiB. Also a request of 0 bytes, where the rules give it no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory: the heap's address space is used up, or the system refused to back more of it")
    }
}

impl core::error::Error for OutOfMemory {}

/// A heap that grows on demand, under a policy chosen by type or, as `GrowingHeap<Chosen>`, at run time.
///
/// The default granule and least alignment is 16 bytes. Allocation and free take the policy's bounded time, plus an
/// occasional system call when the heap grows, and a sweep when much of it has become free.
///
/// ```
/// use core::alloc::Layout;
/// use heapwright::{GrowingHeap, PolicyKind};
///
/// let mut heap = GrowingHeap::with_policy(PolicyKind::Best)?;
/// let layout = Layout::new::<[u64; 100]>();
/// let block = heap.allocate(layout)?;
/// // SAFETY: the block is as long as the layout says, and is freed once.
/// unsafe {
///     block.write_bytes(1, layout.size());
///     heap.deallocate(block, layout)?;
/// }
/// assert_eq!(heap.counters().unwrap().live, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the policy in the type, each operation is one branch shorter:
///
/// ```
/// use heapwright::{FirstFit, GrowingHeap};
/// let heap = GrowingHeap::<FirstFit>::new()?;
/// assert_eq!(heap.policy().name(), "first");
/// # Ok::<(), heapwright::CreateError>(())
/// ```
pub struct GrowingHeap<P: Policy = Chosen> {
    placement: Placement<P::Engine<'static>>,
    region: Region,
    dirty: DirtyPages,
    returns: PageReturns,
    granule: usize,
    requests: Requests,
    /// A block for n bytes ends at most this many bytes above 2n.
    slack: usize,
    keep: usize,
    keep_part: usize,
    /// See [`GrowingHeap::purge_beside`].
    beside: PurgedBeside,
    sweep: Sweep,
    /// As far as the engine may place short blocks, see [`Reach::short`].
    short: usize,
    design: Design<P>,
    /// The engine's metadata; dropped after the engine.
    metadata: Metadata,
}

// SAFETY: the heap owns its engine, its metadata and its memory, and none of them is tied to a thread.
unsafe impl<P: Policy> Send for GrowingHeap<P> {}

impl<P: Policy> Deref for GrowingHeap<P> {
    type Target = Placement<P::Engine<'static>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.placement
    }
}

impl GrowingHeap<Chosen> {
    /// Creates a heap under `policy` with the default settings.
    ///
    /// # Errors
    /// [`CreateError::Refused`].
    pub fn with_policy(policy: PolicyKind) -> Result<Self, CreateError> {
        Self::with(policy, &Settings::default())
    }
}

impl<P: Policy<Choice = ()>> GrowingHeap<P> {
    /// Creates a heap with the default settings.
    ///
    /// # Errors
    /// [`CreateError::Refused`].
    pub fn new() -> Result<Self, CreateError> {
        Self::with((), &Settings::default())
    }
}

impl<P: Policy> GrowingHeap<P> {
    /// Creates a heap with the given settings.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn with(choice: P::Choice, settings: &Settings) -> Result<Self, CreateError> {
        let mut settings = *settings;
        if settings.growth != Growth::Fixed {
            settings.capacity = settings.capacity.checked_next_multiple_of(page_size()).ok_or(RulesError::Capacity)?;
        }
        Self::within(choice, &settings)
    }

    /// As [`GrowingHeap::with`], but the heap gets no longer than its capacity, also where that is no whole page.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn within(choice: P::Choice, settings: &Settings) -> Result<Self, CreateError> {
        Self::with_tables(choice, settings, |_| Room { before: 0, after: 0 }).map(|(heap, ..)| heap)
    }

    /// As [`GrowingHeap::within`]. Together with its own tables the heap claims the addresses that `room` returns for a
    /// capacity, for further ones, and returns them: of ranges that are claimed together, the system looks for one, and
    /// what is used first of them shares the processor's page tables.
    ///
    /// # Errors
    /// [`CreateError`].
    #[cold]
    pub fn with_tables(
        choice: P::Choice,
        settings: &Settings,
        room: impl Fn(usize) -> Room,
    ) -> Result<(Self, Reservation, Reservation), CreateError> {
        settings.requests.validate().map_err(|_| CreateError::Align)?;
        if settings.growth == Growth::Fixed {
            return Self::claim(choice, settings, settings.capacity, room(settings.capacity));
        }
        let mut capacity = settings.capacity;
        // What no heap can have is an error, not a reason to try half of it.
        let pages = capacity.checked_next_multiple_of(page_size()).ok_or(RulesError::Capacity)?;
        P::metadata_cells(choice, pages, &settings.rules(0))?;
        loop {
            match Self::claim(choice, settings, capacity, room(capacity)) {
                Err(CreateError::Refused) if capacity / 2 >= LEAST_CAPACITY => capacity /= 2,
                result => return result,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn claim(
        choice: P::Choice,
        settings: &Settings,
        capacity: usize,
        further: Room,
    ) -> Result<(Self, Reservation, Reservation), CreateError> {
        let refused = |Refused| CreateError::Refused;
        let pages = capacity.checked_next_multiple_of(page_size()).ok_or(RulesError::Capacity)?;
        // The length of the metadata does not depend on the region's address.
        let of_metadata = Metadata::length_of(&Design::<P> { choice, capacity, rules: settings.rules(0) })?;
        let of_marks = DirtyPages::length(pages).map_err(refused)?;
        let lengths = [of_metadata, of_marks, further.after];
        let all = lengths.iter().try_fold(further.before, |sum, &length| sum.checked_add(length));
        let all = all.ok_or(RulesError::Capacity)?;
        let (mut region, mut before) = Region::claim(pages, all, settings.backing).map_err(refused)?;
        let mut tables = before.split_off(further.before).map_err(refused)?;
        let rules = settings.rules(region.base().addr().get());
        let design = Design { choice, capacity, rules };
        let mut metadata = Metadata::new(&design, tables.cut_table(of_metadata).map_err(refused)?)?;
        let mut dirty = DirtyPages::new(tables.cut_table(of_marks).map_err(refused)?);
        let reach = Reach::whole(if settings.growth == Growth::Fixed { capacity } else { 0 });
        if reach.end > 0 {
            region.commit(pages).map_err(refused)?;
            dirty.cover(pages).map_err(refused)?;
            metadata.reach(&design, reach).map_err(refused)?;
        }
        // SAFETY: the metadata was just claimed, so that it is zero and used through nothing else; it is long enough
        // and mapped as far as a heap with this reach needs it, which the heap may not exceed; it is dropped after the
        // engine.
        let mut engine = unsafe { P::create_zeroed(choice, metadata.cells(), capacity, &rules) }?;
        P::set_limit(&mut engine, reach);
        P::seed(&mut engine, settings.seed);
        let (returns, granule) = (PageReturns::default(), settings.granule as usize);
        let slack = 2 * granule + (settings.header + settings.min_remainder) as usize;
        let (keep, keep_part) = (settings.keep, settings.keep_part.max(1));
        let placement = Placement { engine, base: region.base() };
        let short = reach.short;
        let sweep = Sweep::beyond(keep);
        let heap = GrowingHeap {
            placement,
            region,
            dirty,
            returns,
            granule,
            requests: settings.requests,
            slack,
            keep,
            keep_part,
            beside: |_, _| None,
            sweep,
            short,
            design,
            metadata,
        };
        Ok((heap, before, tables))
    }

    /// Returns what the rules make of a request.
    #[inline(always)]
    fn request(&self, layout: Layout) -> Result<Layout, OutOfMemory> {
        let bytes = self.requests.bytes(layout.size()).ok_or(OutOfMemory)?;
        let layout = Layout::from_size_align(bytes, self.requests.align(layout.align())).map_err(|_| OutOfMemory)?;
        if layout.align() > self.granule << LOG2_MOST_GRANULES { Err(OutOfMemory) } else { Ok(layout) }
    }

    /// Returns the rules by which blocks are placed.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.design.rules
    }

    /// Returns what the policy decides by besides the holes.
    #[inline(always)]
    pub(crate) fn cursor(&self) -> u64 {
        P::cursor(&self.placement.engine)
    }

    /// Returns the counters, where they lie.
    #[inline(always)]
    pub(crate) fn counters_mut(&mut self) -> Option<&mut Counters> {
        P::counters_mut(&mut self.placement.engine)
    }

    /// Returns how the heap reads requests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Allocates a block for `layout`, with a size of at least 1, with unspecified contents.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the heap is unchanged.
    #[inline]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let offset = self.place(layout)?;
        Ok(self.region.pointer(offset))
    }

    /// Allocates a block for `layout` whose usable bytes are all zero. Memory that was never used is zero already and
    /// is not touched.
    ///
    /// # Errors
    /// As [`GrowingHeap::allocate`].
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let untouched = self.region.frontier();
        let offset = self.place(layout)?;
        let usable = self.placement.engine.usable_size(offset).unwrap_or(layout.size());
        let end = untouched.min(offset + usable);
        if offset < end {
            // SAFETY: the range lies within the block, which was just allocated and committed, and which no other
            // pointer refers to.
            unsafe { self.region.clear(offset, end) };
        }
        Ok(self.region.pointer(offset))
    }

    /// Places a block and backs it with memory.
    #[inline]
    fn place(&mut self, layout: Layout) -> Result<usize, OutOfMemory> {
        let layout = self.request(layout)?;
        let placed = self.placement.engine.allocate(layout.size(), layout.align());
        self.back_placed(placed, layout)
    }

    /// As [`GrowingHeap::allocate`], in bounded time also with an alignment, where another hole than the policy's may
    /// be taken (see [`Engine::allocate_soon`]).
    ///
    /// # Errors
    /// As [`GrowingHeap::allocate`].
    pub fn allocate_soon(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let layout = self.request(layout)?;
        let placed = self.placement.engine.allocate_soon(layout.size(), layout.align());
        let offset = self.back_placed(placed, layout)?;
        Ok(self.region.pointer(offset))
    }

    /// Backs what was placed with memory; what was not is placed behind all others.
    #[inline(always)]
    fn back_placed(&mut self, placed: Result<usize, AllocateError>, layout: Layout) -> Result<usize, OutOfMemory> {
        let offset = match placed {
            Ok(offset) => offset,
            Err(_) => self.place_behind(layout)?,
        };
        if self.may_cross_frontier(offset, layout.size().max(layout.align())) {
            self.back(offset, layout.size());
        }
        Ok(offset)
    }

    /// Returns whether a block at `offset` for `bytes` may reach above the frontier: no policy makes a block twice as
    /// long as the request in granules, but for a header and a remainder that stays.
    #[inline(always)]
    fn may_cross_frontier(&self, offset: usize, bytes: usize) -> bool {
        offset + 2 * bytes + self.slack > self.region.frontier()
    }

    /// Moves the frontier above the new block at `offset`.
    #[cold]
    #[inline(never)]
    fn back(&mut self, offset: usize, bytes: usize) {
        let end = offset + self.placement.engine.usable_size(offset).unwrap_or(bytes);
        self.region.reach(end);
    }
}
