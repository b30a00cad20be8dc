//! Who holds the lock, who lives, and whose a segment is: what is believed, and on which evidence.

mod common;

use std::fs;
use std::mem::{offset_of, zeroed};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Spot, fork, growing, kill, of, reap};
use heapwright_shared::{Access, Error, Place, PolicyKind, Settings, SharedHeap, Snapshot, Strangers};

/// Where the lock, the capacity and the process table lie in a segment.
const LOCK: u64 = 128;
const CAPACITY: u64 = 232;

fn hasty() -> Access {
    Access { patience: Duration::from_millis(50), ..Access::default() }
}

fn word_at(place: &Place, at: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open(place.path()).unwrap().read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}

/// One word in memory that children share.
fn shared_word() -> &'static AtomicU64 {
    // SAFETY: a new mapping, which is never unmapped, and zero is a value of the word.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<AtomicU64>()
    }
}

fn await_at_least(word: &AtomicU64, value: u64) {
    while word.load(Ordering::Acquire) < value {
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn end(child: i32) {
    kill(child);
    assert_eq!(reap(child), -libc::SIGKILL);
}

fn stop(child: i32) {
    let mut status = 0;
    // SAFETY: a child of ours; waits until it has stopped.
    unsafe {
        libc::kill(child, libc::SIGSTOP);
        assert_eq!(libc::waitpid(child, &mut status, libc::WUNTRACED), child);
    }
    assert!(libc::WIFSTOPPED(status));
}

fn go_on(child: i32) {
    // SAFETY: a child of ours.
    unsafe { libc::kill(child, libc::SIGCONT) };
}

/// Stops a child that works on the segment until it is stopped while it holds the lock.
fn stop_while_it_holds_the_lock(child: i32, place: &Place) {
    for _ in 0..2000 {
        std::thread::sleep(Duration::from_millis(1));
        stop(child);
        if word_at(place, LOCK) != 0 {
            return;
        }
        go_on(child);
    }
    panic!("the child was never stopped while it held the lock");
}

fn work_for_ever(heap: &SharedHeap) -> bool {
    loop {
        let block = heap.allocate(100).unwrap();
        heap.deallocate(block).unwrap();
    }
}

/// Moves the calling child's children to a namespace of process numbers of their own; whether that is allowed.
fn enter_new_pid_namespace() -> bool {
    // SAFETY: the child is alone.
    unsafe { libc::unshare(libc::CLONE_NEWPID) == 0 }
}

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
        other.resize(own, 9000).and_then(|moved| other.deallocate(moved)).unwrap();
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

/// Makes `pidfd_open` fail in the calling child, as in kernels and sandboxes without it; whether that is allowed.
fn refuse_pidfds() -> bool {
    let load = offset_of!(libc::seccomp_data, nr) as u32;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, load),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_pidfd_open as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
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

/// What two processes find out about each other: one without `/proc`, stopped while it holds the lock, and one in
/// another namespace.
fn a_holder_without_proc_is_not_robbed(what: &str, prepare: fn() -> bool) {
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
        return;
    }
    let place = cell.place();
    stop_while_it_holds_the_lock(child, &place);
    let held = word_at(&place, LOCK);
    let stranger = fork(|| {
        assert!(enter_new_pid_namespace());
        let inner = fork(|| {
            let refused = SharedHeap::open_with(&place, &hasty()).map(drop).unwrap_err();
            let message = refused.to_string();
            assert!(message.contains("namespace") && message.contains("--take-over"), "{message}");
            SharedHeap::repair(&place, &hasty(), Strangers::Respect).is_err()
        });
        reap(inner) == 0
    });
    assert_eq!(reap(stranger), 0);
    assert_eq!(word_at(&place, LOCK) & !(1 << 31), held & !(1 << 31), "the lock was taken from a living holder");
    end(child);
    // The user knows that it has died.
    SharedHeap::repair(&place, &hasty(), Strangers::Displace).unwrap();
    SharedHeap::open(&place).unwrap().check().unwrap();
}

#[test]
fn a_holder_without_proc_is_not_robbed_from_another_namespace() {
    a_holder_without_proc_is_not_robbed("no-proc", || true);
}

#[test]
fn a_holder_of_no_known_namespace_is_not_robbed() {
    a_holder_without_proc_is_not_robbed("unknown", refuse_pidfds);
}

#[test]
fn a_child_in_another_namespace_does_not_use_the_heap() {
    let spot = Spot::new("moved-child");
    let heap = spot.create(&Settings::default());
    let child = fork(|| {
        if !enter_new_pid_namespace() {
            return true;
        }
        let refused = Err(Error::OtherNamespace { place: (*spot).clone() });
        reap(fork(|| heap.allocate(100).map(drop) == refused)) == 0
    });
    assert_eq!(reap(child), 0);
    heap.allocate(100).unwrap();
    assert_eq!(heap.processes().unwrap().len(), 1);
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
            heap.resize(block, LONG + 4096).is_ok()
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
    assert!(seen, "nobody else ever had the lock while the block was copied");
    heap.check().unwrap();
}
