//! What waiting for a lock costs. One test, alone in its process: it looks at the process's processor time.

use std::thread;
use std::time::Duration;

use heapwright_os::Lock;

#[test]
fn many_threads_that_wait_long_leave_the_processors_alone() {
    const THREADS: usize = 1000;
    static LOCK: Lock<usize> = Lock::new(0);
    let processor_time = || heapwright_os::own_usage().unwrap().processor_nanoseconds;
    thread::scope(|scope| {
        let held = LOCK.lock();
        (0..THREADS).for_each(|_| {
            scope.spawn(|| *LOCK.lock() += 1);
        });
        // Before they sleep, they spin: on a busy machine for some time.
        let spent = (0..20).map(|_| {
            let before = processor_time();
            thread::sleep(Duration::from_millis(500));
            Duration::from_nanos(processor_time() - before)
        });
        let is_idle = spent.into_iter().any(|spent| spent < Duration::from_millis(100));
        drop(held);
        assert!(is_idle, "processor time was spent while nothing happened");
    });
    assert_eq!(*LOCK.lock(), THREADS);
}
