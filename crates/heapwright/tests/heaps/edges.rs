//! Short regions, full regions, odd layouts and bad frees.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use heapwright::{
    AllocateError, BestFit, COMPACT, Chosen, FirstFit, FixedHeap, FreeError, PolicyKind, ReallocateError, Regions,
    Rules, RulesError, Statistics,
};

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

#[test]
fn every_region_from_256_bytes_up_holds_a_heap() {
    for policy in PolicyKind::ALL {
        for misalignment in 0..8 {
            let mut memory = [MaybeUninit::uninit(); 512];
            let length = if policy == PolicyKind::Buddy { 400 } else { 256 };
            let region = &mut memory[misalignment..][..length];
            assert!(FixedHeap::with_policy(policy, region).is_ok(), "{} at {misalignment}", policy.name());
        }
    }
}

/// The error names the least length: one byte less is refused with the same length, and the length itself is enough.
#[test]
fn a_region_that_is_too_short_is_refused_with_the_least_length() {
    let mut memory = vec![MaybeUninit::uninit(); 20_000];
    for policy in PolicyKind::ALL {
        for granule in [1, 8, 16, 128, 4096] {
            let rules = Rules { granule, ..COMPACT };
            for misalignment in [0, 1, 7] {
                let memory = &mut memory[misalignment..];
                let mut refused = |length: usize| match FixedHeap::<Chosen>::with(policy, &mut memory[..length], &rules)
                {
                    Ok(heap) => {
                        assert!(heap.capacity() >= granule as usize);
                        None
                    }
                    Err(RulesError::TooShort { least }) => Some(least),
                    Err(other) => panic!("{other}"),
                };
                let least = refused(0).expect("nothing is too short");
                assert_eq!((refused(least), refused(least - 1)), (None, Some(least)), "{} {granule}", policy.name());
            }
            let least = FixedHeap::<Chosen>::least_region(policy, &rules).expect("the rules are valid");
            assert!(least >= granule as usize && least < 16_384, "{least}");
        }
    }
    for policy in PolicyKind::ALL {
        // What the documentation of `with_policy` says, wherever the region begins.
        let most = if policy == PolicyKind::Buddy { 111 } else { 87 };
        for misalignment in 0..16 {
            let held = FixedHeap::with_policy(policy, &mut memory[misalignment..][..most]);
            assert!(held.is_ok(), "{} {misalignment}", policy.name());
        }
    }
    let mut short = [MaybeUninit::uninit(); 40];
    let error = FixedHeap::with_policy(PolicyKind::Best, &mut short).err().expect("40 bytes are too short");
    assert!(error.to_string().contains("it needs"), "{error}");
}

/// A region at a multiple of its granule: its capacity is exactly its length.
#[repr(align(128))]
struct Exercise([MaybeUninit<u8>; 1024]);

/// 1 KiB of eight blocks, the least buddy of 128 bytes: an exercise's region. The metadata lies elsewhere.
#[test]
fn a_region_of_exactly_eight_blocks_is_a_heap() {
    let rules = Rules { granule: 128, ..Rules::default() };
    for policy in PolicyKind::ALL {
        let mut region = Exercise([MaybeUninit::uninit(); 1024]);
        let mut metadata = vec![0; FixedHeap::<Chosen>::metadata_cells(policy, 1024, &rules).expect("rules")];
        let mut heap = FixedHeap::<Chosen>::beside(policy, &mut region.0, &mut metadata, &rules).expect("a heap");
        assert_eq!(heap.capacity(), 1024);
        let layout = Layout::from_size_align(128, 1).expect("a layout");
        let blocks: Vec<_> = (0..8).map(|_| heap.allocate(layout).expect("a block")).collect();
        assert!(heap.allocate(layout).is_err(), "{}", policy.name());
        for block in blocks {
            // SAFETY: the block was allocated above with this layout, and is freed once.
            unsafe { heap.deallocate(block.cast(), layout) }.expect("a block");
        }
        assert!(heap.allocate(Layout::from_size_align(1024, 1).expect("a layout")).is_ok(), "{}", policy.name());
    }
}

#[test]
fn rules_that_make_no_sense_are_named() {
    let mut region = [MaybeUninit::uninit(); 1024];
    let granule = Rules { granule: 24, ..COMPACT };
    assert_eq!(FixedHeap::<FirstFit>::with((), &mut region, &granule).err(), Some(RulesError::Granule));
    let header = Rules { header: 5, ..COMPACT };
    assert_eq!(FixedHeap::<FirstFit>::carve((), &mut region, &header).err(), Some(RulesError::Header));
    let mut short = [0; 3];
    let beside = FixedHeap::<FirstFit>::beside((), &mut region, &mut short, &COMPACT);
    assert_eq!(beside.err(), Some(RulesError::MetadataTooShort));
    let fine = Rules { phase: 3, ..COMPACT };
    assert!(FixedHeap::<FirstFit>::with((), &mut region, &fine).is_ok());
}

#[test]
fn no_granule_is_left_over() {
    let mut memory = vec![MaybeUninit::uninit(); 70_000];
    for policy in PolicyKind::ALL {
        for length in [600, 1024, 8_300, 65_536, 70_000] {
            let heap = FixedHeap::with_policy(policy, &mut memory[..length]).expect("a heap");
            let capacity = heap.capacity();
            let metadata = 8 * FixedHeap::<Chosen>::metadata_cells(policy, capacity + 8, &COMPACT).expect("rules");
            let align = if policy == PolicyKind::Buddy { length / 16 } else { 8 };
            assert!(metadata + capacity + 8 + align + 8 > length, "{} leaves room in {length}", policy.name());
        }
    }
}

#[test]
fn a_full_heap_refuses_and_serves_again_after_a_free() {
    for policy in PolicyKind::ALL {
        let mut region = [MaybeUninit::uninit(); 2048];
        let mut heap = FixedHeap::with_policy(policy, &mut region).expect("a heap");
        let mut blocks = Vec::new();
        while let Ok(block) = heap.allocate(layout(64, 8)) {
            blocks.push(block.cast::<u8>());
        }
        assert!(blocks.len() >= 24, "{}: {}", policy.name(), blocks.len());
        assert_eq!(heap.allocate(layout(usize::MAX / 4, 1)), Err(AllocateError::RegionFull));
        // SAFETY: the block is freed once and not used any more.
        unsafe { heap.deallocate(blocks[5], layout(64, 8)) }.expect("a used block");
        assert_eq!(heap.allocate(layout(64, 8)).map(NonNull::cast), Ok(blocks[5]));
        heap.check().expect("a sound heap");
    }
}

#[test]
fn size_zero_takes_no_memory() {
    let mut region = [MaybeUninit::uninit(); 256];
    let mut heap = FixedHeap::<BestFit>::new(&mut region).expect("a heap");
    let nothing = heap.allocate(layout(0, 64)).expect("nothing fits everywhere");
    assert_eq!((nothing.len(), nothing.addr().get()), (0, 64));
    // SAFETY: blocks of size 0 are no blocks; the others are used where they are.
    unsafe {
        assert_eq!(heap.deallocate(nothing.cast(), layout(0, 64)), Ok(()));
        assert_eq!(heap.deallocate_unsized(nothing.cast()), Err(FreeError::NotABlock));
        let some = heap.grow(nothing.cast(), layout(0, 64), layout(16, 1)).expect("room");
        assert!(heap.contains(some.cast()));
        let none = heap.shrink(some.cast(), layout(16, 1), layout(0, 1)).expect("always");
        assert_eq!(none.len(), 0);
        assert_eq!(heap.usable_size(some.cast()), None);
    }
    assert_eq!(heap.holes().total, heap.capacity());
}

#[test]
fn alignments_are_met_or_refused() {
    let mut memory = vec![MaybeUninit::uninit(); 1 << 16];
    for policy in PolicyKind::ALL {
        let mut heap = FixedHeap::with_policy(policy, &mut memory[8..]).expect("a heap");
        for shift in 0..10 {
            let block = heap.allocate(layout(24, 1 << shift)).expect("room");
            assert!(block.addr().get().is_multiple_of(1 << shift), "{} at 2^{shift}", policy.name());
        }
        #[cfg(target_pointer_width = "64")]
        for shift in [31, 40, 62] {
            assert_eq!(heap.allocate(layout(1, 1 << shift)), Err(AllocateError::BadAlignment));
        }
        let largest = heap.allocate(layout(1, 1 << 30));
        assert!(largest.is_err() || largest.is_ok_and(|block| block.addr().get().is_multiple_of(1 << 30)));
        heap.check().expect("a sound heap");
    }
}

#[test]
fn bad_frees_are_told_apart_and_change_nothing() {
    let mut region = [MaybeUninit::uninit(); 1024];
    let rules = Rules { statistics: Statistics::Kept, ..COMPACT };
    let mut heap = FixedHeap::<FirstFit>::with((), &mut region, &rules).expect("a heap");
    let block = heap.allocate(layout(40, 8)).expect("room").cast::<u8>();
    let before = heap.counters();
    let outside = NonNull::from(&mut 0u64).cast::<u8>();
    // SAFETY: none of these frees is granted.
    unsafe {
        assert_eq!(heap.deallocate_unsized(outside), Err(FreeError::NotABlock));
        assert_eq!(heap.deallocate_unsized(block.add(8)), Err(FreeError::NotABlock));
        assert_eq!(heap.deallocate_unsized(block.add(41)), Err(FreeError::AlreadyFree));
        assert_eq!(heap.deallocate_unsized(block.add(48)), Err(FreeError::AlreadyFree));
        assert_eq!(heap.deallocate(block, layout(41, 1)), Err(FreeError::WrongSize));
        let grown = heap.grow(outside, layout(8, 8), layout(16, 8));
        assert_eq!(grown, Err(ReallocateError::NotABlock));
        let longer = heap.grow(block, layout(48, 8), layout(64, 8));
        assert_eq!(longer, Err(ReallocateError::NotABlock));
        let full = heap.grow(block, layout(40, 8), layout(4096, 8));
        assert_eq!(full, Err(ReallocateError::Allocate(AllocateError::RegionFull)));
    }
    assert_eq!(heap.counters(), before);
    heap.check().expect("a sound heap");
}

#[test]
fn a_move_for_alignment_that_fails_leaves_the_block_as_long_as_it_was() {
    let mut region = [MaybeUninit::uninit(); 256];
    let mut heap = FixedHeap::<BestFit>::new(&mut region).expect("a heap");
    let all = layout(heap.capacity(), 8);
    let block = heap.allocate(all).expect("the whole region").cast::<u8>();
    // SAFETY: the block stays where it is.
    let moved = unsafe { heap.shrink(block, all, layout(8, 1 << 20)) };
    assert_eq!(moved, Err(ReallocateError::Allocate(AllocateError::RegionFull)));
    assert_eq!(heap.usable_size(block), Some(all.size()));
}

#[test]
fn zeroed_blocks_are_zero() {
    let mut region = [MaybeUninit::new(0xEEu8); 1024];
    let mut heap = FixedHeap::<FirstFit>::new(&mut region).expect("a heap");
    let block = heap.allocate_zeroed(layout(500, 1)).expect("room");
    // SAFETY: the block is initialised, and nothing else uses it.
    assert!(unsafe { block.as_ref() }.iter().all(|&byte| byte == 0));
}

#[test]
fn a_heap_over_regions_spills_into_the_next_and_moves_blocks_between_them() {
    let (mut first, mut second) = ([MaybeUninit::uninit(); 256], [MaybeUninit::uninit(); 2048]);
    let heaps = [FixedHeap::<FirstFit>::new(&mut first), FixedHeap::new(&mut second)].map(|heap| heap.expect("a heap"));
    let mut regions = Regions::new(heaps);
    let (short, long) = (layout(100, 8), layout(1000, 8));
    let block = regions.allocate(short).expect("room").cast::<u8>();
    assert!(regions.heaps()[0].contains(block));
    // SAFETY: each block is used only where it is, and freed once.
    unsafe {
        block.write_bytes(7, 100);
        let moved = regions.reallocate(block, short, long).expect("room in the second").cast::<u8>();
        assert!(regions.heaps()[1].contains(moved));
        assert!((0..100).all(|n| moved.add(n).read() == 7));
        assert_eq!(regions.deallocate(block, short), Err(FreeError::AlreadyFree));
        assert_eq!(regions.deallocate_unsized(NonNull::dangling()), Err(FreeError::NotABlock));
        assert_eq!(regions.usable_size(moved), Some(1000));
        assert_eq!(regions.deallocate(moved, long), Ok(()));
    }
    assert_eq!(regions.allocate(layout(5000, 1)), Err(AllocateError::RegionFull));
    regions.check().expect("sound heaps");
}

/// What the example `one_kilobyte` shows, kept from slipping. The handles of debug builds are longer, for their checks.
#[cfg(not(debug_assertions))]
#[test]
fn a_kilobyte_with_everything_inside_serves_this_much() {
    fn serve<P: heapwright::Policy<Choice = ()>>() {
        for (request, percent) in [(16, 85.0), (24, 85.0), (40, 85.0), (100, 78.0)] {
            let mut region = Kilobyte([MaybeUninit::uninit(); 1024]);
            let heap = FixedHeap::<P>::carve((), &mut region.0, &COMPACT).expect("a heap");
            let policy = heap.policy().name();
            let served = std::iter::from_fn(|| heap.allocate(layout(request, 8)).ok()).count() * request;
            assert!(served as f64 / 10.24 >= percent, "{policy}: {served} bytes at {request}");
        }
    }
    serve::<FirstFit>();
    serve::<heapwright::NextFit>();
    serve::<BestFit>();
    serve::<heapwright::WorstFit>();
    serve::<heapwright::RandomFit>();
    serve::<heapwright::GoodFit>();
}

#[cfg(not(debug_assertions))]
#[repr(align(8))]
struct Kilobyte([MaybeUninit<u8>; 1024]);
