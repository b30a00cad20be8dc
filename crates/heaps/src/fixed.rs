//! The fixed heap: bytes of the caller's own, and never more.
//!
//! A region is divided once, when the heap is made ([`Plan`]); from then on the engine places blocks in the part that is
//! theirs and this module adds the base address. Nothing is written between or into blocks.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use heapwright_placement::{AllocateError, Engine, FreeError, Growth, PolicyKind, Rules, RulesError, Statistics};

use crate::policy::{Chosen, Policy};

mod inspect;
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

/// Rules for small regions, and what a [`FixedHeap`] follows unless told otherwise: 8-byte granules and no counters.
/// Metadata takes about 4 % of a long region and 72 bytes of one of 256.
pub const COMPACT: Rules =
    Rules { granule: 8, header: 0, min_remainder: 1, growth: Growth::Fixed, phase: 0, statistics: Statistics::Off };

/// The largest alignment that a fixed heap grants, in bytes: 1 GiB.
const MAX_ALIGN: usize = 1 << 30;

/// A heap in bytes of the caller's own, from 256 of them up, under a policy chosen by type or, as `FixedHeap<Chosen>`, at
/// run time.
///
/// The region may start at any address. Metadata lies at its low end, below the blocks, where no block that is written past
/// its end reaches it; or in memory beside the region ([`FixedHeap::beside`]). Blocks have no headers unless the rules say
/// so, are aligned to the granule at least, and never move on their own.
///
/// Allocation and free take the policy's bounded time. A size of 0 takes no memory: its block is a dangling pointer that is
/// aligned as asked, and freeing it does nothing. What cannot be done is refused with an error, and the heap is as before.
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
    /// The address of the blocks' first byte, with the provenance of the whole region.
    base: NonNull<u8>,
    engine: P::Engine<'r>,
}

// SAFETY: the heap borrows its region and its metadata exclusively; nothing of it is tied to a thread.
unsafe impl<'r, P: Policy> Send for FixedHeap<'r, P> where P::Engine<'r>: Send {}
// SAFETY: a shared heap is only asked, never changed.
unsafe impl<'r, P: Policy> Sync for FixedHeap<'r, P> where P::Engine<'r>: Sync {}

impl<'r> FixedHeap<'r, Chosen> {
    /// A heap under `policy` in `region`, metadata included, by the rules of [`COMPACT`].
    ///
    /// # Errors
    /// [`RulesError::Capacity`] when the region is too short: buddies need some 400 bytes, all others at most 256.
    pub fn with_policy(policy: PolicyKind, region: &'r mut [MaybeUninit<u8>]) -> Result<Self, RulesError> {
        Self::with(policy, region, &COMPACT)
    }
}

impl<'r, P: Policy<Choice = ()>> FixedHeap<'r, P> {
    /// A heap in `region`, metadata included, by the rules of [`COMPACT`].
    ///
    /// # Errors
    /// As [`FixedHeap::with_policy`].
    pub fn new(region: &'r mut [MaybeUninit<u8>]) -> Result<Self, RulesError> {
        Self::with((), region, &COMPACT)
    }
}

impl<'r, P: Policy> FixedHeap<'r, P> {
    /// A heap in `region`, metadata included, by the given rules, whose [`Rules::phase`] does not matter.
    ///
    /// Time: proportional to the metadata, which is zeroed.
    ///
    /// # Errors
    /// The rule that makes no sense, or [`RulesError::Capacity`] when fewer than 16 granules are left beside the metadata.
    pub fn with(choice: P::Choice, region: &'r mut [MaybeUninit<u8>], rules: &Rules) -> Result<Self, RulesError> {
        let plan = Plan::within::<P>(choice, region, 0, rules)?;
        // SAFETY: the plan was made for this region, which is ours for 'r.
        unsafe { Self::build(choice, NonNull::from(region).cast(), &plan, rules) }
    }

    /// As [`FixedHeap::with`], with the heap's handle in the region too, so that nothing of the heap lies elsewhere.
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
        const { assert!(align_of::<Self>() <= align_of::<u64>() && size_of::<Self>().is_multiple_of(align_of::<u64>())) };
        let plan = Plan::within::<P>(choice, region, size_of::<Self>(), rules)?;
        let region = NonNull::from(region).cast::<u8>();
        // SAFETY: the plan was made for this region, which is ours for 'r, and leaves room for the handle in front of the
        // metadata, where nothing else is placed.
        unsafe {
            let heap = Self::build(choice, region, &plan, rules)?;
            let handle = region.add(plan.metadata - size_of::<Self>()).cast::<Self>();
            handle.write(heap);
            Ok(&mut *handle.as_ptr())
        }
    }

    /// A heap over all of `region` with its metadata in memory of its own, of which [`FixedHeap::metadata_cells`] are used.
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
    /// The rule that makes no sense, [`RulesError::Capacity`] when the region holds fewer than 16 granules, or
    /// [`RulesError::MetadataTooShort`].
    pub fn beside(
        choice: P::Choice,
        region: &'r mut [MaybeUninit<u8>],
        metadata: &'r mut [u64],
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        let cells = Self::metadata_cells(choice, region.len(), rules)?;
        metadata.get_mut(..cells).ok_or(RulesError::MetadataTooShort)?.fill(0);
        // SAFETY: both are ours for 'r; the metadata is long enough and zero.
        unsafe { Self::beside_zeroed(choice, region, NonNull::from(metadata).cast(), rules) }
    }

    /// As [`FixedHeap::beside`] over metadata that is known to be zero, of which only what is used is touched.
    ///
    /// # Errors
    /// As [`FixedHeap::beside`].
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of [`FixedHeap::metadata_cells`] cells for `'r`, is used through nothing
    /// else, and every byte of it is 0.
    pub unsafe fn beside_zeroed(
        choice: P::Choice,
        region: &'r mut [MaybeUninit<u8>],
        metadata: NonNull<u64>,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        let plan = Plan::beside::<P>(choice, region, rules)?;
        // SAFETY: the blocks lie in the region, which is ours for 'r; the caller's promise.
        unsafe { Self::over(choice, NonNull::from(region).cast().add(plan.blocks), metadata, &plan, rules) }
    }

    /// How many cells of 8 bytes the metadata of a heap over `bytes` takes, at most.
    ///
    /// # Errors
    /// The rule that makes no sense, or [`RulesError::Capacity`].
    pub fn metadata_cells(choice: P::Choice, bytes: usize, rules: &Rules) -> Result<usize, RulesError> {
        P::metadata_cells(choice, bytes, &Rules { phase: 0, ..*rules })
    }

    /// # Safety
    /// `plan` was made for the region that starts at `region` and is exclusively ours for `'r`.
    unsafe fn build(choice: P::Choice, region: NonNull<u8>, plan: &Plan, rules: &Rules) -> Result<Self, RulesError> {
        // SAFETY: the plan's parts lie in the region and apart, and the metadata is aligned; the caller's promise.
        unsafe {
            let metadata = region.add(plan.metadata).cast::<u64>();
            metadata.write_bytes(0, plan.cells);
            Self::over(choice, region.add(plan.blocks), metadata, plan, rules)
        }
    }

    /// # Safety
    /// `base` is the first of `plan.capacity` bytes, `metadata` the first of `plan.cells` cells that are zero; both are
    /// exclusively ours for `'r`.
    unsafe fn over(
        choice: P::Choice,
        base: NonNull<u8>,
        metadata: NonNull<u64>,
        plan: &Plan,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        let rules = Rules { phase: base.addr().get(), ..*rules };
        // SAFETY: the caller's promise.
        let engine = unsafe { P::create_zeroed(choice, metadata, plan.capacity, &rules) }?;
        Ok(FixedHeap { base, engine })
    }

    /// Sets the seed of random fit; the other policies have none. The same seed and requests give the same heap.
    pub fn seed(&mut self, seed: u64) {
        P::seed(&mut self.engine, seed);
    }

    /// A block for `layout`; its contents are whatever they were.
    ///
    /// # Errors
    /// [`AllocateError::RegionFull`] when nothing fits; [`AllocateError::BadAlignment`] when the alignment is above 1 GiB.
    #[inline]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocateError> {
        if layout.size() == 0 {
            return Ok(NonNull::slice_from_raw_parts(dangling(layout), 0));
        }
        if layout.align() > MAX_ALIGN {
            return Err(AllocateError::BadAlignment);
        }
        let offset = self.engine.allocate(layout.size(), layout.align())?;
        // SAFETY: the engine places blocks within the capacity, and so within the region.
        let block = unsafe { self.base.add(offset) };
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// A block for `layout` that is all zeros. Time: also proportional to the size.
    ///
    /// # Errors
    /// As [`FixedHeap::allocate`].
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocateError> {
        let block = self.allocate(layout)?;
        // SAFETY: the block is new and that long.
        unsafe { block.cast::<u8>().write_bytes(0, block.len()) };
        Ok(block)
    }

    /// Frees a block that was allocated for `layout`, of which only the size is looked at.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`], [`FreeError::AlreadyFree`], or [`FreeError::WrongSize`] when the block is too short for
    /// `layout`.
    ///
    /// # Safety
    /// If a used block starts at `block`, nobody uses it any more.
    #[inline]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        if layout.size() == 0 {
            return Ok(());
        }
        self.engine.deallocate_sized(self.offset(block), layout.size()).map(drop)
    }

    /// Frees a block whose size the caller does not know, and which is not of size 0.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`] or [`FreeError::AlreadyFree`].
    ///
    /// # Safety
    /// As [`FixedHeap::deallocate`].
    #[inline]
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        self.engine.deallocate(self.offset(block)).map(drop)
    }

    /// Where `address` lies as the engine sees it; far outside the heap for what is not in the region.
    #[inline(always)]
    fn offset(&self, address: NonNull<u8>) -> usize {
        address.addr().get().wrapping_sub(self.base.addr().get())
    }
}

/// What stands for a block of size 0.
fn dangling(layout: Layout) -> NonNull<u8> {
    // SAFETY: alignments are not 0.
    unsafe { NonNull::new_unchecked(core::ptr::without_provenance_mut(layout.align())) }
}
