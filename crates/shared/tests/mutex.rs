//! Mutexes in the segment: exclusion among processes, deaths of holders, forks, and patience.

mod common;

use std::time::Duration;

use common::{Spot, fork, kill, reap};
use heapwright_shared::{Access, Error, Mutex, Offset, Settings, SharedHeap};

fn root(heap: &SharedHeap) -> Offset<Mutex<[u64; 2]>> {
    heap.root("mutex").unwrap().expect("the mutex").cast()
}

fn made(spot: &Spot) -> (SharedHeap, Offset<Mutex<[u64; 2]>>) {
    let heap = spot.create(&Settings::default());
    let mutex = heap.allocate_mutex([0_u64; 2]).unwrap();
    heap.set_root("mutex", mutex.cast()).unwrap();
    (heap, mutex)
}

/// A child that holds the mutex, has changed half of its value, and sleeps.
fn holding_child(spot: &Spot) -> i32 {
    let child = fork(|| {
        let heap = spot.open();
        // SAFETY: the root is a mutex of this type, and stays.
        let mut guard = unsafe { heap.lock(root(&heap)) }.unwrap();
        guard[0] += 1;
        heap.set_root("held", root(&heap).cast()).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let heap = spot.open();
    while heap.root("held").unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    heap.replace_root("held", heap.root("held").unwrap(), None).unwrap();
    child
}

#[test]
fn processes_and_threads_exclude_each_other() {
    let spot = Spot::new("mutex");
    let (heap, mutex) = made(&spot);
    let add = |heap: &SharedHeap| {
        for _ in 0..5_000 {
            // SAFETY: the root is a mutex of this type, and stays.
            let mut guard = unsafe { heap.lock(root(heap)) }.unwrap();
            assert_eq!(guard[0], guard[1]);
            guard[0] += 1;
            guard[1] += 1;
        }
        true
    };
    let children = [0; 3].map(|_| fork(|| add(&spot.open())));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| add(&heap));
        }
    });
    for child in children {
        assert_eq!(reap(child), 0);
    }
    // SAFETY: as above.
    let guard = unsafe { heap.lock(mutex) }.unwrap();
    assert_eq!((*guard, guard.previous_holder_died()), ([25_000; 2], false));
}

#[test]
fn the_death_of_a_holder_is_reported_until_the_value_is_consistent() {
    let spot = Spot::new("mutex-dead");
    let (heap, mutex) = made(&spot);
    let child = holding_child(&spot);
    kill(child);
    assert_eq!(reap(child), -libc::SIGKILL);
    for _ in 0..2 {
        // SAFETY: a mutex of this type, which stays.
        let guard = unsafe { heap.lock(mutex) }.unwrap();
        assert_eq!((*guard, guard.previous_holder_died()), ([1, 0], true));
    }
    // SAFETY: as above.
    let mut guard = unsafe { heap.lock(mutex) }.unwrap();
    guard[1] = guard[0];
    guard.mark_consistent();
    drop(guard);
    // SAFETY: as above.
    assert!(!unsafe { heap.lock(mutex) }.unwrap().previous_holder_died());
    // The heap itself was not locked by the holder.
    heap.check().unwrap();
}

#[test]
fn a_holder_that_lives_is_waited_for_and_named() {
    let spot = Spot::new("mutex-patience");
    let (_heap, mutex) = made(&spot);
    let child = holding_child(&spot);
    let hasty =
        SharedHeap::open_with(&spot, &Access { patience: Duration::from_millis(30), ..Access::default() }).unwrap();
    // SAFETY: a mutex of this type, which stays.
    let refused = unsafe { hasty.lock(mutex) }.map(|guard| *guard);
    assert_eq!(refused, Err(Error::MutexHeld { holder: Some(child as u32) }));
    kill(child);
    reap(child);
}

#[test]
fn a_mutex_is_not_reentrant_and_says_so() {
    let spot = Spot::new("mutex-twice");
    let (_heap, mutex) = made(&spot);
    let hasty =
        SharedHeap::open_with(&spot, &Access { patience: Duration::from_millis(30), ..Access::default() }).unwrap();
    // SAFETY: a mutex of this type, which stays.
    let guard = unsafe { hasty.lock(mutex) }.unwrap();
    // SAFETY: as above.
    let again = unsafe { hasty.lock(mutex) }.map(|guard| *guard);
    assert_eq!(again, Err(Error::MutexHeld { holder: None }));
    drop(guard);
}

#[test]
fn the_child_of_a_fork_does_not_hold_what_its_parent_holds() {
    let spot = Spot::new("mutex-fork");
    let (heap, mutex) = made(&spot);
    // SAFETY: a mutex of this type, which stays.
    let guard = unsafe { heap.lock(mutex) }.unwrap();
    let mut guard = Some(guard);
    let child = fork(|| {
        // Not unlocked: the parent holds it.
        drop(guard.take());
        let hasty = Access { patience: Duration::from_millis(20), ..Access::default() };
        let there = SharedHeap::open_with(&spot, &hasty).unwrap();
        // SAFETY: as above.
        unsafe { there.lock(mutex) }.is_err()
    });
    assert_eq!(reap(child), 0);
    drop(guard);
    // SAFETY: as above.
    assert_eq!(unsafe { heap.lock(mutex) }.map(|guard| *guard), Ok([0, 0]));
}
