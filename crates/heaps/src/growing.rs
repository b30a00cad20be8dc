//! The growing heap.
//!
//! A long range of address space is reserved once. The engine places blocks in it, and the region commits memory behind
//! them. A free marks whole pages that came to lie in holes; when enough of them are pending, one sweep purges them.
//! Blocks never move and have no headers.

use core::alloc::Layout;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, page_size, round_to_pages};
use heapwright_placement::{Engine, Growth, PolicyKind, Rules, RulesError, Statistics};

use crate::placement::Placement;
use crate::policy::{Chosen, Policy};

mod dirty;
mod global;
mod inspect;
mod region;
mod release;
mod resize;

use dirty::DirtyPages;
pub use global::GlobalHeap;
use region::Region;
pub use release::PageReturns;

/// The shortest region that is acceptable when address space is scarce.
const LEAST_CAPACITY: usize = 1 << 20;

/// Engines know the base address modulo this power of two in granules, so that blocks are aligned to no more.
const LOG2_MOST_GRANULES: u32 = 32;

/// When the memory that a heap grows into is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Page by page, as blocks are written to.
    WhenTouched,
    /// In large steps before it is touched, once the previous step was touched, in a heap of more than 1 MiB: one
    /// system call instead of many page faults.
    Ahead,
}

/// The settings of a [`GrowingHeap`] besides its policy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address space to reserve, in bytes; halved until the system grants it. Default: 1 TiB.
    pub capacity: usize,
    /// Smallest unit of placement and least alignment, in bytes: a power of two up to 4096. Default: 16.
    pub granule: u32,
    /// Pages in holes are purged when this many bytes of them are pending, or a fraction of the heap if that is more.
    /// Default: 32 MiB, about as much as other allocators retain.
    pub keep: usize,
    /// That fraction of the heap, as a divisor, not 0. Default: a quarter, which causes at most one page fault for
    /// every four bytes that stay.
    pub keep_part: usize,
    /// When memory is backed. Default: ahead.
    pub backing: Backing,
    /// Seed of random fit.
    pub seed: u64,
    /// Whether the heap keeps [`Counters`](heapwright_placement::Counters).
    pub statistics: Statistics,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            capacity: 1 << 40,
            granule: 16,
            keep: 32 << 20,
            keep_part: 4,
            backing: Backing::Ahead,
            seed: 0,
            statistics: Statistics::Kept,
        }
    }
}

/// Why a heap could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The settings are invalid.
    Rules(RulesError),
    /// The system refused even a small address space.
    Refused,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Rules(error) => error.fmt(f),
            CreateError::Refused => Refused.fmt(f),
        }
    }
}

impl core::error::Error for CreateError {}

impl From<RulesError> for CreateError {
    fn from(error: RulesError) -> Self {
        CreateError::Rules(error)
    }
}

/// A failed request: the heap's address space is used up, the system has no memory, or the alignment is too large: above
/// 2^32 granules (64 GiB), for buddies above 1 GiB.
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
    keep: usize,
    keep_part: usize,
    /// The engine's metadata; dropped after the engine.
    metadata: Reservation,
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
        let mut capacity = settings.capacity.checked_next_multiple_of(page_size()).ok_or(RulesError::Capacity)?;
        loop {
            match Self::reserve(choice, settings, capacity) {
                Err(CreateError::Refused) if capacity / 2 >= LEAST_CAPACITY => capacity /= 2,
                result => return result,
            }
        }
    }

    fn reserve(choice: P::Choice, settings: &Settings, capacity: usize) -> Result<Self, CreateError> {
        let refused = |Refused| CreateError::Refused;
        let region = Region::reserve(capacity, settings.backing).map_err(refused)?;
        let rules = Rules {
            granule: settings.granule,
            growth: Growth::Pages(64 << 10),
            phase: region.base().addr().get(),
            statistics: settings.statistics,
            ..Rules::default()
        };
        let cells = P::metadata_cells(choice, capacity, &rules)?;
        let bytes = round_to_pages(cells * 8).ok_or(RulesError::Capacity)?;
        let metadata = Reservation::sparse(bytes).map_err(refused)?;
        let dirty = DirtyPages::new(capacity).map_err(refused)?;
        leave_room(bytes).map_err(refused)?;
        // SAFETY: the metadata was just reserved, so that it is zero and used through nothing else; it is long enough,
        // and is dropped after the engine.
        let mut engine = unsafe { P::create_zeroed(choice, metadata.base().cast(), capacity, &rules) }?;
        P::seed(&mut engine, settings.seed);
        let (returns, granule) = (PageReturns::default(), settings.granule as usize);
        let (keep, keep_part) = (settings.keep, settings.keep_part.max(1));
        let placement = Placement { engine, base: region.base() };
        Ok(GrowingHeap { placement, region, dirty, returns, granule, keep, keep_part, metadata })
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

    /// Allocates a block for `layout` whose usable bytes are all zero. Memory that was never used is zero already and is
    /// not touched.
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
            unsafe { self.region.zero(offset, end) };
        }
        Ok(self.region.pointer(offset))
    }

    /// Places a block and backs it with memory.
    #[inline]
    fn place(&mut self, layout: Layout) -> Result<usize, OutOfMemory> {
        if layout.align() > self.granule << LOG2_MOST_GRANULES {
            return Err(OutOfMemory);
        }
        let offset = self.placement.engine.allocate(layout.size(), layout.align()).map_err(|_| OutOfMemory)?;
        if self.may_cross_frontier(offset, layout.size().max(layout.align())) {
            self.back(offset, layout.size())?;
        }
        Ok(offset)
    }

    /// Returns whether a block at `offset` for `bytes` may reach above the frontier: no policy makes a block twice as
    /// long as the request in granules.
    /// for in granules.
    #[inline(always)]
    fn may_cross_frontier(&self, offset: usize, bytes: usize) -> bool {
        offset + 2 * bytes + 2 * self.granule > self.region.frontier()
    }

    /// Backs the new block at `offset` with memory, or frees it if that fails.
    #[cold]
    #[inline(never)]
    fn back(&mut self, offset: usize, bytes: usize) -> Result<(), OutOfMemory> {
        let end = offset + self.placement.engine.usable_size(offset).unwrap_or(bytes);
        self.region.reach(end).map_err(|Refused| self.take_back(offset, bytes))
    }

    /// Frees a block that could not be backed. Not inlined, which keeps the common code small and contiguous.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, offset: usize, bytes: usize) -> OutOfMemory {
        let _ = self.placement.engine.deallocate_sized(offset, bytes);
        OutOfMemory
    }
}

/// Returns whether the system would also grant eight times the metadata: the rest of the process needs addresses too
/// and, under strict overcommit accounting, memory.
/// and, where the system accounts strictly for what it grants, memory.
fn leave_room(metadata: usize) -> Result<(), Refused> {
    Reservation::sparse(metadata.checked_mul(8).ok_or(Refused)?).map(drop)
}
