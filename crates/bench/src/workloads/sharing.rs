//! Objects of several threads on one cache line cost every write a trip between processors. Two threads write to small objects of their own, a handful
//! at a time; an allocator that puts objects of both on one line is slow here.

use std::sync::Barrier;
use std::thread;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// Threads that write.
const THREADS: usize = 2;
/// Bytes of an object.
const BYTES: usize = 8;
/// Objects that a thread has at a time: some lie on a line with their neighbours, wherever lines end.
const HELD: usize = 8;
/// How often a thread frees all of them and allocates new ones.
const TURNS: usize = 10_000;
/// Writes to each object between two turns.
const WRITES: usize = 1_000;

/// Every thread allocates all of its objects itself.
pub fn side_by_side(setup: &Setup) -> Result<(), String> {
    write_in_threads(setup, [const { Vec::new() }; THREADS]);
    Ok(())
}

/// The first objects are one thread's, which gives them out in turns as to a card game; when they are freed elsewhere, their places must
/// not draw later objects of both threads to the same lines.
pub fn handed_over(setup: &Setup) -> Result<(), String> {
    let heap = Heap::of_this_process();
    let mut hands = [const { Vec::new() }; THREADS];
    (0..HELD).for_each(|_| hands.iter_mut().for_each(|hand| hand.push(heap.allocate(BYTES))));
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

/// Begins with the objects in `hand`, if there are any.
fn take_turns(mut hand: Vec<Block>, turns: usize) {
    let heap = Heap::of_this_process();
    for _ in 0..turns {
        write_often(&mut hand);
        hand.drain(..).for_each(|object| heap.free(object));
        hand.extend((0..HELD).map(|_| heap.allocate(BYTES)));
    }
    hand.into_iter().for_each(|object| heap.free(object));
}

fn write_often(objects: &mut [Block]) {
    for _ in 0..WRITES {
        objects.iter_mut().for_each(|object| object.write(0, object.read(0).wrapping_add(1)));
    }
}
