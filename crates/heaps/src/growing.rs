//! The growing heap.
//!
//! A long range of address space is reserved once and for all; the engine places blocks in it and the region commits
//! memory behind them. Frees mark whole pages that came to lie in holes; when enough of them have
//! gathered, one sweep gives them back to the system. Blocks never move and have no headers.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, page_size, round_to_pages};
use heapwright_placement::{Engine, Growth, PolicyKind, Rules, RulesError, Statistics};

use crate::policy::{Chosen, Policy};

mod dirty;
mod global;
mod inspect;
mod region;
mod release;
mod resize;

use dirty::DirtyPages;
pub use global::GlobalHeap;
use region::{MAX_ALIGN, Region};
pub use release::PageReturns;

/// The shortest region that a heap makes do with when address space is short.
const LEAST_CAPACITY: usize = 1 << 20;

/// When memory that a heap grows by is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Page by page, as blocks are written to.
    WhenTouched,
    /// The next stretch as a whole when the last was written to, in a heap of more than 1 MiB: one call to the system
    /// instead of many page faults.
    Ahead,
}

/// What can be chosen about a [`GrowingHeap`] besides its policy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much address space to reserve, in bytes; halved until the system grants it. 1 TiB unless told otherwise.
    pub capacity: usize,
    /// The smallest unit of placement in bytes, and the least alignment: a power of two up to 4096. 16 unless told otherwise.
    pub granule: u32,
    /// Pages in holes are given back when this many bytes of them have gathered, or a part of the heap if that is more.
    /// 32 MiB unless told otherwise: about as much as other allocators keep.
    pub keep: usize,
    /// Which part of the heap, as a divisor, not 0. A quarter unless told otherwise: at most one fault for every four bytes
    /// that stay.
    pub keep_part: usize,
    /// When memory is backed. Ahead unless told otherwise.
    pub backing: Backing,
    /// Where random fit starts its generator.
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

/// Why a heap could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The settings make no sense.
    Rules(RulesError),
    /// The system has not even a little address space.
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

/// A request was not met: the heap's address space is used up, the system has no memory, or the alignment is above 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory: the heap's address space is used up, or the system refused to back more of it")
    }
}

impl core::error::Error for OutOfMemory {}

/// A heap that grows with what is asked of it, under a policy chosen by type or, as `GrowingHeap<Chosen>`, at run time.
///
/// Granules are 16 bytes and so is the least alignment. Allocation and free take the policy's bounded time, plus now and
/// then a call to the system when the heap grows and a sweep when much of it has become free.
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
    engine: P::Engine<'static>,
    region: Region,
    dirty: DirtyPages,
    returns: PageReturns,
    granule: usize,
    keep: usize,
    keep_part: usize,
    /// What the engine's metadata lies in; goes after the engine.
    metadata: Reservation,
}

// SAFETY: the heap owns its engine, its metadata and its memory; nothing of it is tied to a thread.
unsafe impl<P: Policy> Send for GrowingHeap<P> {}

impl GrowingHeap<Chosen> {
    /// A heap under `policy` with the usual settings.
    ///
    /// # Errors
    /// [`CreateError::Refused`].
    pub fn with_policy(policy: PolicyKind) -> Result<Self, CreateError> {
        Self::with(policy, &Settings::default())
    }
}

impl<P: Policy<Choice = ()>> GrowingHeap<P> {
    /// A heap with the usual settings.
    ///
    /// # Errors
    /// [`CreateError::Refused`].
    pub fn new() -> Result<Self, CreateError> {
        Self::with((), &Settings::default())
    }
}

impl<P: Policy> GrowingHeap<P> {
    /// A heap with the given settings.
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
        // SAFETY: the metadata is fresh, thus zero, long enough, and kept for as long as the engine.
        let mut engine = unsafe { P::create_zeroed(choice, metadata.base().cast(), capacity, &rules) }?;
        P::seed(&mut engine, settings.seed);
        let (returns, granule) = (PageReturns::default(), settings.granule as usize);
        let (keep, keep_part) = (settings.keep, settings.keep_part.max(1));
        Ok(GrowingHeap { engine, region, dirty, returns, granule, keep, keep_part, metadata })
    }

    /// A block for `layout` (a size of 0 is taken as 1); its contents are whatever they were.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the heap is as before.
    #[inline]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let offset = self.place(layout)?;
        Ok(self.region.pointer(offset))
    }

    /// A block for `layout` that is all zeros. What was never used before is known to be zero and not touched.
    ///
    /// # Errors
    /// As [`GrowingHeap::allocate`].
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let untouched = self.region.frontier();
        let offset = self.place(layout)?;
        let end = untouched.min(offset + layout.size());
        if offset < end {
            // SAFETY: the range lies within the block, which is new.
            unsafe { self.region.zero(offset, end) };
        }
        Ok(self.region.pointer(offset))
    }

    /// Places a block and backs it with memory.
    #[inline]
    fn place(&mut self, layout: Layout) -> Result<usize, OutOfMemory> {
        if layout.align() > MAX_ALIGN {
            return Err(OutOfMemory);
        }
        let offset = self.engine.allocate(layout.size(), layout.align()).map_err(|_| OutOfMemory)?;
        if self.may_cross_frontier(offset, layout.size().max(layout.align())) {
            self.back(offset, layout.size())?;
        }
        Ok(offset)
    }

    /// Whether a block at `offset` for `bytes` may reach above the frontier: no policy makes a block twice as long as asked
    /// for in granules.
    #[inline(always)]
    fn may_cross_frontier(&self, offset: usize, bytes: usize) -> bool {
        offset + 2 * bytes + 2 * self.granule > self.region.frontier()
    }

    /// Backs the new block at `offset` with memory, or frees it again.
    #[cold]
    #[inline(never)]
    fn back(&mut self, offset: usize, bytes: usize) -> Result<(), OutOfMemory> {
        let end = offset + self.engine.usable_size(offset).unwrap_or(bytes);
        self.region.reach(end).map_err(|Refused| self.take_back(offset, bytes))
    }

    /// Frees a block again that could not be backed. (Apart: what all programs run is short and lies together.)
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, offset: usize, bytes: usize) -> OutOfMemory {
        let _ = self.engine.deallocate_sized(offset, bytes);
        OutOfMemory
    }
}

/// Whether the system would also grant eight times as much as the metadata: the rest of the process needs addresses too
/// and, where the system accounts strictly for what it grants, memory.
fn leave_room(metadata: usize) -> Result<(), Refused> {
    Reservation::sparse(metadata.checked_mul(8).ok_or(Refused)?).map(drop)
}
