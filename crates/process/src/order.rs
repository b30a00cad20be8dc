//! The order in which the calls of several threads reach the heap behind the lock, and a check that every placement is
//! the textbook's in that order.

use core::alloc::Layout;
use core::num::NonZeroUsize;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::vec::Vec;
use std::{env, eprintln, mem, thread};

use fastrand::Rng;
use heapwright_heaps::{Engine, PolicyKind};
use heapwright_os::thread_number;
use heapwright_reference::Reference;
use heapwright_rules::RuleSet;

use crate::heap::Heap;
use crate::state::with_rarely;
use crate::{allocate, allocate_aligned, allocate_zeroed, free, reallocate, trim};

/// A call, and what the heap made of it. Blocks are addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Allocate { layout: Layout, placed: Option<NonZeroUsize> },
    Free { block: NonZeroUsize },
    Resize { block: NonZeroUsize, before: usize, after: usize, is_done: bool },
}

/// The calls of all threads, each with the number of its thread.
static CALLS: Mutex<Vec<(u32, Call)>> = Mutex::new(Vec::new());

/// Records a call. The heap's lock is held, so that the order is that of the heap.
pub(crate) fn record(call: Call) {
    CALLS.lock().unwrap().push((thread_number(), call));
}

const THREADS: usize = 4;
const ROUNDS: usize = 40;
const CALLS_PER_ROUND: usize = 100;

/// Allocates temporary blocks, one inside the life of another, and frees them, twice the same: the heap recalls those.
fn nest(rng: &mut Rng) {
    let sizes = [0; 3].map(|_| rng.usize(0..300));
    for _ in 0..2 {
        let blocks = sizes.map(allocate);
        for block in blocks.into_iter().rev() {
            // SAFETY: the block is live, and not used afterwards.
            unsafe { free(block) };
        }
    }
}

/// Allocates, resizes and frees at random. In every round half of the blocks go to another thread.
fn work(number: usize, barrier: &Barrier, exchange: &Mutex<Vec<Vec<usize>>>) {
    let mut rng = Rng::with_seed(number as u64);
    let mut blocks: Vec<usize> = Vec::new();
    for _ in 0..ROUNDS {
        barrier.wait();
        for _ in 0..CALLS_PER_ROUND {
            let size = if rng.u8(..) < 250 { rng.usize(0..600) } else { rng.usize(0..100_000) };
            let kind = rng.u8(..8);
            match rng.u8(..20) {
                0 | 1 => nest(&mut rng),
                2 => assert!(allocate(1 << 60).is_null()),
                // Blocks go where they would have gone.
                3 => _ = trim(),
                _ => {}
            }
            if kind >= 4 && !blocks.is_empty() {
                let at = rng.usize(..blocks.len());
                let block = core::ptr::with_exposed_provenance_mut(blocks.swap_remove(at));
                // SAFETY: the block is live, in no other list, and not used by its old address afterwards; a size above
                // 0 allocates.
                unsafe {
                    if kind == 4 {
                        blocks.push(reallocate(block, size + 1).expose_provenance());
                    } else {
                        free(block);
                    }
                }
                continue;
            }
            let block = match kind {
                0 => allocate_aligned(1 << rng.u32(..10), size),
                1 => allocate_zeroed(1, size),
                _ => allocate(size),
            };
            assert!(!block.is_null());
            blocks.push(block.expose_provenance());
        }
        let kept = blocks.len() / 2;
        let mut exchange = exchange.lock().unwrap();
        exchange.push(blocks.split_off(kept));
        let others = rng.usize(..exchange.len());
        blocks.append(&mut exchange.swap_remove(others));
    }
}

/// Replays the recorded calls by the reference engine, and compares every placement.
fn replay(policy: PolicyKind) {
    let calls = mem::take(&mut *CALLS.lock().unwrap());
    let Some((base, capacity, seed)) = with_rarely(|state| match &mut state.heap {
        Heap::Growing(heap) => (heap.settled().base().addr().get(), heap.settled().capacity(), state.settings.seed),
        Heap::Mapped(_) | Heap::Cached => panic!("the heap has a policy"),
    }) else {
        panic!("the heap exists")
    };
    let mut textbook = Reference::create(policy, capacity, &RuleSet::USUAL.rules).unwrap();
    textbook.seed(seed);
    for (number, (_, call)) in calls.iter().enumerate() {
        match *call {
            Call::Allocate { layout, placed } => {
                let requests = RuleSet::USUAL.requests;
                let bytes = requests.bytes(layout.size()).unwrap();
                let expected = textbook.allocate(bytes, requests.align(layout.align())).ok();
                let offset = placed.map(|placed| placed.get() - base);
                assert_eq!(offset, expected, "call {number} under {}: {call:?}", policy.name());
            }
            Call::Free { block } => {
                textbook.deallocate(block.get() - base).unwrap_or_else(|error| panic!("{call:?}: {error:?}"));
            }
            Call::Resize { block, before, after, is_done } => {
                let resized = textbook.resize(block.get() - base, before, after);
                assert_eq!(is_done, resized.is_ok(), "call {number} under {}: {call:?}", policy.name());
            }
        }
    }
    let turns = calls.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    eprintln!("{}: {} calls, {turns} times another thread's turn", policy.name(), calls.len());
    assert!(calls.len() > THREADS * ROUNDS * CALLS_PER_ROUND * 9 / 10 && turns >= ROUNDS);
}

/// Runs itself once under each policy: a process has one heap.
#[test]
fn every_placement_of_threads_is_the_textbooks_in_the_order_of_the_lock() {
    let policy = env::var("HEAPWRIGHT_POLICY").ok().map(|name| PolicyKind::from_name(&name).unwrap());
    let Some(policy) = policy else {
        for policy in PolicyKind::ALL {
            let mut child = Command::new(env::current_exe().unwrap());
            child.args(["--exact", "--nocapture", thread::current().name().unwrap()]);
            let output = child.env("HEAPWRIGHT_POLICY", policy.name()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        return;
    };
    let (barrier, exchange) = (Barrier::new(THREADS), Mutex::default());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (barrier, exchange) = (&barrier, &exchange);
            scope.spawn(move || work(number, barrier, exchange));
        }
    });
    replay(policy);
}
