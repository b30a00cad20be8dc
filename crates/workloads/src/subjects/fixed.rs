//! Our own heap in a region of fixed length, which includes its metadata.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use anyhow::Result;
use heapwright_heaps::{
    BestFit, Buddies, COMPACT, FirstFit, FixedHeap, GoodFit, NextFit, Policy, PolicyKind, RandomFit, Rules, WorstFit,
};

use super::super::subject::Subject;
use super::hosted::{Heap, Hosted};
use heapwright_host::lazy::Lazy;

/// The heap of `policy` in a region of `bytes` bytes.
pub fn build(policy: PolicyKind, bytes: usize) -> Result<Box<dyn Subject>> {
    match policy {
        PolicyKind::First => build_by::<FirstFit>(bytes),
        PolicyKind::Next => build_by::<NextFit>(bytes),
        PolicyKind::Best => build_by::<BestFit>(bytes),
        PolicyKind::Worst => build_by::<WorstFit>(bytes),
        PolicyKind::Random => build_by::<RandomFit>(bytes),
        PolicyKind::Good => build_by::<GoodFit>(bytes),
        PolicyKind::Buddy => build_by::<Buddies>(bytes),
    }
}

fn build_by<P: Policy<Choice = ()> + 'static>(bytes: usize) -> Result<Box<dyn Subject>> {
    let mut region = Lazy::<u8>::zeroed(bytes)?;
    let base = region.as_mut_ptr().cast::<MaybeUninit<u8>>();
    // SAFETY: the region stays mapped at the same address until the heap was dropped, and nothing else uses it.
    let slice = unsafe { std::slice::from_raw_parts_mut(base, bytes) };
    let rules = Rules { granule: 16, ..COMPACT };
    Ok(Hosted::boxed(FixedHeap::<'static, P>::with((), slice, &rules)?, region))
}

impl<P: Policy> Heap for FixedHeap<'static, P> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        FixedHeap::allocate(self, layout).ok().map(NonNull::cast)
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that this heap returned the block for this layout, and that it is freed once.
        let outcome = unsafe { self.deallocate(block, layout) };
        assert!(outcome.is_ok(), "a workload frees what it allocated, once");
    }
}
