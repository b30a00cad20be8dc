//! Explores every interleaving of a few processes at one lock, by loom: `.ci/loom`.

use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::world::{AtomicU64, be_killed_before_waking, die, let_time_flow, sleep};
use super::{FREE, SharedLock, Taken, TimedOut, WAITERS};
use crate::peer::deaths::Deaths;
use crate::peer::identity::Identity;

const FOREVER: Duration = Duration::from_secs(1_000_000);

/// A lock and the value that it guards. Loom reports two threads that access the value at the same time.
struct Guarded {
    lock: SharedLock,
    visits: UnsafeCell<u32>,
}

fn process(pid: u32) -> Identity {
    Identity { pid, birth: 1000 + pid }
}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { lock: SharedLock { word: AtomicU64::new(FREE) }, visits: UnsafeCell::new(0) })
    }

    /// Takes the lock, changes the value, and keeps the lock.
    fn enter(&self, me: Identity) -> Taken {
        let taken = self.lock.acquire(me, FOREVER, Deaths::Known).unwrap();
        // SAFETY: the lock is held, which excludes other accesses; loom reports a failure of that.
        self.visits.with_mut(|visits| unsafe { *visits += 1 });
        taken
    }

    fn leave(&self) {
        // SAFETY: tests call this after `enter`, on the same thread.
        unsafe { self.lock.release() }
    }

    fn visit(&self, me: Identity) -> Taken {
        let taken = self.enter(me);
        self.leave();
        taken
    }

    /// Returns how often it was entered, after all threads have ended.
    fn visits(&self) -> u32 {
        assert_eq!(self.lock.holder(), None);
        let _ = self.enter(process(99));
        // SAFETY: the lock is held, which excludes other accesses.
        self.visits.with(|visits| unsafe { *visits }) - 1
    }
}

fn spawn<R: 'static>(guarded: &Arc<Guarded>, run: impl FnOnce(&Guarded) -> R + 'static) -> JoinHandle<R> {
    let guarded = guarded.clone();
    thread::spawn(move || run(&guarded))
}

/// Explores all interleavings with at most `preemptions` preemptive switches.
fn explore(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scenario);
}

#[test]
fn one_at_a_time_and_every_waiter_is_woken() {
    explore(4, || {
        let guarded = Guarded::new();
        let other = spawn(&guarded, |guarded| [guarded.visit(process(2)), guarded.visit(process(2))]);
        let mine = [guarded.visit(process(1)), guarded.visit(process(1))];
        assert_eq!((mine, other.join().unwrap()), ([Taken::Clean; 2], [Taken::Clean; 2]));
        assert_eq!(guarded.visits(), 4);
    });
}

#[test]
fn both_of_two_waiters_are_woken() {
    explore(3, || {
        let guarded = Guarded::new();
        let _ = guarded.enter(process(1));
        let others = [2, 3].map(|pid| spawn(&guarded, move |guarded| guarded.visit(process(pid))));
        guarded.leave();
        assert_eq!(others.map(|other| other.join().unwrap()), [Taken::Clean; 2]);
        assert_eq!(guarded.visits(), 3);
    });
}

#[test]
fn one_of_two_takes_over_from_the_dead() {
    explore(3, || {
        let guarded = Guarded::new();
        let dead = spawn(&guarded, |guarded| {
            let _ = guarded.enter(process(1));
            die(process(1));
        });
        let other = spawn(&guarded, |guarded| guarded.visit(process(2)));
        let mine = guarded.visit(process(3));
        dead.join().unwrap();
        let takeovers =
            [mine, other.join().unwrap()].iter().filter(|&&taken| taken == Taken::FromTheDead(process(1))).count();
        // When the dead process came last, it still holds the lock.
        let left = guarded.lock.holder() == Some(process(1));
        assert_eq!(takeovers + usize::from(left), 1);
        if !left {
            assert_eq!(guarded.visits(), 3);
        }
    });
}

#[test]
fn a_process_that_took_over_may_die_as_well() {
    explore(3, || {
        let guarded = Guarded::new();
        let _ = guarded.enter(process(1));
        die(process(1));
        let second = spawn(&guarded, |guarded| {
            let taken = guarded.enter(process(2));
            die(process(2));
            taken
        });
        let third = guarded.visit(process(3));
        match second.join().unwrap() {
            Taken::FromTheDead(first) => assert_eq!((first, third), (process(1), Taken::FromTheDead(process(2)))),
            Taken::Clean => assert_eq!(third, Taken::FromTheDead(process(1))),
        }
    });
}

#[test]
fn a_process_killed_between_release_and_wake_blocks_no_waiter() {
    explore(3, || {
        let guarded = Guarded::new();
        let _ = guarded.enter(process(1));
        let others = [2, 3].map(|pid| spawn(&guarded, move |guarded| guarded.visit(process(pid))));
        be_killed_before_waking(process(1));
        guarded.leave();
        assert_eq!(others.map(|other| other.join().unwrap()), [Taken::Clean; 2]);
    });
}

#[test]
fn a_process_that_was_woken_and_killed_blocks_no_waiter() {
    explore(3, || {
        let guarded = Guarded::new();
        let _ = guarded.enter(process(1));
        let woken = spawn(&guarded, |guarded| {
            if let Some(found) = guarded.lock.announce() {
                let _ = sleep(&guarded.lock.word, found | WAITERS, FOREVER);
            }
            die(process(2));
        });
        let other = spawn(&guarded, |guarded| guarded.visit(process(3)));
        guarded.leave();
        woken.join().unwrap();
        assert_eq!(other.join().unwrap(), Taken::Clean);
    });
}

#[test]
fn a_timeout_names_the_holder() {
    explore(3, || {
        let guarded = Guarded::new();
        let _ = guarded.enter(process(1));
        let_time_flow();
        let other =
            spawn(&guarded, |guarded| guarded.lock.acquire(process(2), Duration::from_millis(30), Deaths::Known));
        assert_eq!(other.join().unwrap(), Err(TimedOut { holder: process(1) }));
        guarded.leave();
    });
}
