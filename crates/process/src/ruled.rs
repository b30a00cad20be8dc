//! A growing heap under the rules that the process runs under.

use core::alloc::Layout;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use heapwright_heaps::{Chosen, CreateError, GrowingHeap, OutOfMemory, PolicyKind};
use heapwright_rules::{RuleSet, Rules};

/// The longest heap under a policy: as long as fits, with its metadata, where other code draws no addresses at random.
const MOST_BYTES: usize = if usize::BITS == 64 { (8u64 << 40) as usize } else { 1 << 30 };

/// The heap, and its rules.
pub(crate) struct Ruled {
    heap: GrowingHeap<Chosen>,
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
        let heap = GrowingHeap::within(policy, &settings)?;
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
        self.heap.requests().bytes(0).is_none()
    }

    #[inline(always)]
    fn observe_payload(&mut self) {
        let header = self.heap.rules().header;
        if header != 0
            && let Some(counters) = self.heap.counters()
        {
            let headers = counters.blocks * u64::from(header);
            self.most_payload = self.most_payload.max(counters.heap_size - headers);
        }
    }

    /// Returns the most bytes of blocks, used and free, without their headers; `None` where blocks have no headers.
    pub(crate) fn most_payload(&self) -> Option<u64> {
        (self.heap.rules().header != 0).then_some(self.most_payload)
    }

    /// Returns the most usable bytes of a block that is allocated for `layout`: the policies cut off what exceeds it by
    /// the least remainder, except the buddies, whose blocks are powers of two.
    pub(crate) fn longest_for(&self, layout: Layout) -> usize {
        let Rules { granule, header, min_remainder, .. } = *self.heap.rules();
        let [granule, header, min_remainder] = [granule, header, min_remainder].map(|bytes| bytes as usize);
        let bytes = self.heap.requests().raised(layout.size()).max(1);
        if self.heap.policy() == PolicyKind::Buddy {
            let whole = (bytes + header).max(layout.align()).max(granule);
            return whole.checked_next_power_of_two().unwrap_or(usize::MAX);
        }
        bytes.next_multiple_of(granule) + min_remainder.max(1).next_multiple_of(granule) - granule
    }
}

impl Deref for Ruled {
    type Target = GrowingHeap<Chosen>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.heap
    }
}

impl DerefMut for Ruled {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.heap
    }
}
