//! Fixed heaps as allocators: lazily made, shared between threads, exhausted without harm.

use std::alloc::{GlobalAlloc, Layout};
use std::mem::MaybeUninit;

use heapwright::{Buddies, COMPACT, ClaimError, FirstFit, LockedHeap, NextFit, PolicyKind, StaticHeap};

#[test]
fn threads_share_a_static_heap() {
    static HEAP: StaticHeap<65536, NextFit> = StaticHeap::new();
    std::thread::scope(|scope| {
        for id in 0..4u8 {
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 10 } else { 500usize } {
                    let layout = Layout::from_size_align(1 + round % 97, 8).expect("a layout");
                    let longer = layout.size() + 50;
                    // SAFETY: each block is used by this thread only, within its size, and freed once.
                    unsafe {
                        let block = HEAP.alloc(layout);
                        block.write_bytes(id, layout.size());
                        let block = HEAP.realloc(block, layout, longer);
                        assert!((0..layout.size()).all(|n| block.add(n).read() == id));
                        HEAP.dealloc(block, Layout::from_size_align(longer, 8).expect("a layout"));
                    }
                }
            });
        }
    });
    let (holes, check) = HEAP.with(|heap| (heap.holes().count, heap.check())).expect("a heap");
    assert_eq!((holes, check), (1, Ok(())));
}

#[test]
fn a_static_heap_that_is_too_short_or_used_up_grants_nothing() {
    static NONE: StaticHeap<64, FirstFit> = StaticHeap::new();
    static SOME: StaticHeap<1024, Buddies> = StaticHeap::new();
    // SAFETY: the layout has a size.
    unsafe {
        assert!(NONE.alloc(Layout::new::<u64>()).is_null());
        assert!(SOME.alloc(Layout::new::<[u8; 1024]>()).is_null());
        let zeroed = SOME.alloc_zeroed(Layout::new::<[u8; 64]>());
        assert!((0..64).all(|n| zeroed.add(n).read() == 0));
    }
    assert!(NONE.with(|_| ()).is_none());
}

#[test]
fn a_static_heap_that_was_moved_grants_nothing_any_more() {
    let heap = Box::new(StaticHeap::<1024, FirstFit>::new());
    // SAFETY: the layout has a size.
    assert!(!unsafe { heap.alloc(Layout::new::<u64>()) }.is_null());
    let moved = std::hint::black_box([*heap]);
    // SAFETY: as above.
    assert!(unsafe { moved[0].alloc(Layout::new::<u64>()) }.is_null());
}

#[test]
fn a_locked_heap_claims_one_region() {
    static HEAP: LockedHeap = LockedHeap::new();
    static mut FIRST: [MaybeUninit<u8>; 1024] = [MaybeUninit::uninit(); 1024];
    static mut SECOND: [MaybeUninit<u8>; 1024] = [MaybeUninit::uninit(); 1024];
    // SAFETY: each is taken once.
    let [first, second] = [&raw mut FIRST, &raw mut SECOND].map(|region| unsafe { &mut *region });
    let (short, rest) = first.split_at_mut(64);
    // SAFETY: the layout has a size.
    assert!(unsafe { HEAP.alloc(Layout::new::<u64>()) }.is_null());
    assert!(matches!(HEAP.claim(PolicyKind::Worst, short, &COMPACT), Err(ClaimError::Rules(_))));
    assert_eq!(HEAP.claim(PolicyKind::Worst, rest, &COMPACT), Ok(()));
    assert_eq!(HEAP.claim(PolicyKind::Worst, second, &COMPACT), Err(ClaimError::Taken));
    // SAFETY: the layout has a size.
    assert!(!unsafe { HEAP.alloc(Layout::new::<u64>()) }.is_null());
    assert_eq!(HEAP.with(|heap| heap.policy()), Some(PolicyKind::Worst));
}
