//! Who holds the lock, who lives, and whose a segment is: what is believed, and on which evidence.

#[path = "../../shared/tests/common/mod.rs"]
mod common;

use std::fs;
use std::mem::zeroed;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{
    LOCK, Spot, await_at_least, end, fork, growing, hasty, of, reap, shared_word, stop, stop_while_it_holds_the_lock,
    word_at, work_for_ever,
};
use heapwright_shared::{Access, Error, Place, PolicyKind, Settings, SharedHeap, Snapshot, Strangers};

/// Where the capacity lies in a segment.
const CAPACITY: u64 = 232;

#[test]
fn a_flipped_bit_of_a_free_lock_is_no_holder() {
    for policy in [PolicyKind::Best, PolicyKind::Buddy] {
        let spot = Spot::new("lock-bit");
        let heap = spot.create(&of(policy, 1 << 16));
        let block = heap.allocate(300).unwrap();
        heap.set_root("block", block).unwrap();
        heap.close().unwrap();
        let file = fs::File::options().write(true).open(spot.path()).unwrap();
        let whole = fs::read(spot.path()).unwrap();
        for bit in 0..64 {
            let damage = || file.write_all_at(&(1_u64 << bit).to_ne_bytes(), LOCK).unwrap();
            damage();
            let snapshot = Snapshot::read_with(&spot, &hasty());
            assert_eq!(snapshot.map(|snapshot| snapshot.audit), Ok(Ok(())), "bit {bit}");
            let heap = SharedHeap::open_with(&spot, &hasty()).unwrap();
            assert_eq!(heap.root("block"), Ok(Some(block)));
            heap.check().unwrap();
            drop(heap);
            file.write_all_at(&whole, 0).unwrap();
            damage();
            SharedHeap::repair(&spot, &hasty(), Strangers::Respect).unwrap();
            spot.open().check().unwrap();
            file.write_all_at(&whole, 0).unwrap();
        }
    }
}

/// How many entries of the process table, of 16 bytes each, are not free.
fn listed(place: &Place, processes: u64) -> usize {
    (0..processes).filter(|number| word_at(place, 320 + number * 16) != 0).count()
}

#[test]
fn handles_that_leave_nothing_are_not_listed() {
    let spot = Spot::new("left-nothing");
    let heap = spot.create(&Settings { processes: 8, ..Settings::default() });
    for _ in 0..20 {
        let other = spot.open();
        let (own, passed_on) = (other.allocate(100).unwrap(), other.allocate(100).unwrap());
        let adopted = other.allocate(100).unwrap();
        // SAFETY: no other thread uses the block.
        let moved = unsafe { other.resize(own, 9000) };
        moved.and_then(|moved| other.deallocate(moved)).unwrap();
        heap.deallocate(passed_on).unwrap();
        heap.adopt(adopted).unwrap();
        other.close().unwrap();
        assert_eq!(listed(&spot, 8), 1);
    }
    assert_eq!(heap.processes().unwrap()[0].blocks, 20);
    // Of those that leave blocks, several make room at once.
    for _ in 0..8 {
        let other = spot.open();
        other.allocate(100).unwrap();
        other.close().unwrap();
    }
    assert!(listed(&spot, 8) <= 6);
    assert_eq!(heap.blocks().unwrap().iter().filter(|block| block.owner.is_some()).count(), 28);
    let blocks: u64 = heap.processes().unwrap().iter().map(|process| process.blocks).sum();
    assert_eq!(blocks, 28);
}

/// The most memory that a child had resident while it did `work`, in KiB above what it began with.
fn growth_of_memory(work: impl FnOnce() -> bool) -> u64 {
    let word = shared_word();
    let most = || {
        // SAFETY: the usage is a local variable, for which zeros are valid.
        unsafe {
            let mut usage: libc::rusage = zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage.ru_maxrss as u64
        }
    };
    let child = fork(|| {
        let before = most();
        let done = work();
        word.store(most() - before, Ordering::Release);
        done
    });
    assert_eq!(reap(child), 0);
    word.load(Ordering::Acquire)
}

/// Creates a heap with a block in another process, which closes it or ends without.
fn leave_a_block(spot: &Spot, settings: &Settings, close: bool) {
    let child = fork(|| {
        let heap = spot.create(settings);
        heap.allocate(1000).unwrap();
        if close {
            heap.close().unwrap();
        } else {
            std::mem::forget(heap);
        }
        true
    });
    assert_eq!(reap(child), 0);
}

#[test]
fn a_flipped_bit_of_the_capacity_costs_no_memory() {
    for close in [true, false] {
        let spot = Spot::new("capacity");
        leave_a_block(&spot, &growing(PolicyKind::Best, 1 << 20, 32 << 30), close);
        let file = fs::File::options().write(true).open(spot.path()).unwrap();
        let sound = word_at(&spot, CAPACITY);
        let allocated = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(spot.path()).unwrap());
        let before = allocated();
        let grown = growth_of_memory(|| {
            (0..64).all(|bit| {
                file.write_all_at(&(sound ^ 1 << bit).to_ne_bytes(), CAPACITY).unwrap();
                let refused = Snapshot::read(&spot).is_ok_and(|snapshot| snapshot.audit.is_err());
                refused && SharedHeap::open(&spot).is_err()
            })
        });
        assert!(grown < 16 << 10, "{grown} KiB");
        assert!(allocated() < before + (1 << 11), "{} blocks of the file, {before} before", allocated());
    }
}

/// The word for a capacity, as a forger computes it.
fn forged_capacity(capacity: u64) -> u64 {
    let units = capacity >> 4;
    units << 21 | u64::from(crc32fast::hash(&units.to_ne_bytes()) & 0x1f_ffff)
}

/// A word that claims all that the heap may ever have costs those who look nothing that the file does not hold.
#[test]
fn a_forged_capacity_costs_no_memory() {
    for (policy, close) in PolicyKind::ALL.into_iter().flat_map(|policy| [(policy, true), (policy, false)]) {
        let spot = Spot::new("forged");
        let most = 64 << 30;
        leave_a_block(&spot, &growing(policy, 1 << 20, most), close);
        let file = fs::File::options().write(true).open(spot.path()).unwrap();
        assert_eq!(word_at(&spot, CAPACITY), forged_capacity(1 << 20));
        file.write_all_at(&forged_capacity(most as u64).to_ne_bytes(), CAPACITY).unwrap();
        let grown = growth_of_memory(|| {
            let _ = Snapshot::read(&spot);
            true
        });
        assert!(grown < 16 << 10, "{} closed {close}: {grown} KiB", policy.name());
        assert!(SharedHeap::open(&spot).is_err());
    }
}

#[test]
fn unmapped_owners_are_not_oneself() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let (foreign, own) = (Spot::new("foreign"), Spot::new("own"));
    for (spot, owner) in [(&foreign, 12345), (&own, 54321)] {
        spot.create(&Settings { mode: 0o666, ..Settings::default() });
        std::os::unix::fs::chown(spot.path(), Some(owner), None).unwrap();
    }
    let child = fork(|| {
        // SAFETY: the child is alone; it becomes another user, then one without a number.
        unsafe {
            assert_eq!(libc::setresuid(54321, 54321, 54321), 0);
            if libc::unshare(libc::CLONE_NEWUSER) != 0 {
                return true;
            }
            assert_eq!(libc::geteuid(), 65534);
        }
        let refused = Err(Error::NotOurs { place: (*foreign).clone(), owner: 65534 });
        assert_eq!(SharedHeap::open(&foreign).map(drop), refused);
        assert_eq!(Snapshot::read(&foreign).map(drop), refused);
        let of_nobody = Access { owner: heapwright_shared::Owner::User(65534), ..Access::default() };
        assert_eq!(SharedHeap::open_with(&foreign, &of_nobody).map(drop), refused);
        SharedHeap::open(&own).map(drop).unwrap();
        true
    });
    assert_eq!(reap(child), 0);
}

/// The child of a bare system call, of which no handler hears.
#[test]
fn a_child_of_a_raw_fork_is_not_its_parent() {
    let spot = Spot::new("raw-fork");
    let heap =
        SharedHeap::create(&spot, &Settings { patience: Duration::from_millis(300), ..Settings::default() }).unwrap();
    for _ in 0..5 {
        // SAFETY: the child works on the heap only, which needs no lock of this process.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32;
        if child == 0 {
            work_for_ever(&heap);
        }
        stop_while_it_holds_the_lock(child, &spot);
        end(child);
        heap.allocate(100).unwrap();
        heap.check().unwrap();
    }
}

#[test]
fn a_block_that_moves_is_copied_outside_the_lock() {
    const LONG: usize = 96 << 20;
    let spot = Spot::new("moving");
    let heap = spot.create(&of(PolicyKind::First, 4 * LONG));
    let access = hasty();
    let seen = (0..40).any(|attempt| {
        let begun = shared_word();
        let child = fork(|| {
            let heap = spot.open();
            let block = heap.allocate(LONG).unwrap();
            heap.allocate(64).unwrap();
            begun.store(1, Ordering::Release);
            // SAFETY: only this thread uses the block.
            unsafe { heap.resize(block, LONG + 4096) }.is_ok()
        });
        await_at_least(begun, 1);
        std::thread::sleep(Duration::from_millis(1 + attempt % 8));
        stop(child);
        let long = SharedHeap::open_with(&spot, &access)
            .and_then(|heap| heap.blocks())
            .map(|blocks| blocks.iter().filter(|block| block.owner.is_some() && block.size >= LONG).count());
        end(child);
        heap.reclaim_dead().unwrap();
        long == Ok(2)
    });
    assert!(seen, "no other process ever had the lock while the block was copied");
    heap.check().unwrap();
}
