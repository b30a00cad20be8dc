//! Objects of several threads on one cache line cost every write a trip between processors. Two threads write to small objects of their own; an allocator
//! that puts such objects side by side is slow here.

use std::sync::Barrier;
use std::thread;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// Threads that write.
const THREADS: usize = 2;
/// Bytes of an object.
const BYTES: usize = 8;
/// Objects of each thread, one after the other.
const OBJECTS: usize = 20_000;
/// Writes to each.
const WRITES: usize = 1_000;

/// Every thread allocates all of its objects itself.
pub fn side_by_side(setup: &Setup) -> Result<(), String> {
    write_in_threads(setup, [const { None }; THREADS]);
    Ok(())
}

/// Every thread begins with an object from one thread that allocated for all; its place must not draw later ones to the same line.
pub fn handed_over(setup: &Setup) -> Result<(), String> {
    let heap = Heap::of_this_process();
    write_in_threads(setup, std::array::from_fn(|_| Some(heap.allocate(BYTES))));
    Ok(())
}

fn write_in_threads(setup: &Setup, first: [Option<Block>; THREADS]) {
    let objects = setup.times(OBJECTS);
    let start = &Barrier::new(THREADS);
    thread::scope(|scope| {
        for object in first {
            scope.spawn(move || {
                start.wait();
                write_often(object, objects);
            });
        }
    });
}

fn write_often(first: Option<Block>, objects: usize) {
    let heap = Heap::of_this_process();
    if let Some(mut object) = first {
        write(&mut object);
        heap.free(object);
    }
    for _ in 0..objects {
        let mut object = heap.allocate(BYTES);
        write(&mut object);
        heap.free(object);
    }
}

fn write(object: &mut Block) {
    for _ in 0..WRITES {
        object.write(0, object.read(0).wrapping_add(1));
    }
}
