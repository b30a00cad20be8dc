//! A growing heap under the rules that the process runs under.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_heaps::{
    Chosen, CreateError, FreeError, GrowingHeap, OutOfMemory, PolicyKind, RecallingHeap, ResizeError,
};
use heapwright_rules::{RuleSet, Rules};

/// The longest heap under a policy: as long as fits, with its metadata, where other code draws no addresses at random.
const MOST_BYTES: usize = if usize::BITS == 64 { (8u64 << 40) as usize } else { 1 << 30 };

/// The heap, and its rules.
pub(crate) struct Ruled {
    heap: RecallingHeap<Chosen>,
    /// The most bytes of blocks, used and free, without their headers, behind any request; 0 where blocks have none.
    most_payload: u64,
}

impl Ruled {
    /// Creates the heap under a policy. Not inlined, which keeps the default heap's code small and contiguous.
    #[cold]
    #[inline(never)]
    pub(crate) fn new(policy: PolicyKind, rules: &RuleSet, seed: u64) -> Result<Ruled, CreateError> {
        let RuleSet { rules: Rules { granule, header, min_remainder, growth, .. }, requests, limit, .. } = *rules;
        let most = policy.most_granules().saturating_mul(granule as usize).min(MOST_BYTES);
        let settings = heapwright_heaps::Settings {
            capacity: limit.map_or(most, |limit| usize::try_from(limit).unwrap_or(usize::MAX).min(most)),
            granule,
            header,
            min_remainder,
            growth,
            requests,
            seed,
            ..Default::default()
        };
        let heap = RecallingHeap::new(GrowingHeap::within(policy, &settings)?);
        Ok(Ruled { heap, most_payload: 0 })
    }

    #[inline(always)]
    pub(crate) fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let placed = self.heap.allocate(layout);
        self.observe_payload();
        placed
    }

    pub(crate) fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let placed = self.heap.allocate_zeroed(layout);
        self.observe_payload();
        placed
    }

    /// Returns whether a request of 0 bytes gets no block, which is no failure.
    pub(crate) fn denies_zero(&self) -> bool {
        self.heap.unsettled().requests().bytes(0).is_none()
    }

    /// Where frees are put off, the heap is as it was after an earlier placement, or has more blocks and headers.
    #[inline(always)]
    fn observe_payload(&mut self) {
        let header = self.heap.unsettled().rules().header;
        if header != 0
            && let Some(counters) = self.heap.unsettled().counters()
        {
            let headers = counters.blocks * u64::from(header);
            self.most_payload = self.most_payload.max(counters.heap_size - headers);
        }
    }

    /// Returns the most bytes of blocks, used and free, without their headers; `None` where blocks have no headers.
    pub(crate) fn most_payload(&self) -> Option<u64> {
        (self.heap.unsettled().rules().header != 0).then_some(self.most_payload)
    }

    /// Returns the most usable bytes of a block that is allocated for `layout`: the policies cut off what exceeds it by
    /// the least remainder, except the buddies, whose blocks are powers of two.
    pub(crate) fn longest_for(&self, layout: Layout) -> usize {
        let heap = self.heap.unsettled();
        let Rules { granule, header, min_remainder, .. } = *heap.rules();
        let [granule, header, min_remainder] = [granule, header, min_remainder].map(|bytes| bytes as usize);
        let bytes = heap.requests().raised(layout.size()).max(1);
        if heap.policy() == PolicyKind::Buddy {
            let whole = (bytes + header).max(layout.align()).max(granule);
            return whole.checked_next_power_of_two().unwrap_or(usize::MAX);
        }
        bytes.next_multiple_of(granule) + min_remainder.max(1).next_multiple_of(granule) - granule
    }

    /// Returns the heap as the program knows it.
    pub(crate) fn settled(&mut self) -> &mut GrowingHeap<Chosen> {
        self.heap.settled()
    }

    /// # Safety
    /// If a live block starts at `block`, the program does not use it any more.
    #[inline(always)]
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        unsafe { self.heap.deallocate_unsized(block) }
    }

    /// Frees a block that was allocated for `layout`, or had its size after a resize.
    ///
    /// # Errors
    /// [`FreeError::WrongSize`] when the block is too short for `layout`, or longer than any that is allocated for it.
    ///
    /// # Safety
    /// If a live block starts at `block`, the program does not use it any more.
    pub(crate) unsafe fn free_sized(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        unsafe {
            if self.heap.put_off_free(block, layout) {
                return Ok(());
            }
            if self.usable_size(block).is_some_and(|usable| usable > self.longest_for(layout)) {
                return Err(FreeError::WrongSize);
            }
            self.heap.deallocate(block, layout)
        }
    }

    /// Resizes a block of `old` bytes in place to `new` bytes.
    ///
    /// # Safety
    /// If a live block starts at `block`, the program does not use its bytes above the new size any more.
    pub(crate) unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        old: usize,
        new: usize,
    ) -> Result<(), ResizeError> {
        // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
        unsafe { self.settled().resize_in_place(block, old, new) }
    }

    pub(crate) fn usable_size(&mut self, block: NonNull<u8>) -> Option<usize> {
        self.heap.usable_size(block)
    }
}
