//! The lock among threads and across fork, and memory from the system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heapwright_os::{Lock, map_aligned, page_size, remap, unmap};

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
        LOCK.hold_for_fork();
        // SAFETY: the child calls nothing but the lock and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the thread that forked held the lock.
            unsafe { LOCK.let_go_after_fork() };
            let code = i32::from(*LOCK.lock() & !1 != 6);
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
