//! The fixed heap: places blocks in a range of bytes that the caller provides.
//!
//! A region is divided once, when the heap is created ([`Plan`]). The engine then places blocks in their part of it,
//! and this module adds the base address. The heap writes nothing between or into blocks.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;

use heapwright_placement::{AllocateError, Engine, FreeError, Growth, PolicyKind, Rules, RulesError, Statistics};

use crate::placement::Placement;
use crate::policy::{Chosen, Policy};

#[cfg(target_has_atomic = "8")]
mod locked;
mod plan;
mod regions;
mod resize;

#[cfg(target_has_atomic = "8")]
pub use locked::{ClaimError, LockedHeap, StaticHeap};
use plan::Plan;
pub use regions::Regions;
pub use resize::ReallocateError;

/// Rules for small regions, and the default of [`FixedHeap`]: 8-byte granules and no counters.
/// Metadata takes some 4 % of a long region (best and good fit 5 %, buddies 6 %, random fit 8 %), and 72 bytes of one
/// of 256 (buddies 144).
pub const COMPACT: Rules =
    Rules { granule: 8, header: 0, min_remainder: 1, growth: Growth::Fixed, phase: 0, statistics: Statistics::Off };

/// The largest alignment that a fixed heap supports, in bytes: 1 GiB.
const MAX_ALIGN: usize = 1 << 30;

/// A heap in 256 or more bytes that the caller provides, under a policy chosen by type or, as `FixedHeap<Chosen>`, at
/// run time.
///
/// The region may start at any address. Metadata lies at its low end, below the blocks, where a write past the end of a
/// block cannot reach it, or in separate memory ([`FixedHeap::beside`]). Blocks have no headers unless the rules ask
/// for them, are aligned to the granule at least, and never move on their own.
///
/// Allocation and free take the policy's bounded time. A size of 0 takes no memory: its block is a dangling pointer
/// with the requested alignment, and freeing it has no effect. A request that cannot be met returns an error and leaves
/// the heap unchanged.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use heapwright::{FixedHeap, PolicyKind};
///
/// let mut region = [MaybeUninit::uninit(); 4096];
/// let policy = PolicyKind::from_name("best").ok_or("no such policy")?;
/// let mut heap = FixedHeap::with_policy(policy, &mut region)?;
/// let layout = Layout::new::<[u32; 10]>();
/// let block = heap.allocate(layout)?.cast::<u8>();
/// // SAFETY: the block is as long as the layout says, and is freed once.
/// unsafe {
///     block.write_bytes(1, layout.size());
///     heap.deallocate(block, layout)?;
///     assert!(heap.deallocate(block, layout).is_err());
/// }
/// assert_eq!(heap.holes().count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the policy in the type, each operation is one branch shorter:
///
/// ```
/// use heapwright::{FirstFit, FixedHeap};
/// let mut region = [core::mem::MaybeUninit::uninit(); 256];
/// let heap = FixedHeap::<FirstFit>::new(&mut region)?;
/// assert_eq!(heap.policy().name(), "first");
/// # Ok::<(), heapwright::RulesError>(())
/// ```
pub struct FixedHeap<'r, P: Policy = Chosen> {
    placement: Placement<P::Engine<'r>>,
}

impl<'r, P: Policy> Deref for FixedHeap<'r, P> {
    type Target = Placement<P::Engine<'r>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.placement
    }
}

impl<'r> FixedHeap<'r, Chosen> {
    /// Creates a heap under `policy` in `region`, metadata included, by the rules of [`COMPACT`].
    ///
    /// # Errors
    /// [`RulesError::TooShort`], with the bytes that the region needs: at most 111 for buddies, and 87 for all
    /// others.
    pub fn with_policy(policy: PolicyKind, region: &'r mut [MaybeUninit<u8>]) -> Result<Self, RulesError> {
        Self::with(policy, region, &COMPACT)
    }
}

impl<'r, P: Policy<Choice = ()>> FixedHeap<'r, P> {
    /// Creates a heap in `region`, metadata included, by the rules of [`COMPACT`].
    ///
    /// # Errors
    /// As [`FixedHeap::with_policy`].
    pub fn new(region: &'r mut [MaybeUninit<u8>]) -> Result<Self, RulesError> {
        Self::with((), region, &COMPACT)
    }
}

impl<'r, P: Policy> FixedHeap<'r, P> {
    /// Creates a heap in `region`, metadata included, by the given rules, whose [`Rules::phase`] is ignored.
    ///
    /// Time: proportional to the metadata, which is zeroed.
    ///
    /// # Errors
    /// The invalid rule, or [`RulesError::TooShort`] when no granule is left beside the metadata.
    pub fn with(choice: P::Choice, region: &'r mut [MaybeUninit<u8>], rules: &Rules) -> Result<Self, RulesError> {
        let plan = Plan::within::<P>(choice, region, 0, rules)?;
        // SAFETY: the plan was made for this region, which is borrowed exclusively for 'r.
        unsafe { Self::build(choice, NonNull::from(region).cast(), &plan, rules) }
    }

    /// Creates a heap as [`FixedHeap::with`] does, with its handle in the region too, so that it uses no memory
    /// elsewhere.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use heapwright::{COMPACT, FirstFit, FixedHeap};
    /// let mut region = [MaybeUninit::uninit(); 1024];
    /// let heap: &mut FixedHeap<FirstFit> = FixedHeap::carve((), &mut region, &COMPACT)?;
    /// assert!(heap.capacity() > 850);
    /// # Ok::<(), heapwright::RulesError>(())
    /// ```
    ///
    /// # Errors
    /// As [`FixedHeap::with`].
    pub fn carve(
        choice: P::Choice,
        region: &'r mut [MaybeUninit<u8>],
        rules: &Rules,
    ) -> Result<&'r mut Self, RulesError> {
        const {
            assert!(align_of::<Self>() <= align_of::<u64>());
            assert!(size_of::<Self>().is_multiple_of(align_of::<u64>()));
        };
        let plan = Plan::within::<P>(choice, region, size_of::<Self>(), rules)?;
        let region = NonNull::from(region).cast::<u8>();
        // SAFETY: the plan was made for this region, which is borrowed exclusively for 'r. It leaves aligned room for
        // the handle in front of the metadata, where nothing else is placed.
        unsafe {
            let heap = Self::build(choice, region, &plan, rules)?;
            let handle = region.add(plan.metadata - size_of::<Self>()).cast::<Self>();
            handle.write(heap);
            Ok(&mut *handle.as_ptr())
        }
    }

    /// Creates a heap over all of `region` with its metadata in separate memory, of which [`FixedHeap::metadata_cells`]
    /// are used. A region that starts at a multiple of the granule, and is one long, has exactly its length as
    /// capacity.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use heapwright::{FixedHeap, FirstFit, Rules};
    /// let (mut region, rules) = ([MaybeUninit::uninit(); 1024], Rules { granule: 1, ..Rules::default() });
    /// let mut metadata = vec![0; FixedHeap::<FirstFit>::metadata_cells((), 1024, &rules)?];
    /// let heap = FixedHeap::<FirstFit>::beside((), &mut region, &mut metadata, &rules)?;
    /// assert_eq!(heap.capacity(), 1024);
    /// # Ok::<(), heapwright::RulesError>(())
    /// ```
    ///
    /// # Errors
    /// The invalid rule, [`RulesError::Capacity`] when the region holds no granule, or
    /// [`RulesError::MetadataTooShort`].
    pub fn beside(
        choice: P::Choice,
        region: &'r mut [MaybeUninit<u8>],
        metadata: &'r mut [u64],
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        let cells = Self::metadata_cells(choice, region.len(), rules)?;
        metadata.get_mut(..cells).ok_or(RulesError::MetadataTooShort)?.fill(0);
        // SAFETY: both slices are borrowed exclusively for 'r; the metadata is long enough and was zeroed above.
        unsafe { Self::beside_zeroed(choice, region, NonNull::from(metadata).cast(), rules) }
    }

    /// Creates a heap as [`FixedHeap::beside`] does, over metadata that is already zero; touches only the metadata in
    /// use.
    ///
    /// # Errors
    /// As [`FixedHeap::beside`].
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of [`FixedHeap::metadata_cells`] cells for `'r`, is used through
    /// nothing else, and every byte of it is 0.
    pub unsafe fn beside_zeroed(
        choice: P::Choice,
        region: &'r mut [MaybeUninit<u8>],
        metadata: NonNull<u64>,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        let plan = Plan::beside::<P>(choice, region, rules)?;
        // SAFETY: the plan's blocks lie in the region, which is borrowed exclusively for 'r. The metadata is long
        // enough, zero and used through nothing else for 'r, as this function requires.
        unsafe { Self::over(choice, NonNull::from(region).cast().add(plan.blocks), metadata, &plan, rules) }
    }

    /// Returns the bytes of the shortest region in which [`FixedHeap::with`] creates a heap, at an address that is a
    /// multiple of 4096; the heap then has one granule.
    ///
    /// # Errors
    /// The invalid rule.
    pub fn least_region(choice: P::Choice, rules: &Rules) -> Result<usize, RulesError> {
        let rules = Rules { phase: 0, ..*rules };
        rules.validate()?;
        Ok(plan::least::<P>(choice, 0, 0, &rules))
    }

    /// Returns an upper bound of the cells of 8 bytes that the metadata of a heap over `bytes` bytes takes.
    ///
    /// # Errors
    /// The invalid rule, or [`RulesError::Capacity`].
    pub fn metadata_cells(choice: P::Choice, bytes: usize, rules: &Rules) -> Result<usize, RulesError> {
        P::metadata_cells(choice, bytes, &Rules { phase: 0, ..*rules })
    }

    /// # Safety
    /// `plan` was made for the region that starts at `region`, which is valid for reads and writes and used through
    /// nothing else for `'r`.
    unsafe fn build(choice: P::Choice, region: NonNull<u8>, plan: &Plan, rules: &Rules) -> Result<Self, RulesError> {
        // SAFETY: the plan's parts lie in the region, do not overlap, and the metadata is aligned. The region is valid
        // and used through nothing else for 'r, as this function requires.
        unsafe {
            let metadata = region.add(plan.metadata).cast::<u64>();
            metadata.write_bytes(0, plan.cells);
            Self::over(choice, region.add(plan.blocks), metadata, plan, rules)
        }
    }

    /// # Safety
    /// `base` is the first of `plan.capacity` bytes, `metadata` the first of `plan.cells` cells that are zero. Both are
    /// valid for reads and writes and used through nothing else for `'r`.
    unsafe fn over(
        choice: P::Choice,
        base: NonNull<u8>,
        metadata: NonNull<u64>,
        plan: &Plan,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        let rules = Rules { phase: base.addr().get(), ..*rules };
        // SAFETY: `metadata` points to `plan.cells` zeroed cells that are used through nothing else for 'r, as this
        // function requires.
        let engine = unsafe { P::create_zeroed(choice, metadata, plan.capacity, &rules) }?;
        Ok(FixedHeap { placement: Placement { engine, base } })
    }

    /// Sets the seed of random fit; the other policies have none. The same seed and requests give the same heap.
    pub fn seed(&mut self, seed: u64) {
        P::seed(&mut self.placement.engine, seed);
    }

    /// Allocates a block for `layout` with unspecified contents.
    ///
    /// # Errors
    /// [`AllocateError::RegionFull`] when no hole fits; [`AllocateError::BadAlignment`] when the alignment is above 1
    /// GiB.
    #[inline]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocateError> {
        if layout.size() == 0 {
            return Ok(NonNull::slice_from_raw_parts(dangling(layout), 0));
        }
        if layout.align() > MAX_ALIGN {
            return Err(AllocateError::BadAlignment);
        }
        let offset = self.placement.engine.allocate(layout.size(), layout.align())?;
        // SAFETY: the engine places blocks within its capacity, which is the length of the region's part for blocks.
        let block = unsafe { self.placement.base.add(offset) };
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Allocates a zeroed block for `layout`. Time: also proportional to the size.
    ///
    /// # Errors
    /// As [`FixedHeap::allocate`].
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocateError> {
        let block = self.allocate(layout)?;
        // SAFETY: the block was just allocated with this length, and no other pointer to it exists.
        unsafe { block.cast::<u8>().write_bytes(0, block.len()) };
        Ok(block)
    }

    /// Frees a block that was allocated for `layout`, of which only the size is checked.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`], [`FreeError::AlreadyFree`], or [`FreeError::WrongSize`] when the block is too short
    /// for `layout`.
    ///
    /// # Safety
    /// If a live block starts at `block`, it is not used any more.
    #[inline]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        if layout.size() == 0 {
            return Ok(());
        }
        self.placement.engine.deallocate_sized(self.offset(block), layout.size()).map(drop)
    }

    /// Frees a block of unknown size, other than 0.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`] or [`FreeError::AlreadyFree`].
    ///
    /// # Safety
    /// If a live block starts at `block`, it is not used any more.
    #[inline]
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        self.placement.engine.deallocate(self.offset(block)).map(drop)
    }
}

/// Returns the pointer that represents a block of size 0.
fn dangling(layout: Layout) -> NonNull<u8> {
    // SAFETY: the alignment of a `Layout` is never 0.
    unsafe { NonNull::new_unchecked(core::ptr::without_provenance_mut(layout.align())) }
}
