//! The lock among processes, some of which are killed.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{AMPLE, Child, Outcome, Page, await_word, shared_page, sleep, sleep_for_ever, tell_identity};
use heapwright_os::{Deaths, Identity, Life, SharedLock, Taken, TimedOut, fork_count, life};

/// A child that holds the lock of `page`, and its identity.
fn holder(page: &'static Page) -> (Child, Identity) {
    let child = Child::run(|| {
        expect!(page.lock.acquire(Identity::mine(), AMPLE, Deaths::Known) == Ok(Taken::Clean));
        tell_identity(&page.words[7]);
        sleep_for_ever()
    });
    let identity = Identity::from_word(await_word(&page.words[7]));
    assert_eq!(identity.pid, child.pid as u32);
    (child, identity)
}

fn release(lock: &SharedLock) {
    // SAFETY: every caller has just taken the lock.
    unsafe { lock.release() }
}

fn add_one(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn take_over_at_once(lock: &SharedLock, from: Identity) {
    let start = Instant::now();
    assert_eq!(lock.acquire(Identity::mine(), AMPLE, Deaths::Known), Ok(Taken::FromTheDead(from)));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    release(lock);
    assert_eq!(lock.acquire(Identity::mine(), AMPLE, Deaths::Known), Ok(Taken::Clean));
    release(lock);
}

#[test]
fn a_killed_holder_is_taken_over_while_it_is_a_zombie() {
    let page = shared_page();
    let (child, identity) = holder(page);
    assert_eq!(life(identity), Life::Alive);
    child.kill();
    assert_eq!(life(identity), Life::Dead);
    take_over_at_once(&page.lock, identity);
}

#[test]
fn a_killed_holder_is_taken_over_when_its_parent_has_noticed() {
    let page = shared_page();
    let (child, identity) = holder(page);
    child.kill();
    assert!(!child.wait());
    assert_eq!(life(identity), Life::Dead);
    take_over_at_once(&page.lock, identity);
}

#[test]
fn a_sleeping_process_takes_over_when_the_holder_is_killed() {
    let page = shared_page();
    let (child, identity) = holder(page);
    let waiting = [0, 1].map(|_| {
        Child::run(|| {
            match page.lock.acquire(Identity::mine(), AMPLE, Deaths::Known) {
                Ok(Taken::FromTheDead(dead)) => {
                    expect!(dead == identity);
                    add_one(&page.words[0]);
                }
                taken => expect!(taken == Ok(Taken::Clean)),
            }
            add_one(&page.words[1]);
            release(&page.lock);
            Ok(())
        })
    });
    sleep(50);
    assert_eq!(page.words[1].load(Ordering::Relaxed), 0);
    let start = Instant::now();
    child.kill();
    assert!(waiting.into_iter().all(Child::wait));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(page.words[0].load(Ordering::Relaxed), 1);
    assert_eq!(page.words[1].load(Ordering::Relaxed), 2);
}

#[test]
fn for_a_stopped_holder_one_waits_as_long_as_one_has_patience() {
    const PATIENCE: Duration = Duration::from_millis(200);
    let page = shared_page();
    let (child, identity) = holder(page);
    child.signal(libc::SIGSTOP);
    for patience in [PATIENCE, Duration::ZERO, Duration::from_micros(300)] {
        let start = Instant::now();
        assert_eq!(page.lock.acquire(Identity::mine(), patience, Deaths::Known), Err(TimedOut { holder: identity }));
        assert!((patience..patience + Duration::from_secs(2)).contains(&start.elapsed()), "{:?}", start.elapsed());
    }
    child.signal(libc::SIGCONT);
    child.kill();
    take_over_at_once(&page.lock, identity);
}

#[test]
fn a_process_that_was_stopped_while_waiting_does_not_time_out() {
    let page = shared_page();
    assert_eq!(page.lock.acquire(Identity::mine(), AMPLE, Deaths::Known), Ok(Taken::Clean));
    let child = Child::run(|| {
        expect!(page.lock.acquire(Identity::mine(), Duration::from_millis(1500), Deaths::Known) == Ok(Taken::Clean));
        release(&page.lock);
        Ok(())
    });
    sleep(100);
    child.signal(libc::SIGSTOP);
    sleep(2000);
    child.signal(libc::SIGCONT);
    sleep(20);
    release(&page.lock);
    assert!(child.wait());
}

#[test]
fn a_number_that_is_used_again_is_not_the_holder() {
    let me = Identity::mine();
    assert_ne!(me.birth, 0, "this test needs /proc");
    let lock = SharedLock::new();
    let before = Identity { birth: me.birth ^ 8, ..me };
    assert_eq!(lock.acquire(before, AMPLE, Deaths::Known), Ok(Taken::Clean));
    take_over_at_once(&lock, before);
}

#[test]
fn an_invalid_word_is_taken_over() {
    for garbage in [1 << 31, 1 << 32, u64::MAX, u64::MAX << 32, 0x7fff_fffe] {
        let word = AtomicU64::new(garbage);
        // SAFETY: the lock is the word, and lives as long.
        let lock = unsafe { &*(&raw const word).cast::<SharedLock>() };
        take_over_at_once(lock, Identity::from_word(garbage));
    }
}

#[test]
fn one_process_at_a_time() {
    const PROCESSES: u64 = 4;
    const TIMES: u64 = 100_000;
    let page = shared_page();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|_| {
            Child::run(|| {
                let me = Identity::mine();
                for _ in 0..TIMES {
                    expect!(page.lock.acquire(me, AMPLE, Deaths::Known) == Ok(Taken::Clean));
                    add_one(&page.words[0]);
                    release(&page.lock);
                }
                Ok(())
            })
        })
        .collect();
    assert!(children.into_iter().all(Child::wait));
    assert_eq!(page.words[0].load(Ordering::Relaxed), PROCESSES * TIMES);
    assert_eq!(page.lock.holder(), None);
}

/// Keeps two words equal whenever the lock is free; a process that takes over from a dead one makes them equal again.
fn keep_equal(page: &Page) -> Outcome {
    let me = Identity::mine();
    while page.words[3].load(Ordering::Relaxed) == 0 {
        match page.lock.acquire(me, AMPLE, Deaths::Known) {
            Ok(Taken::Clean) => expect!(page.words[0].load(Ordering::Relaxed) == page.words[1].load(Ordering::Relaxed)),
            Ok(Taken::FromTheDead(dead)) => {
                expect!(dead != me);
                page.words[1].store(page.words[0].load(Ordering::Relaxed), Ordering::Relaxed);
                add_one(&page.words[2]);
            }
            Err(_) => return Err(line!()),
        }
        add_one(&page.words[0]);
        (0..100).for_each(|_| std::hint::spin_loop());
        add_one(&page.words[1]);
        release(&page.lock);
    }
    Ok(())
}

#[test]
fn when_a_process_is_killed_the_others_go_on() {
    let page = shared_page();
    let mut workers: Vec<Child> = (0..4).map(|_| Child::run(|| keep_equal(page))).collect();
    for round in 0..200 {
        sleep(1 + round % 3);
        let before = page.words[1].load(Ordering::Relaxed);
        let killed = round as usize % workers.len();
        workers[killed].kill();
        workers[killed] = Child::run(|| keep_equal(page));
        let start = Instant::now();
        while page.words[1].load(Ordering::Relaxed) < before + 8 {
            assert!(start.elapsed() < AMPLE, "no progress after round {round}");
            sleep(1);
        }
    }
    page.words[3].store(1, Ordering::Relaxed);
    assert!(workers.into_iter().all(Child::wait));
    let taken_over = page.words[2].load(Ordering::Relaxed);
    assert!(taken_over > 0, "no process died while it held the lock, so that nothing was tested");
}

#[test]
fn the_child_of_a_fork_does_not_hold_what_its_parent_holds() {
    let page = shared_page();
    let (me, count) = (Identity::mine(), fork_count());
    assert_eq!(page.lock.acquire(me, AMPLE, Deaths::Known), Ok(Taken::Clean));
    let child = Child::run(|| {
        let mine = Identity::mine();
        expect!(mine != me && mine.pid == heapwright_os::process_id());
        expect!(fork_count() != count);
        expect!(page.lock.acquire(mine, Duration::from_millis(20), Deaths::Known) == Err(TimedOut { holder: me }));
        page.words[0].store(1, Ordering::Release);
        expect!(page.lock.acquire(mine, AMPLE, Deaths::Known) == Ok(Taken::Clean));
        release(&page.lock);
        Ok(())
    });
    await_word(&page.words[0]);
    release(&page.lock);
    assert!(child.wait());
    assert_eq!((Identity::mine(), fork_count()), (me, count));
}

/// Signals keep waking a sleeping thread; it must still check whether the holder lives.
#[test]
fn a_storm_of_signals_delays_nothing() {
    let page = shared_page();
    let (child, identity) = holder(page);
    let waiting = Child::run(|| {
        common::storm_of_signals(500);
        expect!(page.lock.acquire(Identity::mine(), AMPLE, Deaths::Known) == Ok(Taken::FromTheDead(identity)));
        Ok(())
    });
    sleep(50);
    let start = Instant::now();
    child.kill();
    assert!(waiting.wait());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn errno_is_left_alone() {
    let page = shared_page();
    let (_child, identity) = holder(page);
    heapwright_os::set_errno(1234);
    assert_eq!(
        page.lock.acquire(Identity::mine(), Duration::from_millis(30), Deaths::Known),
        Err(TimedOut { holder: identity })
    );
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(1234));
}

/// A holder that takes the lock again before those wake whom it has woken: patience is for one hold, not for all.
#[test]
fn a_lock_that_changes_hands_does_not_time_out() {
    const HOLDS: u64 = 30;
    let page = shared_page();
    let child = Child::run(|| {
        let me = Identity::mine();
        for hold in 1..=HOLDS {
            expect!(page.lock.acquire(me, AMPLE, Deaths::Known).is_ok());
            page.words[0].store(hold, Ordering::Release);
            sleep(30);
            release(&page.lock);
        }
        Ok(())
    });
    await_word(&page.words[0]);
    assert_eq!(page.lock.acquire(Identity::mine(), Duration::from_millis(300), Deaths::Known), Ok(Taken::Clean));
    release(&page.lock);
    assert!(child.wait());
}

#[test]
fn the_child_of_a_bare_system_call_is_counted() {
    let page = shared_page();
    let (me, count) = (Identity::mine(), fork_count());
    // SAFETY: the child stores words and ends.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        0 => {
            page.words[1].store(fork_count(), Ordering::Relaxed);
            tell_identity(&page.words[0]);
            heapwright_os::exit_at_once(0);
        }
        pid => {
            let child = Child { pid: pid as i32 };
            let found = Identity::from_word(await_word(&page.words[0]));
            assert_eq!(found.pid, child.pid as u32);
            assert_ne!(page.words[1].load(Ordering::Relaxed), count);
            assert!(child.wait());
        }
    }
    assert_eq!((Identity::mine(), fork_count()), (me, count));
}

#[test]
fn where_deaths_are_unknown_nobody_is_robbed() {
    let page = shared_page();
    let (child, identity) = holder(page);
    let me = Identity::mine();
    child.kill();
    let patience = Duration::from_millis(50);
    assert_eq!(page.lock.acquire(me, patience, Deaths::Unknown), Err(TimedOut { holder: identity }));
    // SAFETY: the holder is dead.
    assert_eq!(unsafe { page.lock.seize(me) }, Some(identity));
    release(&page.lock);
    assert_eq!(page.lock.holder(), None);
}
