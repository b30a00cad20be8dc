//! Every interleaving of a few threads and their heaps, run by loom: `.ci/loom`.
//!
//! The heaps are those of the product, over real pages; the classes are such that a slab has two blocks. Each use of a
//! block, its link, a slab and a heap is reported to loom, which fails if of two uses neither happens before the other.

use core::ptr::NonNull;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use heapwright_os::ForkPass;
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use crate::lifecycle::leave;
use heapwright_slabs::classes::LARGEST;
use heapwright_slabs::platform::{LeftBehind, fork, interleave, set_batch_blocks, stay_in_parent, touch};

/// Two of them fill a slab.
const LENGTH: usize = LARGEST;

/// A block that its program uses.
struct Block(NonNull<u8>);

// SAFETY: a block is used by the thread that has this value.
unsafe impl Send for Block {}

impl Block {
    fn new() -> Block {
        let block = Block(crate::allocate(LENGTH).unwrap());
        touch(block.0.as_ptr());
        block
    }

    fn free(self) {
        touch(self.0.as_ptr());
        // SAFETY: the block goes with its owner.
        unsafe {
            if !crate::give_any(self.0.as_ptr()) {
                crate::free(self.0).unwrap();
            }
        }
    }
}

impl Block {
    fn free_without_a_heap(self) {
        let origin = heapwright_slabs::origin::Origin::of(self.0).unwrap();
        // SAFETY: the block goes with its owner.
        unsafe { heapwright_slabs::heap::send_unbuffered(self.0, &origin) };
    }
}

/// Starts a thread that ends as threads do.
fn start<R: 'static>(run: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
    thread::spawn(move || {
        let result = run();
        leave();
        result
    })
}

/// When all threads have ended and everything is freed, no page is in use.
fn nothing_is_lost() {
    crate::trim();
    assert_eq!(crate::page_counters().unwrap().live, 0);
}

#[test]
fn the_arena_is_initialised_once() {
    interleave(3, || {
        let others = [(); 2].map(|()| start(Block::new));
        let blocks = others.map(|other| other.join().unwrap());
        assert_ne!(blocks[0].0, blocks[1].0);
        blocks.into_iter().for_each(Block::free);
        nothing_is_lost();
    });
}

#[test]
fn blocks_come_back_from_threads_that_free_them() {
    interleave(3, || {
        let others = [Block::new(), Block::new()].map(|block| start(move || block.free()));
        Block::new().free();
        others.into_iter().for_each(|other| other.join().unwrap());
        Block::new().free();
        nothing_is_lost();
    });
}

#[test]
fn blocks_come_back_to_the_heap_of_a_thread_that_ends() {
    interleave(3, || {
        let passed = Arc::new(Mutex::new(None));
        let to = passed.clone();
        let owner = start(move || {
            let kept = Block::new();
            *to.lock().unwrap() = Some(Block::new());
            kept.free();
        });
        let other = passed.clone();
        let freer = start(move || other.lock().unwrap().take().into_iter().for_each(Block::free));
        Block::new().free();
        owner.join().unwrap();
        freer.join().unwrap();
        passed.lock().unwrap().take().into_iter().for_each(Block::free);
        nothing_is_lost();
    });
}

#[test]
fn a_batch_is_reclaimed_while_its_owner_collects() {
    interleave(2, || {
        set_batch_blocks(2);
        let passed_on = [Block::new(), Block::new()];
        // Two blocks are a batch, and over the budget: this thread reclaims them unless the owner has locked its slabs.
        let freer = start(move || passed_on.into_iter().for_each(Block::free));
        let more = [Block::new(), Block::new()];
        more.into_iter().for_each(Block::free);
        freer.join().unwrap();
        nothing_is_lost();
    });
}

#[test]
fn two_threads_reclaim_batches_for_a_sleeping_owner() {
    interleave(1, || {
        set_batch_blocks(2);
        let batches = [(); 2].map(|()| [Block::new(), Block::new()]);
        let freers = batches.map(|batch| start(move || batch.into_iter().for_each(Block::free)));
        freers.into_iter().for_each(|freer| freer.join().unwrap());
        // The inbox is empty, and all slabs but one, because the last may be kept, have been freed without the owner.
        assert!(crate::page_counters().unwrap().live <= heapwright_slabs::classes::SLAB as u64);
        nothing_is_lost();
    });
}

#[test]
fn a_heap_is_trimmed_while_its_owner_allocates() {
    interleave(2, || {
        set_batch_blocks(2);
        let passed_on = [Block::new(), Block::new()];
        let freer = start(move || {
            passed_on.into_iter().for_each(Block::free);
            crate::trim();
        });
        let more = [Block::new(), Block::new(), Block::new()];
        more.into_iter().for_each(Block::free);
        freer.join().unwrap();
        nothing_is_lost();
    });
}

/// Leaves the heap of a thread that has ended, with a slab of one free block; returns the other one.
fn leave_a_heap() -> Block {
    let owner = start(|| {
        let (first, second) = (Block::new(), Block::new());
        first.free();
        second
    });
    owner.join().unwrap()
}

#[test]
fn a_heap_is_adopted_while_its_slab_is_taken() {
    interleave(3, || {
        let own = Block::new();
        let left = leave_a_heap();
        // Now it lies in the idle heap's inbox, where it would not be left by a thread that has a heap itself.
        left.free_without_a_heap();
        let adopter = start(|| {
            // Of another class, so that what is in the inbox is not taken from it but put back.
            let block = crate::allocate(16).unwrap();
            // SAFETY: the block is not used.
            unsafe { crate::free(block).unwrap() };
        });
        // The slab of this one is full after that; the next comes from the idle heap.
        let second = Block::new();
        let third = Block::new();
        adopter.join().unwrap();
        [own, second, third].into_iter().for_each(Block::free);
        nothing_is_lost();
    });
}

#[test]
fn a_block_is_freed_while_its_slab_goes_to_another_heap() {
    interleave(3, || {
        let full = (Block::new(), Block::new());
        let left = leave_a_heap();
        let freer = start(move || left.free());
        let adopter = start(|| Block::new().free());
        let third = Block::new();
        freer.join().unwrap();
        adopter.join().unwrap();
        [full.0, full.1, third].into_iter().for_each(Block::free);
        nothing_is_lost();
    });
}

#[test]
fn an_idle_heap_is_drained_while_it_is_adopted() {
    interleave(3, || {
        let own = Block::new();
        let left = leave_a_heap();
        let adopter = start(|| Block::new().free());
        left.free();
        adopter.join().unwrap();
        own.free();
        nothing_is_lost();
    });
}

/// Starts a thread that a fork's child does not have.
fn start_in_parent(run: impl FnOnce() + 'static) -> JoinHandle<()> {
    thread::spawn(|| {
        stay_in_parent();
        let run = AssertUnwindSafe(|| {
            run();
            leave();
        });
        if let Err(reason) = catch_unwind(run)
            && !reason.is::<LeftBehind>()
        {
            resume_unwind(reason);
        }
    })
}

#[test]
fn a_child_goes_on_wherever_the_other_threads_were() {
    interleave(2, || {
        let own = Block::new();
        let passed = Arc::new(Mutex::new(None));
        let to = passed.clone();
        let passed_on = Block::new();
        let other = start_in_parent(move || {
            let kept = Block::new();
            *to.lock().unwrap() = Some(Block::new());
            passed_on.free();
            let longer = crate::allocate(2 * LENGTH).unwrap();
            // SAFETY: the block is not used.
            unsafe { crate::free(longer).unwrap() };
            kept.free();
        });
        // SAFETY: functions of the heap have one guard of each of its locks at a time.
        crate::before_fork(unsafe { ForkPass::to_take() });
        fork();
        // SAFETY: the lock was taken before the fork, by this thread, which goes on in the child.
        unsafe {
            crate::after_fork_in_child();
            crate::after_fork();
        }
        let theirs = passed.lock().unwrap().take();
        theirs.into_iter().for_each(Block::free);
        start(|| Block::new().free()).join().unwrap();
        Block::new().free();
        own.free();
        crate::trim();
        other.join().unwrap();
    });
}
