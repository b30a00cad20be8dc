//! False sharing: objects of several threads on one cache line make every write a transfer between processors. Two
//! threads write to small objects of their own, a few at a time. An allocator that places objects of both on one line
//! is slow.

use std::sync::Barrier;
use std::thread;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// The number of threads that write.
const THREADS: usize = 2;
/// The size of an object in bytes.
const BYTES: usize = 8;
/// The number of objects of a thread at a time, enough for several on each cache line.
const OBJECTS: usize = 8;
/// The number of times that a thread frees all of its objects and allocates new ones.
const TURNS: usize = 10_000;
/// The number of writes to each object between two turns.
const WRITES: usize = 1_000;

/// Measures active false sharing: every thread allocates all of its objects itself.
pub fn side_by_side(setup: &Setup) -> Result<(), String> {
    write_in_threads(setup, [const { Vec::new() }; THREADS]);
    Ok(())
}

/// Measures passive false sharing: one thread allocates the first objects and deals them out to the others in turns.
/// After they are freed remotely, the allocator must not reuse their lines for objects of both threads.
pub fn handed_over(setup: &Setup) -> Result<(), String> {
    let heap = Heap::of_this_process();
    let mut hands = [const { Vec::new() }; THREADS];
    (0..OBJECTS).for_each(|_| hands.iter_mut().for_each(|hand| hand.push(heap.allocate(BYTES))));
    write_in_threads(setup, hands);
    Ok(())
}

fn write_in_threads(setup: &Setup, hands: [Vec<Block>; THREADS]) {
    let turns = setup.times(TURNS);
    let start = &Barrier::new(THREADS);
    thread::scope(|scope| {
        for hand in hands {
            scope.spawn(move || {
                start.wait();
                take_turns(hand, turns);
            });
        }
    });
}

/// Runs the turns of a thread, starting with the objects in `hand`.
fn take_turns(mut hand: Vec<Block>, turns: usize) {
    let heap = Heap::of_this_process();
    for _ in 0..turns {
        write_often(&mut hand);
        hand.drain(..).for_each(|object| heap.free(object));
        hand.extend((0..OBJECTS).map(|_| heap.allocate(BYTES)));
    }
    hand.into_iter().for_each(|object| heap.free(object));
}

fn write_often(objects: &mut [Block]) {
    for _ in 0..WRITES {
        objects.iter_mut().for_each(|object| object.write(0, object.read(0).wrapping_add(1)));
    }
}
