//! The growing heap under the limits of a process, each in a child with limits of its own.
#![cfg(feature = "os")]

use std::alloc::Layout;
use std::ptr::NonNull;

use heapwright::{Chosen, GrowingHeap, Growth, PolicyKind, Settings};
use heapwright_os::refusals;

const MIB: usize = 1 << 20;

/// Runs `body` in a forked child for each policy; fails if it panics there.
fn in_a_child(body: fn(PolicyKind)) {
    for policy in PolicyKind::ALL {
        // SAFETY: the child is a copy of this thread alone; the C library makes its allocator usable in it.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let done = std::panic::catch_unwind(|| body(policy));
            // SAFETY: ends the child without the handlers of the test program.
            unsafe { libc::_exit(i32::from(done.is_err())) };
        }
        let mut status = -1;
        // SAFETY: the status is written to a local variable.
        assert!(pid > 0 && unsafe { libc::waitpid(pid, &mut status, 0) } == pid);
        assert_eq!(status, 0, "{}", policy.name());
    }
}

/// A figure of `/proc/self/status` in bytes.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

fn limit(what: libc::__rlimit_resource_t, bytes: usize) {
    let limit = libc::rlimit { rlim_cur: bytes as u64, rlim_max: bytes as u64 };
    // SAFETY: the structure lives as long as the call.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).unwrap()
}

/// Allocates blocks of `bytes` until the heap refuses; returns them.
fn fill(heap: &mut GrowingHeap<Chosen>, bytes: usize) -> Vec<NonNull<u8>> {
    let mut blocks = Vec::with_capacity(100_000);
    while let Ok(block) = heap.allocate(layout(bytes)) {
        // SAFETY: the block is new and that long.
        unsafe { block.write_bytes(1, bytes) };
        blocks.push(block);
    }
    blocks
}

#[test]
fn an_empty_heap_maps_little() {
    in_a_child(|policy| {
        let before = (status("VmSize:"), status("VmData:"));
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        heap.allocate(layout(100)).unwrap();
        assert_eq!(heap.capacity(), 1 << 40);
        let after = (status("VmSize:"), status("VmData:"));
        assert!(after.0 < before.0 + 2 * MIB && after.1 < before.1 + 2 * MIB, "{before:?} {after:?}");
    });
}

#[test]
fn most_of_what_a_limit_leaves_can_be_allocated() {
    in_a_child(|policy| {
        for (what, name) in [(libc::RLIMIT_DATA, "VmData:"), (libc::RLIMIT_AS, "VmSize:")] {
            limit(what, status(name) + 64 * MIB);
            for bytes in [1000, 100_000, MIB] {
                let mut heap = GrowingHeap::with_policy(policy).unwrap();
                let blocks = fill(&mut heap, bytes);
                let sum = blocks.len() * heap.usable_size(blocks[0]).unwrap();
                let checked = heap.check();
                for block in blocks {
                    // SAFETY: the block is not used any more.
                    unsafe { heap.deallocate(block, layout(bytes)) }.unwrap();
                }
                let again = fill(&mut heap, 8 * MIB).len();
                drop(heap);
                // The longest tables are those of random fit.
                let least = if policy == PolicyKind::Random { 57 } else { 59 };
                assert!(sum > least * MIB && checked.is_ok() && again > 0, "{name} {bytes}: {sum} {again}");
            }
        }
    });
}

#[test]
fn what_a_limit_does_not_allow_costs_nothing() {
    in_a_child(|policy| {
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        let block = heap.allocate(layout(1000)).unwrap();
        limit(libc::RLIMIT_AS, status("VmSize:") + 64 * MIB);
        let before = status("VmSize:");
        for bytes in [65 * MIB, 1 << 35, (1 << 40) - 4096, 1 << 41, isize::MAX as usize - 64] {
            assert!(heap.allocate(layout(bytes)).is_err());
            // SAFETY: the block was allocated with this layout.
            assert!(unsafe { heap.grow(block, layout(1000), layout(bytes)) }.is_err());
        }
        assert!(status("VmSize:") <= before);
        heap.check().unwrap();
    });
}

#[test]
fn locked_memory_is_what_is_used() {
    in_a_child(|policy| {
        // SAFETY: locks what is mapped from now on.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0);
        let use_one = || {
            let mut heap = GrowingHeap::with_policy(policy).unwrap();
            heap.allocate(layout(1000)).unwrap();
            (status("VmRSS:"), heap)
        };
        // The test's own stack and malloc grow at first, and are locked as well.
        drop(use_one());
        let before = status("VmRSS:");
        let (after, _heap) = use_one();
        assert!(after < before + 3 * MIB / 2, "{before} {after}");
    });
}

#[test]
fn a_limit_lowered_while_the_heap_is_used_leaves_addresses_to_others() {
    in_a_child(|policy| {
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        let block = heap.allocate(layout(32 * MIB)).unwrap();
        let before = status("VmSize:");
        limit(libc::RLIMIT_AS, before + 32 * MIB);
        std::thread::spawn(|| ()).join().unwrap();
        assert!(heap.allocate(layout(100 * MIB)).is_err());
        assert!(heap.allocate(layout(8 * MIB)).is_ok());
        // SAFETY: the block is not used any more.
        unsafe { heap.deallocate(block, layout(32 * MIB)) }.unwrap();
        heap.check().unwrap();
    });
}

/// What was freed behind the last block is given back where a limit refuses memory, and when the heap is trimmed.
#[test]
fn addresses_of_freed_blocks_are_given_back() {
    in_a_child(|policy| {
        if policy == PolicyKind::Buddy {
            return;
        }
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        limit(libc::RLIMIT_AS, status("VmSize:") + 300 * MIB);
        let before = status("VmSize:");
        let blocks = fill(&mut heap, 1_000_000);
        assert!(blocks.len() * 1_000_000 > 250 * MIB);
        for block in blocks {
            // SAFETY: the block is live, and not used any more.
            unsafe { heap.deallocate(block, layout(1_000_000)) }.unwrap();
        }
        // Short blocks need metadata that long ones do not.
        let short = fill(&mut heap, 1000);
        assert!(short.len() > 250_000, "{} blocks of 1000 bytes", short.len());
        heap.check().unwrap();
        for block in short {
            // SAFETY: as above.
            unsafe { heap.deallocate(block, layout(1000)) }.unwrap();
        }
        let peak = status("VmSize:");
        assert!(heap.retract(1) > 200 * MIB);
        assert!(status("VmSize:") < before + 32 * MIB && peak > before + 250 * MIB);
        assert_eq!(heap.retract(1), 0);
        heap.check().unwrap();
        // The heap grows again, over memory that is zero.
        let zeroed = heap.allocate_zeroed(layout(10_000_000)).unwrap();
        // SAFETY: the block is that long, and initialized.
        assert!(unsafe { std::slice::from_raw_parts(zeroed.as_ptr(), 10_000_000) }.iter().all(|&byte| byte == 0));
        heap.check().unwrap();
    });
}

/// A request that the capacity or a limit refuses changes no later placement.
#[test]
fn a_refused_request_leaves_no_trace() {
    in_a_child(|policy| {
        limit(libc::RLIMIT_DATA, status("VmData:") + 600 * MIB);
        for growth in [Growth::Append, Growth::Extend, Growth::Pages(48), Growth::Pages(64 << 10)] {
            let settings = Settings { growth, ..Settings::default() };
            let [mut asked, mut spared] = [(); 2].map(|()| GrowingHeap::<Chosen>::with(policy, &settings).unwrap());
            let place = |heap: &GrowingHeap<Chosen>, block: NonNull<u8>| block.addr().get() - heap.base().addr().get();
            let (mut random, mut live) = (fastrand::Rng::with_seed(1), Vec::new());
            for step in 0..1000 {
                if random.u8(..5) < 3 || live.is_empty() {
                    let most = 1 << random.u32(5..20);
                    let layout = layout(random.usize(1..most));
                    let blocks = (asked.allocate(layout).unwrap(), spared.allocate(layout).unwrap());
                    assert_eq!(
                        place(&asked, blocks.0),
                        place(&spared, blocks.1),
                        "{policy:?}, {growth:?}, step {step}"
                    );
                    live.push(blocks);
                } else {
                    let (one, other) = live.swap_remove(random.usize(..live.len()));
                    // SAFETY: the blocks are live, and not used any more.
                    unsafe { asked.deallocate_unsized(one).and(spared.deallocate_unsized(other)) }.unwrap();
                }
                if step % 10 == 0 {
                    for bytes in [isize::MAX as usize / 2, 5 << 40, 700 * MIB] {
                        assert!(asked.allocate(layout(bytes)).is_err());
                    }
                }
            }
            asked.check().unwrap();
            let counters = [&asked, &spared].map(|heap| heap.counters().unwrap());
            assert_eq!(counters[0].peak_heap_size, counters[1].peak_heap_size);
            assert_eq!(counters[0], counters[1], "{policy:?}, {growth:?}");
        }
    });
}

/// Where the growth rule leaves less than a page behind the last block, and where the system refuses.
#[test]
fn a_heap_that_cannot_be_retracted_is_as_long_as_before() {
    in_a_child(|policy| {
        for growth in [Growth::Append, Growth::Extend, Growth::Pages(48), Growth::Pages(64 << 10)] {
            let mut heap = GrowingHeap::<Chosen>::with(policy, &Settings { growth, ..Settings::default() }).unwrap();
            heap.allocate(layout(100)).unwrap();
            let block = heap.allocate(layout(1000)).unwrap();
            // SAFETY: the block is not used any more.
            unsafe { heap.deallocate_unsized(block) }.unwrap();
            let before = heap.counters();
            let bytes = heap.retract(4096);
            assert!(bytes == 0 && heap.counters() == before || heap.heap_size() < before.unwrap().heap_size as usize);
            let block = heap.allocate(layout(MIB)).unwrap();
            // SAFETY: as above.
            unsafe { heap.deallocate_unsized(block) }.unwrap();
            let before = heap.counters();
            refusals::everywhere(0..u64::MAX);
            let bytes = heap.retract(4096);
            refusals::nowhere();
            assert_eq!((bytes, heap.counters()), (0, before), "{growth:?}");
            heap.check().unwrap();
        }
    });
}
