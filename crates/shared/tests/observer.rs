//! Segments read without their lock, from files opened for reading only.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};

use common::{Spot, fork, kill, reap};
use heapwright_shared::{
    Access, Condition, Error, Observer, Offset, Owner, Picture, ProcessState, Settings, SharedHeap, SmallBlocks,
    Snapshot,
};

fn settings(small: SmallBlocks) -> Settings {
    Settings { size: 1 << 20, small, ..Settings::default() }
}

fn used(picture: &Picture) -> u64 {
    picture.processes.iter().map(|process| process.bytes).sum()
}

#[test]
fn a_picture_shows_what_the_heap_says_and_changes_nothing() {
    for small in SmallBlocks::ALL {
        let spot = Spot::new("observed");
        let heap = spot.create(&settings(small));
        let blocks: Vec<_> = (1..300).map(|number| heap.allocate(number * 7 % 4000 + 1).unwrap()).collect();
        blocks.iter().step_by(3).for_each(|&block| heap.deallocate(block).unwrap());
        heap.set_root("kept", blocks[1]).unwrap();
        // SAFETY: the block has at least eight bytes, and no other thread uses it.
        unsafe { heap.pointer(blocks[1]).cast::<[u8; 8]>().write(*b"contents") };

        let before = fs::read(spot.path()).unwrap();
        let observer = Observer::open(&spot).unwrap();
        let picture = observer.picture().unwrap();
        let mut contents = [0; 8];
        assert_eq!(observer.read(picture.roots[0].offset, &mut contents), Ok(8));
        assert_eq!(&contents, b"contents");
        assert_eq!(fs::read(spot.path()).unwrap(), before);

        assert!(!picture.torn);
        assert_eq!(picture.counters, heap.counters().unwrap());
        assert_eq!(picture.roots, heap.roots().unwrap());
        let told: Vec<_> = heap.processes().unwrap().iter().map(|one| (one.owner, one.blocks, one.bytes)).collect();
        let seen: Vec<_> = picture.processes.iter().map(|one| (one.owner, one.blocks, one.bytes)).collect();
        assert_eq!(seen, told);
        assert_eq!(picture.processes[0].operations.is_some(), small == SmallBlocks::Slabs);
    }
}

#[test]
fn permission_to_read_suffices() {
    let spot = Spot::new("readable");
    let heap = spot.create(&Settings { mode: 0o444, ..Settings::default() });
    heap.allocate(100).unwrap();
    fs::set_permissions(spot.path(), fs::Permissions::from_mode(0o444)).unwrap();
    let child = fork(|| {
        // SAFETY: the calls take numbers. Without the right to become another user, the child stays who it is.
        unsafe { libc::setuid(65534) };
        let anybody = Access { owner: Owner::Anybody, ..Access::default() };
        // SAFETY: the call has no preconditions.
        let is_root = unsafe { libc::geteuid() == 0 };
        let attached = SharedHeap::open_with(&spot, &anybody).is_ok();
        let picture = Observer::open_with(&spot, &anybody).and_then(|observer| observer.picture());
        let snapshot = Snapshot::read_with(&spot, &anybody);
        (is_root || !attached)
            && picture.is_ok_and(|picture| picture.counters.mallocs == 1)
            && snapshot.is_ok_and(|seen| {
                seen.audit.is_ok() && seen.condition == Condition::InUse && seen.counters.mallocs == 1
            })
    });
    assert_eq!(reap(child), 0);
}

#[test]
fn processes_come_work_and_are_killed_meanwhile() {
    for small in SmallBlocks::ALL {
        let spot = Spot::new("busy");
        let heap = spot.create(&settings(small));
        let work = || {
            let heap = spot.open();
            loop {
                let blocks: Vec<_> = (1..50).filter_map(|size| heap.allocate(size * 37).ok()).collect();
                blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
            }
        };
        let mut workers: Vec<i32> = (0..4).map(|_| fork(work)).collect();
        let observer = Observer::open(&spot).unwrap();
        for round in 0..100 {
            let picture = observer.picture().unwrap();
            assert!(used(&picture) <= picture.size as u64);
            observer.lock().unwrap();
            if round % 10 == 9 {
                let worker = workers.remove(0);
                kill(worker);
                assert_eq!(reap(worker), -libc::SIGKILL);
                workers.push(fork(work));
            }
        }
        for worker in workers {
            kill(worker);
            reap(worker);
        }
        // The dead hold the lock until it is taken from them.
        heap.check().unwrap();
        let picture = observer.picture().unwrap();
        assert!(!picture.torn);
        let told: Vec<_> = heap.processes().unwrap().iter().map(|one| (one.owner, one.blocks, one.bytes)).collect();
        let seen: Vec<_> = picture.processes.iter().map(|one| (one.owner, one.blocks, one.bytes)).collect();
        assert_eq!(seen, told);
        assert!(picture.processes.iter().all(|one| one.operations.is_some() == (small == SmallBlocks::Slabs)));
        assert!(picture.processes.iter().any(|one| one.owner.state == ProcessState::Attached));
    }
}

#[test]
fn a_held_lock_shows_and_does_not_delay() {
    let spot = Spot::new("held");
    let heap = spot.create(&settings(SmallBlocks::Placed));
    let observer = Observer::open(&spot).unwrap();
    assert_eq!(observer.lock().unwrap().holder, None);
    let file = File::options().write(true).open(spot.path()).unwrap();
    let contended = u64::from(std::process::id()) | 1 << 31 | 1 << 32;
    file.write_all_at(&contended.to_ne_bytes(), 128).unwrap();
    let lock = observer.lock().unwrap();
    assert_eq!((lock.holder, lock.contended), (Some(std::process::id()), true));
    assert!(observer.picture().unwrap().torn);
    file.write_all_at(&[0; 8], 128).unwrap();
    drop(heap);
}

#[test]
fn damaged_bytes_do_no_harm() {
    for small in SmallBlocks::ALL {
        let spot = Spot::new("hostile");
        let heap = spot.create(&Settings { size: 256 << 10, ..settings(small) });
        (1..200).for_each(|number| drop(heap.allocate(number * 5)));
        let data = fs::read(spot.path()).unwrap().len() - (256 << 10);
        let file = File::options().write(true).read(true).open(spot.path()).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..3000 {
            let at = random.usize(128..data) as u64;
            let mut was = [0; 8];
            file.read_exact_at(&mut was, at).unwrap();
            let now = if random.bool() { random.u64(..) } else { u64::MAX };
            file.write_all_at(&now.to_ne_bytes(), at).unwrap();
            if let Ok(picture) = Observer::open(&spot).unwrap().picture() {
                assert!(used(&picture) <= picture.max_size as u64, "{at:#x}");
            }
            file.write_all_at(&was, at).unwrap();
        }
        file.set_len(data as u64).unwrap();
        assert!(matches!(Observer::open(&spot), Err(Error::WrongLength { .. })));
        // The heap is mapped, but no longer backed: it cannot be closed.
        file.set_len((data + (256 << 10)) as u64).unwrap();
        std::mem::forget(heap);
    }
}

#[test]
fn a_file_that_is_cut_short_is_an_error() {
    let spot = Spot::new("cut");
    spot.create(&settings(SmallBlocks::Placed)).close().unwrap();
    let observer = Observer::open(&spot).unwrap();
    let file = File::options().write(true).open(spot.path()).unwrap();
    let whole = file.metadata().unwrap().len();
    let last = Offset::new(whole - 8).unwrap();
    assert_eq!(observer.read(last, &mut [0; 8]), Ok(8));
    for length in [whole - 1, whole / 2, 100, 0] {
        file.set_len(length).unwrap();
        assert!(matches!(observer.picture(), Err(Error::WrongLength { .. })), "{length}");
        assert!(matches!(observer.lock(), Err(Error::WrongLength { .. })), "{length}");
        assert!(matches!(observer.read(last, &mut [0; 8]), Err(Error::WrongLength { .. })), "{length}");
    }
}

/// Threads, and the children of a fork, have one position in the file.
#[test]
fn many_look_through_one_observer() {
    let spot = Spot::new("shared-observer");
    let heap = spot.create(&Settings { max_size: Some(1 << 24), ..settings(SmallBlocks::Slabs) });
    heap.allocate(100).unwrap();
    let observer = Observer::open(&spot).unwrap();
    let look = || (0..200).try_for_each(|_| observer.picture().map(drop));
    let child = fork(|| look().is_ok());
    std::thread::scope(|scope| {
        let looking: Vec<_> = (0..3).map(|_| scope.spawn(look)).collect();
        looking.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), Ok(())));
    });
    assert_eq!(reap(child), 0);
}
