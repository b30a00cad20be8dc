//! One heap used by processes in several namespaces of process numbers, as containers are, with and without `/proc`.
//!
//! Where namespaces are not permitted, the tests say so and pass.

#[path = "../../shared/tests/common/mod.rs"]
mod common;

use std::fs;
use std::mem::offset_of;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use common::{
    LOCK, Spot, await_at_least, end, fork, hasty, kill, of, reap, shared_word, stop_while_it_holds_the_lock, word_at,
    work_for_ever,
};
use heapwright_shared::{
    Error, Place, PolicyKind, ProcessState, Settings, SharedHeap, SmallBlocks, Snapshot, Strangers,
};

/// As [`fork`]: the child is process 1 of a namespace of its own, in which all that it forks is. `None` where that is
/// not permitted.
fn fork_elsewhere(work: impl FnOnce() -> bool) -> Option<i32> {
    use std::os::fd::AsRawFd;
    let home = fs::File::open("/proc/thread-self/ns/pid").ok()?;
    // SAFETY: it concerns only the children that this thread forks from here on, until it goes back below.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        eprintln!("no namespaces of process numbers are permitted here: nothing is tested");
        return None;
    }
    let child = fork(work);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setns(home.as_raw_fd(), libc::CLONE_NEWPID) }, 0);
    Some(child)
}

/// Whether `work` returns `true` in a namespace of its own.
fn elsewhere(work: impl FnOnce() -> bool) -> bool {
    fork_elsewhere(work).is_none_or(|child| reap(child) == 0)
}

#[test]
fn the_dead_are_found_out_and_the_living_are_not_robbed() {
    for small in [SmallBlocks::Placed, SmallBlocks::Slabs] {
        let spot = Spot::new("namespaces");
        let heap = spot.create(&Settings { small, ..of(PolicyKind::Best, 1 << 20) });
        for round in 0..6 {
            let ready = shared_word();
            let Some(child) = fork_elsewhere(|| {
                let heap = spot.open();
                heap.allocate(100).unwrap();
                ready.store(1, Ordering::Release);
                // Long blocks, for which the lock is needed in any heap.
                loop {
                    let block = heap.allocate(5000).unwrap();
                    heap.deallocate(block).unwrap();
                }
            }) else {
                return;
            };
            await_at_least(ready, 1);
            stop_while_it_holds_the_lock(child, &spot);
            let held = word_at(&spot, LOCK);
            let robbed = || {
                let refused = SharedHeap::open_with(&spot, &hasty()).map(drop).unwrap_err();
                // It is process 1 there.
                assert_eq!(refused, Error::TimedOut { holder: 1 });
                assert!(SharedHeap::repair(&spot, &hasty(), Strangers::Displace).is_err());
                true
            };
            assert!(robbed() && elsewhere(robbed));
            assert_eq!(word_at(&spot, LOCK) & !(1 << 31), held & !(1 << 31), "the lock was taken from a living holder");
            end(child);
            if round % 2 == 0 {
                assert!(elsewhere(|| spot.open().check().is_ok()));
            }
            heap.check().unwrap();
            let left = heap.reclaim_dead().unwrap().blocks;
            assert!((1..=2).contains(&left), "the dead left {left} blocks: the short one, and perhaps a long one");
        }
        assert_eq!(heap.recoveries(), Ok(6));
        assert!(heap.processes().unwrap().iter().all(|process| process.owner.state == ProcessState::Attached));
    }
}

/// Two containers' first processes have the same number.
#[test]
fn a_number_used_again_in_another_namespace_is_another_process() {
    let (cell, ready) = (Cell::new("reused"), shared_word());
    let child = fork_elsewhere(|| {
        let Some(place) = cell.lock_in() else { return true };
        let heap = SharedHeap::create(&place, &Settings::default()).unwrap();
        ready.store(1, Ordering::Release);
        work_for_ever(&heap)
    });
    let Some(child) = child else { return };
    await_at_least(ready, 1);
    stop_while_it_holds_the_lock(child, &cell.place());
    end(child);
    assert!(elsewhere(|| {
        let heap = SharedHeap::open(&cell.lock_in().unwrap()).unwrap();
        heap.check().unwrap();
        heap.recoveries() == Ok(1)
    }));
}

#[test]
fn a_holder_that_has_closed_all_its_descriptors_is_not_robbed() {
    let spot = Spot::new("daemon");
    let ready = shared_word();
    let child = fork_elsewhere(|| {
        let heap = spot.create(&Settings::default());
        // SAFETY: the child uses none of them but the heap, which needs none.
        unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
        ready.store(1, Ordering::Release);
        work_for_ever(&heap)
    });
    let Some(child) = child else { return };
    await_at_least(ready, 1);
    stop_while_it_holds_the_lock(child, &spot);
    let refused = || SharedHeap::open_with(&spot, &hasty()).map(drop) == Err(Error::TimedOut { holder: 1 });
    assert!(refused() && elsewhere(refused));
    end(child);
    assert!(elsewhere(|| spot.open().check().is_ok()));
}

/// What a process forks has neither its announcement nor its lock.
#[test]
fn children_do_not_keep_the_dead_alive() {
    let spot = Spot::new("orphans");
    let (ready, orphan) = (shared_word(), shared_word());
    let child = fork_elsewhere(|| {
        let heap = spot.create(&Settings::default());
        let inner = fork(|| {
            ready.store(1, Ordering::Release);
            work_for_ever(&heap)
        });
        await_at_least(ready, 1);
        // SAFETY: a child of ours, which goes on when the namespace's first process has ended, or is ended with it.
        unsafe { libc::kill(inner, libc::SIGSTOP) };
        orphan.store(1, Ordering::Release);
        heap.allocate(100).unwrap();
        work_for_ever(&heap)
    });
    let Some(child) = child else { return };
    await_at_least(orphan, 1);
    kill(child);
    reap(child);
    let heap = spot.open();
    heap.check().unwrap();
    assert!(
        heap.processes().unwrap().iter().filter(|process| process.owner.state == ProcessState::Attached).count() == 1
    );
}

/// A forked child that stays idle must not count as its parent, which was killed while it held the lock.
#[test]
fn an_idle_child_does_not_hold_its_parents_lock() {
    let spot = Spot::new("idle-child");
    let (idle, ready) = (shared_word(), shared_word());
    let child = fork(|| {
        let heap = spot.create(&Settings::default());
        let waits = || {
            // Not for ever, if the test fails.
            std::thread::sleep(std::time::Duration::from_secs(20));
            true
        };
        idle.store(fork(waits) as u64, Ordering::Release);
        ready.store(1, Ordering::Release);
        work_for_ever(&heap)
    });
    await_at_least(ready, 1);
    stop_while_it_holds_the_lock(child, &spot);
    end(child);
    assert!(elsewhere(|| SharedHeap::open_with(&spot, &hasty()).unwrap().check().is_ok()));
    // SAFETY: the child's child, which nothing else ends.
    unsafe { libc::kill(idle.load(Ordering::Acquire) as i32, libc::SIGKILL) };
}

#[test]
fn a_process_that_replaced_its_program_is_not_declared_dead_here() {
    let spot = Spot::new("replaced");
    let heap = spot.create(&Settings::default());
    let child = fork(|| {
        let heap = spot.open();
        heap.allocate(100).unwrap();
        replace_program();
        false
    });
    await_sleep(child);
    assert!(heap.left_behind().unwrap().is_empty());
    assert!(Snapshot::read(&spot).unwrap().doubt.is_some());
    end(child);
    assert_eq!(heap.left_behind().unwrap().len(), 1);
    assert_eq!(Snapshot::read(&spot).unwrap().doubt, None);
}

#[test]
fn a_mutex_of_a_process_that_replaced_its_program_is_not_called_the_segments_lock() {
    let spot = Spot::new("mutex");
    let heap = spot.create(&Settings::default());
    let mutex = heap.allocate_mutex(7_u32).unwrap();
    let child = fork(|| {
        let heap = spot.open();
        // SAFETY: the mutex lies there.
        std::mem::forget(unsafe { heap.lock(mutex) }.unwrap());
        replace_program();
        false
    });
    await_sleep(child);
    let heap = SharedHeap::open_with(&spot, &hasty()).unwrap();
    // SAFETY: as above.
    let refused = unsafe { heap.lock(mutex) }.map(drop).unwrap_err().to_string();
    assert!(refused.contains("holds the mutex") && !refused.contains("--take-over"), "{refused}");
    end(child);
    // SAFETY: as above.
    assert!(unsafe { heap.lock(mutex) }.unwrap().previous_holder_died());
}

/// Runs `sleep` in place of this program.
fn replace_program() {
    let program = [c"/bin/sleep".as_ptr(), c"60".as_ptr(), std::ptr::null()];
    // SAFETY: strings that end with zeros, and a list that ends with null.
    unsafe { libc::execv(program[0], program.as_ptr()) };
}

fn await_sleep(child: i32) {
    let is_sleep = || fs::read(format!("/proc/{child}/comm")).is_ok_and(|name| name == b"sleep\n");
    while !is_sleep() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_child_in_another_namespace_uses_the_heap_as_one_of_its_own() {
    let spot = Spot::new("moved-child");
    let heap = spot.create(&Settings::default());
    let Some(child) = fork_elsewhere(|| heap.allocate(100).is_ok()) else { return };
    assert_eq!(reap(child), 0);
    heap.allocate(100).unwrap();
    assert_eq!((heap.processes().unwrap().len(), heap.left_behind().unwrap().len()), (2, 1));
}

/// Makes `pidfd_open` fail in the calling child, as in kernels and sandboxes without it, and locks of file descriptions
/// as well; whether that is allowed.
fn refuse_pidfds_and_locks() -> bool {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at as u32);
    let unless = |value, jf| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, jf, value as u32);
    let end = |with| step(libc::BPF_RET | libc::BPF_K, 0, 0, with);
    let mut filter = [
        load(offset_of!(libc::seccomp_data, nr)),
        unless(libc::SYS_pidfd_open, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        unless(libc::SYS_fcntl, 3),
        load(offset_of!(libc::seccomp_data, args) + 8),
        unless(i64::from(libc::F_OFD_SETLK), 1),
        end(libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is a local variable and so are its steps.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// A folder of shared memory that becomes the root of processes, which have no `/proc` there.
struct Cell(PathBuf);

impl Cell {
    fn new(what: &str) -> Cell {
        let path = PathBuf::from(format!("/dev/shm/heapwright-test-{what}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Cell(path)
    }

    fn place(&self) -> Place {
        Place::new(self.0.join("heap")).unwrap()
    }

    /// Locks the calling child in; whether that is allowed. The segment is at the place returned, then.
    fn lock_in(&self) -> Option<Place> {
        std::os::unix::fs::chroot(&self.0).ok()?;
        std::env::set_current_dir("/").unwrap();
        Some(Place::new("./heap").unwrap())
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Has a process without `/proc` stopped while it holds the lock, tells what another one finds, in another namespace,
/// and ends it.
fn a_holder_without_proc(what: &str, prepare: fn() -> bool, stranger: fn(&Place) -> bool) -> Option<Cell> {
    let (cell, ready) = (Cell::new(what), shared_word());
    let child = fork(|| {
        let Some(place) = cell.lock_in().filter(|_| prepare()) else {
            ready.store(2, Ordering::Release);
            return true;
        };
        let heap = SharedHeap::create(&place, &Settings::default()).unwrap();
        ready.store(1, Ordering::Release);
        work_for_ever(&heap)
    });
    await_at_least(ready, 1);
    if ready.load(Ordering::Acquire) == 2 {
        assert_eq!(reap(child), 0);
        return None;
    }
    let place = cell.place();
    stop_while_it_holds_the_lock(child, &place);
    let held = word_at(&place, LOCK);
    assert!(elsewhere(|| stranger(&place)));
    assert_eq!(word_at(&place, LOCK) & !(1 << 31), held & !(1 << 31), "the lock was taken from a living holder");
    end(child);
    Some(cell)
}

#[test]
fn a_holder_without_proc_is_not_robbed() {
    let is_refused = |place: &Place| {
        let refused = SharedHeap::open_with(place, &hasty()).map(drop);
        assert!(SharedHeap::repair(place, &hasty(), Strangers::Displace).is_err());
        matches!(refused, Err(Error::TimedOut { .. }))
    };
    let Some(cell) = a_holder_without_proc("no-proc", || true, is_refused) else { return };
    // Its death is found without being told.
    assert!(elsewhere(|| SharedHeap::open(&cell.place()).unwrap().check().is_ok()));
}

#[test]
fn a_holder_that_announced_nothing_is_not_robbed() {
    let is_refused = |place: &Place| {
        let refused = SharedHeap::open_with(place, &hasty()).map(drop).unwrap_err();
        let message = refused.to_string();
        assert!(matches!(refused, Error::HolderUnknown { .. }), "{message}");
        assert!(message.contains("namespace") && message.contains("--take-over"), "{message}");
        SharedHeap::repair(place, &hasty(), Strangers::Respect).is_err()
    };
    let Some(cell) = a_holder_without_proc("unannounced", refuse_pidfds_and_locks, is_refused) else { return };
    // The user knows that it has died.
    SharedHeap::repair(&cell.place(), &hasty(), Strangers::Displace).unwrap();
    SharedHeap::open(&cell.place()).unwrap().check().unwrap();
}

/// One that is known by its number only does not use a heap of another namespace.
#[test]
fn a_process_that_cannot_announce_itself_stays_in_its_namespace() {
    let spot = Spot::new("no-locks");
    drop(spot.create(&Settings::default()));
    assert!(elsewhere(|| {
        if !refuse_pidfds_and_locks() {
            return true;
        }
        let refused = Err(Error::OtherNamespace { place: (*spot).clone() });
        assert_eq!(SharedHeap::open(&spot).map(drop), refused);
        assert_eq!(Snapshot::read(&spot).map(drop), refused);
        assert_eq!(SharedHeap::repair(&spot, &hasty(), Strangers::Respect).map(drop), refused);
        true
    }));
    let child = fork(|| !refuse_pidfds_and_locks() || SharedHeap::open(&spot).is_ok());
    assert_eq!(reap(child), 0);
}
