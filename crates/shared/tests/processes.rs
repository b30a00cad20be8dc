//! Several processes: what each owns, what those leave that die, what children of a fork are.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Spot, fork, growing, kill, of, reap};
use heapwright_shared::{
    Access, Condition, Error, Leavers, Offset, Place, PolicyKind, ProcessState, Reclaimed, Settings, SharedHeap,
    Snapshot,
};

/// A child that has opened the segment, done `work` and waits for its end.
fn idle_child(spot: &Spot, work: impl FnOnce(&SharedHeap) -> bool) -> i32 {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written to the array.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let child = fork(|| {
        let heap = spot.open();
        let done = work(&heap);
        // SAFETY: writes one byte of a local variable, then sleeps until killed.
        unsafe { libc::write(ends[1], (&raw const done).cast(), 1) };
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let mut done = false;
    // SAFETY: reads one byte, which is 0 or 1, into a local variable.
    assert_eq!(unsafe { libc::read(ends[0], (&raw mut done).cast(), 1) }, 1);
    assert!(done);
    // SAFETY: both are ours.
    unsafe { (libc::close(ends[0]), libc::close(ends[1])) };
    child
}

fn end(child: i32) {
    kill(child);
    assert_eq!(reap(child), -libc::SIGKILL);
}

#[test]
fn what_dead_processes_left_is_listed_and_reclaimed() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("reclaim");
        let heap = spot.create(&of(policy, 1 << 20));
        let own = heap.allocate(500).unwrap();
        let child = idle_child(&spot, |heap| {
            let blocks: Vec<Offset> = (0..100).map(|_| heap.allocate(500).unwrap()).collect();
            heap.set_root("kept", blocks[7]).unwrap();
            heap.set_root("removed", blocks[9]).unwrap();
            heap.set_root("replaced", blocks[11]).unwrap();
            blocks.iter().step_by(10).all(|&block| heap.deallocate(block).is_ok())
        });
        let of_child = |heap: &SharedHeap| {
            heap.processes().unwrap().into_iter().find(|process| process.owner.pid == Some(child as u32)).unwrap()
        };
        assert_eq!((of_child(&heap).owner.state, of_child(&heap).blocks), (ProcessState::Attached, 90));
        assert_eq!(heap.reclaim_dead(), Ok(Reclaimed::default()));
        end(child);
        assert_eq!((of_child(&heap).owner.state, of_child(&heap).blocks), (ProcessState::Dead, 90));
        assert_eq!(heap.left_behind().unwrap().len(), 90);
        // What a root does not point at any more is this process's, who may free it.
        let removed = heap.root("removed").unwrap().unwrap();
        heap.replace_root("removed", Some(removed), None).unwrap();
        let replaced = heap.set_root("replaced", own).unwrap().unwrap();
        let kept = heap.root("kept").unwrap();
        heap.adopt(heap.left_behind().unwrap().iter().find(|left| Some(left.offset) != kept).unwrap().offset).unwrap();
        let size = heap.usable_size(own).unwrap() as u64;
        assert_eq!(heap.reclaim_dead(), Ok(Reclaimed { blocks: 86, bytes: 86 * size, kept: 1 }));
        heap.deallocate(removed).unwrap();
        heap.deallocate(replaced).unwrap();
        assert_eq!(heap.left_behind().unwrap()[0].offset, heap.root("kept").unwrap().unwrap());
        heap.check().unwrap();
        assert_eq!(heap.counters().unwrap().live, 3 * size);
    }
}

#[test]
fn blocks_of_closed_processes_are_reclaimed_on_request_only() {
    let spot = Spot::new("closed");
    let heap = spot.create(&Settings::default());
    assert_eq!(reap(fork(|| spot.open().allocate(100).is_ok())), 0);
    let other = spot.open();
    other.allocate(100).unwrap();
    other.close().unwrap();
    let states: Vec<_> =
        heap.processes().unwrap().iter().map(|process| (process.owner.state, process.blocks)).collect();
    assert_eq!(states.len(), 3);
    assert!(states.contains(&(ProcessState::Attached, 0)));
    assert!(states.iter().filter(|&&state| state == (ProcessState::Closed, 1)).count() == 2);
    assert_eq!(heap.reclaim_dead().unwrap().blocks, 0);
    assert_eq!(heap.reclaim(Leavers::DeadAndClosed).unwrap().blocks, 2);
    assert_eq!(heap.processes().unwrap().len(), 1);
}

#[test]
fn the_child_of_a_fork_is_a_process_of_its_own() {
    let spot = Spot::new("fork");
    let heap = spot.create(&growing(PolicyKind::Best, 1 << 16, 1 << 22));
    let before = heap.allocate(100).unwrap();
    // A child that does nothing takes nothing away.
    assert_eq!(reap(fork(|| true)), 0);
    let child = fork(|| {
        // SAFETY: the block is there.
        unsafe { heap.pointer(before).write(77) };
        let grown = heap.allocate(1 << 20).is_ok();
        let me = std::process::id();
        let mine = heap.processes().unwrap().into_iter().find(|process| process.owner.pid == Some(me)).unwrap();
        grown && mine.blocks == 1 && mine.owner.state == ProcessState::Attached
    });
    assert_eq!(reap(child), 0);
    // SAFETY: as above; the child has ended.
    assert_eq!(unsafe { heap.pointer(before).read() }, 77);
    let of_child = heap.left_behind().unwrap();
    assert_eq!(of_child.len(), 1);
    assert_eq!(of_child[0].owner.unwrap().pid, Some(child as u32));
    assert_eq!(heap.reclaim_dead().unwrap().blocks, 1);
    heap.check().unwrap();
    drop(heap);
    let heap = spot.open();
    assert_eq!(heap.blocks().unwrap().iter().filter(|block| block.owner.is_some()).count(), 1);
}

#[test]
fn a_full_process_table_forgets_names_but_not_blocks() {
    let spot = Spot::new("slots");
    let heap = spot.create(&Settings { processes: 3, ..Settings::default() });
    for _ in 0..5 {
        let child = idle_child(&spot, |heap| heap.allocate(100).is_ok());
        end(child);
    }
    for blocks in 1..=3 {
        let other = spot.open();
        for _ in 0..blocks {
            other.allocate(100).unwrap();
        }
        other.close().unwrap();
    }
    let listed = heap.processes().unwrap();
    let blocks_of = |state| listed.iter().filter(|p| p.owner.state == state).map(|p| p.blocks).sum::<u64>();
    assert_eq!((blocks_of(ProcessState::Dead), blocks_of(ProcessState::Closed)), (5, 6));
    let (_b, _c) = (spot.open(), spot.open());
    assert_eq!(SharedHeap::open(&spot).unwrap_err(), Error::TooManyProcesses { most: 3 });
    assert_eq!(heap.reclaim_dead().unwrap().blocks, 5);
    assert_eq!(heap.reclaim(Leavers::DeadAndClosed).unwrap().blocks, 6);
    heap.check().unwrap();
}

#[test]
fn a_stopped_holder_is_waited_for_no_longer_than_asked() {
    let spot = Spot::new("deadline");
    let heap = spot.create(&Settings::default());
    // Stops somewhere in the middle of an endless row of operations, most likely while it holds the lock.
    let child = fork(|| {
        let heap = spot.open();
        loop {
            let block = heap.allocate(100).unwrap();
            heap.deallocate(block).unwrap();
        }
    });
    let patience = Duration::from_millis(50);
    let waited = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(2));
        // SAFETY: a child of ours.
        unsafe { libc::kill(child, libc::SIGSTOP) };
        let (begun, mut status) = (Instant::now(), 0);
        // SAFETY: waits until it has stopped.
        unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
        let opened = SharedHeap::open_with(&spot, &Access { patience, ..Access::default() });
        let waited = begun.elapsed();
        // SAFETY: as above.
        unsafe { libc::kill(child, libc::SIGCONT) };
        opened.err().map(|error| (error, waited))
    });
    end(child);
    let (error, waited) = waited.expect("the child never held the lock when it was stopped");
    assert_eq!(error, Error::TimedOut { holder: child as u32 });
    assert!(waited >= patience && waited < patience * 40, "{waited:?}");
    // The holder is dead now: no more waiting.
    heap.allocate(100).unwrap();
    heap.check().unwrap();
    assert!(heap.reclaim_dead().unwrap().blocks <= 1);
    assert_eq!(heap.counters().unwrap().live, 128);
}

/// All die, some of them while they work; who comes next finds the heap in order.
#[test]
fn a_segment_survives_all_its_users() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("all-dead");
        spot.create(&growing(policy, 1 << 16, 1 << 22)).close().unwrap();
        for round in 0..10_u64 {
            let busy = |seed: u64| {
                fork(|| {
                    let heap = spot.open();
                    let (mut held, mut roll) = (Vec::new(), seed | 1);
                    loop {
                        roll = roll.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        if roll >> 62 != 0 && held.len() < 100 {
                            held.push(heap.allocate((roll >> 52) as usize).unwrap());
                        } else if let Some(block) = held.pop() {
                            heap.deallocate(block).unwrap();
                        }
                    }
                })
            };
            let children = [busy(round), busy(round + 100)];
            std::thread::sleep(Duration::from_millis(8));
            children.iter().for_each(|&child| kill(child));
            children.iter().for_each(|&child| assert_eq!(reap(child), -libc::SIGKILL));
            let heap = spot.open();
            heap.check().unwrap();
            let left = heap.left_behind().unwrap().len() as u64;
            assert!(left <= 202, "{left} blocks left behind");
            assert_eq!(heap.reclaim_dead().unwrap().blocks, left);
            assert_eq!(heap.counters().unwrap().live, 0);
            assert_eq!(heap.holes().unwrap().total, heap.size().unwrap());
            heap.check().unwrap();
        }
    }
}

/// Others work on the heap while one walks it: what stays is found once, in order, and nothing twice.
#[test]
fn a_walk_lets_others_work_and_finds_what_stays() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("walk");
        let heap = spot.create(&growing(policy, 1 << 20, 1 << 24));
        let blocks: Vec<Offset> = (0..6000).map(|_| heap.allocate(64).unwrap()).collect();
        let stays = |number: usize| number.is_multiple_of(3);
        let mut found = Vec::new();
        let mut roll = 1_u64;
        let mut passing: Vec<Offset> = Vec::new();
        let mut left: Vec<Offset> = (0..6000).filter(|&n| !stays(n)).map(|n| blocks[n]).collect();
        for (number, block) in heap.walk().enumerate() {
            found.push(block.unwrap());
            roll = roll.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if number % 5 == 0 && !left.is_empty() {
                heap.deallocate(left.swap_remove((roll >> 33) as usize % left.len())).unwrap();
            }
            if number % 7 == 0 {
                passing.push(heap.allocate((roll >> 40) as usize % 500).unwrap());
            }
            if number % 11 == 0 {
                heap.deallocate(passing.swap_remove((roll >> 33) as usize % passing.len())).unwrap();
            }
        }
        assert!(found.windows(2).all(|pair| pair[0].offset.get() + pair[0].size as u64 <= pair[1].offset.get()));
        for number in (0..6000).filter(|&number| stays(number)) {
            let at = found.binary_search_by_key(&blocks[number], |block| block.offset).unwrap();
            assert_eq!(found[at].owner.unwrap().state, ProcessState::Attached);
        }
        heap.check().unwrap();
    }
}

/// Daemons close all descriptors when they start, and another file may get the number.
#[test]
fn a_program_that_closed_all_descriptors_leaves_a_sealed_segment() {
    for others in [0, 8] {
        let spot = Spot::new("daemon");
        let child = fork(|| {
            let heap = spot.create(&growing(PolicyKind::Best, 1 << 16, 1 << 20));
            // SAFETY: the child uses none of them but the heap's.
            unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
            let opened: Vec<fs::File> = (0..others).map(|_| fs::File::open("/dev/null").unwrap()).collect();
            heap.allocate(100).unwrap();
            heap.check().unwrap();
            assert_eq!(heap.grow(1 << 19), Err(Error::DescriptorReplaced { place: (*spot).clone() }));
            heap.close().unwrap();
            opened.iter().all(|file| file.metadata().is_ok())
        });
        assert_eq!(reap(child), 0);
        assert_eq!(Snapshot::read(&spot).unwrap().condition, Condition::AtRest);
    }
}

/// They also leave the directory in which they were started.
#[test]
fn a_program_that_left_its_directory_leaves_a_sealed_segment() {
    let folder = tempfile::tempdir().unwrap();
    let child = fork(|| {
        std::env::set_current_dir(&folder).unwrap();
        let heap = SharedHeap::create(&Place::new("./segment").unwrap(), &Settings::default()).unwrap();
        std::env::set_current_dir("/").unwrap();
        // SAFETY: the child uses none of them but the heap's.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        heap.allocate(100).unwrap();
        heap.close().unwrap();
        true
    });
    assert_eq!(reap(child), 0);
    let place = Place::new(folder.path().join("segment")).unwrap();
    assert_eq!(Snapshot::read(&place).unwrap().condition, Condition::AtRest);
}

/// The program can use the directory in which it works, but cannot reach it from the root directory.
#[test]
fn a_program_in_a_directory_that_cannot_be_reached_leaves_a_sealed_segment() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(&inner, 0o777);
    let child = fork(|| {
        std::env::set_current_dir(&inner).unwrap();
        allow(folder.path(), 0);
        // SAFETY: root may search every directory, so that the child becomes another user; others cannot, and need not.
        unsafe { libc::setuid(65_534) };
        let heap = SharedHeap::create(&Place::new("./segment").unwrap(), &Settings::default()).unwrap();
        // SAFETY: the child uses none of them but the heap's.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        heap.allocate(100).unwrap();
        heap.close().is_ok()
    });
    let code = reap(child);
    allow(folder.path(), 0o700);
    assert_eq!(code, 0);
}
