//! The lock among threads and across fork, and memory from the system.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use heapwright_os::{ForkPass, Lock, map_aligned, page_size, remap, unmap};

/// A pass as a fork makes it.
fn to_take() -> ForkPass<'static> {
    // SAFETY: the tests have one guard of each lock at a time.
    unsafe { ForkPass::to_take() }
}

fn to_take_soon() -> ForkPass<'static> {
    // SAFETY: as above.
    unsafe { ForkPass::to_take_soon() }
}

#[test]
fn one_thread_at_a_time() {
    static COUNT: Lock<u64> = Lock::new(0);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(|| {
                for _ in 0..20_000 {
                    let mut count = COUNT.lock();
                    let seen = *count;
                    std::hint::black_box(&count);
                    *count = seen + 1;
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*COUNT.lock(), 160_000);
}

#[test]
fn a_thread_that_waits_long_is_woken() {
    static VALUE: Lock<u32> = Lock::new(0);
    VALUE.hold();
    let waiting = thread::spawn(|| *VALUE.lock());
    thread::sleep(std::time::Duration::from_millis(100));
    assert!(!waiting.is_finished());
    // SAFETY: this thread took the lock above.
    unsafe { VALUE.let_go() };
    assert_eq!(waiting.join().unwrap(), 0);
}

#[test]
fn the_child_of_a_fork_holds_the_lock_of_the_thread_that_forked() {
    static LOCK: Lock<u32> = Lock::new(7);
    static STOP: AtomicBool = AtomicBool::new(false);
    let busy = thread::spawn(|| {
        while !STOP.load(Ordering::Relaxed) {
            *LOCK.lock() ^= 1;
        }
    });
    for _ in 0..200 {
        LOCK.hold_for_fork(to_take());
        // SAFETY: the child calls nothing but the lock and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let value = LOCK.lock_in_child().map(|value| *value);
            // SAFETY: the thread that forked held the lock.
            unsafe { LOCK.let_go_after_fork() };
            let code = i32::from(*LOCK.lock() & !1 != 6 || value.is_none());
            heapwright_os::exit_at_once(code);
        }
        // SAFETY: this thread took the lock above.
        unsafe { LOCK.let_go_after_fork() };
        let mut status = -1;
        // SAFETY: the status is written to a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
    STOP.store(true, Ordering::Relaxed);
    busy.join().unwrap();
}

#[test]
fn a_lock_that_is_held_for_a_fork_lets_its_owner_through_and_nobody_else() {
    static LOCK: Lock<u32> = Lock::new(7);
    let owner = thread::spawn(|| {
        // Another thread: this one is not the only one.
        let (done, other) = channel::<()>();
        let parked = thread::spawn(move || other.recv().unwrap_err());
        assert!(LOCK.hold_for_fork(to_take()));
        *LOCK.lock() += 1;
        assert!(LOCK.hold_for_fork(to_take()), "for a fork inside another");
        *LOCK.lock() += 1;
        let waiting = thread::spawn(|| *LOCK.lock());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        *LOCK.lock() += 1;
        // SAFETY: this thread took the lock above.
        unsafe { LOCK.let_go_after_fork() };
        assert_eq!(waiting.join().unwrap(), 10);
        drop(done);
        parked.join().unwrap();
    });
    owner.join().unwrap();
}

#[test]
fn a_fork_recognises_a_lock_that_its_thread_holds_and_waits_for_others_or_gives_up() {
    static LOCK: Lock<u32> = Lock::new(7);
    static OTHER: Lock<u32> = Lock::new(7);
    let (to_end, end) = channel::<()>();
    let (to_begin, begin) = channel::<()>();
    let other = thread::spawn(move || {
        let _held = OTHER.lock();
        to_begin.send(()).unwrap();
        end.recv().unwrap_err();
    });
    begin.recv().unwrap();
    let own = LOCK.lock();
    let is_interrupted = Cell::new(false);
    assert!(!OTHER.hold_for_fork(ForkPass::Look(&is_interrupted)) && !is_interrupted.get());
    assert!(LOCK.hold_for_fork(ForkPass::Look(&is_interrupted)) && is_interrupted.get());
    assert!(LOCK.hold_for_fork(to_take_soon()) && !OTHER.hold_for_fork(to_take_soon()));
    // SAFETY: this thread forks, as it were; neither lock was taken for that.
    unsafe {
        LOCK.let_go_after_fork();
        OTHER.let_go_after_fork();
    }
    // SAFETY: the lock lives as long as the process.
    assert_ne!(unsafe { LOCK.word().read_volatile() }, 0, "it is still held");
    drop(own);
    // SAFETY: the lock lives as long as the process.
    assert_eq!(unsafe { LOCK.word().read_volatile() }, 0);
    drop(to_end);
    other.join().unwrap();
    assert!(OTHER.hold_for_fork(to_take_soon()));
    // SAFETY: this thread took the lock above.
    unsafe { OTHER.let_go_after_fork() };
}

#[test]
fn mappings_are_aligned_zeroed_and_keep_their_contents_when_they_move() {
    let length = 3 * page_size();
    for shift in 0..26 {
        let start = map_aligned(length, 1 << shift).unwrap();
        assert!(start.addr().get().is_multiple_of(1 << shift));
        // SAFETY: the mapping is as long as `length`, then longer, and is used by its last address only.
        unsafe {
            assert!(std::slice::from_raw_parts(start.as_ptr(), length).iter().all(|&byte| byte == 0));
            start.write_bytes(9, length);
            let longer = remap(start, length, 2 * length).unwrap();
            let bytes = std::slice::from_raw_parts(longer.as_ptr(), 2 * length);
            assert!(bytes[..length].iter().all(|&byte| byte == 9) && bytes[length..].iter().all(|&byte| byte == 0));
            unmap(longer, 2 * length).unwrap();
        }
    }
}
