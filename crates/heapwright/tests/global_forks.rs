//! A program whose global allocator is a growing heap, and which forks while threads allocate.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use heapwright::{BestFit, FirstFit, GlobalHeap};

#[global_allocator]
static HEAP: GlobalHeap<BestFit> = GlobalHeap::new();

/// A second heap, of a value that is moved after its first block.
fn moved_heap() -> GlobalHeap<FirstFit> {
    use std::alloc::{GlobalAlloc, Layout};
    let heap = GlobalHeap::new();
    let layout = Layout::new::<[u64; 8]>();
    // SAFETY: the layout is not empty, and the block is used no more once it is freed.
    unsafe {
        let block = heap.alloc(layout);
        assert!(!block.is_null());
        heap.dealloc(block, layout);
    }
    heap
}

fn use_heap() {
    let words: Vec<String> = (0..200).map(|number: u32| number.to_string()).collect();
    assert_eq!(words.concat().len(), 490);
}

#[test]
fn children_go_on_while_threads_allocate() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let other = moved_heap();
    drop(moved_heap());
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(|| {
                while !STOP.load(Relaxed) {
                    use_heap();
                }
            })
        })
        .collect();
    for _ in 0..300 {
        // SAFETY: the child does nothing but allocate, which this heap allows, and exits; the alarm ends one that
        // hangs.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no preconditions.
            unsafe { libc::alarm(20) };
            use_heap();
            let live = HEAP.with(|heap| heap.counters().map(|counters| counters.live)).flatten();
            let others = other.with(|heap| heap.counters().map(|counters| counters.blocks)).flatten();
            // SAFETY: no preconditions.
            unsafe { libc::_exit(i32::from(live.is_none_or(|live| live == 0) || others.is_none())) };
        }
        let mut status = -1;
        // SAFETY: the status is written to a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "0x{status:x}");
    }
    STOP.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
