//! The lock's protocol under loom: `world.rs`, with time and deaths controlled by a test.
//!
//! Time stands still, so that a thread that is not woken sleeps for ever, which loom reports as a deadlock. When a
//! process has died, time flows: the others need it to detect the death.

use core::time::Duration;
use std::cell::Cell;
use std::vec::Vec;

use loom::sync::{Condvar, Mutex};
use loom::{lazy_static, thread, thread_local};

pub(super) use loom::sync::atomic::{AtomicU64, Ordering};

use crate::peer::deaths::Deaths;
use crate::peer::identity::{Identity, Life};

/// Few, as each spin multiplies the interleavings.
pub(super) const SPINS: u32 = 1;

struct System {
    facts: Mutex<Facts>,
    /// The threads that sleep on the word of the lock.
    sleepers: Condvar,
}

struct Facts {
    dead: Vec<Identity>,
    time_flows: bool,
}

lazy_static! {
    static ref SYSTEM: System =
        System { facts: Mutex::new(Facts { dead: Vec::new(), time_flows: false }), sleepers: Condvar::new() };
}

thread_local! {
    /// The time that this thread has slept.
    static SLEPT: Cell<Duration> = Cell::new(Duration::ZERO);
    /// The process that is killed when it is about to wake another.
    static KILLED_BEFORE_WAKING: Cell<Option<Identity>> = Cell::new(None);
}

pub(super) fn spin_loop() {}

pub(super) fn now() -> Duration {
    SLEPT.with(Cell::get)
}

pub(super) fn life(process: Identity, _: Deaths) -> Life {
    if SYSTEM.facts.lock().unwrap().dead.contains(&process) { Life::Dead } else { Life::Alive }
}

/// Why a sleep ended, as in `world.rs`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slept {
    UntilWoken,
    Otherwise,
}

pub(super) fn sleep(word: &AtomicU64, expected: u64, at_most: Duration) -> Slept {
    let facts = SYSTEM.facts.lock().unwrap();
    if word.load(Ordering::Relaxed) as u32 != expected as u32 {
        return Slept::Otherwise;
    }
    let flows = facts.time_flows || SYSTEM.sleepers.wait(facts).unwrap().time_flows;
    if !flows {
        return Slept::UntilWoken;
    }
    SLEPT.with(|slept| slept.set(slept.get() + at_most));
    thread::yield_now();
    Slept::Otherwise
}

pub(super) fn wake(_: &AtomicU64) {
    match KILLED_BEFORE_WAKING.with(Cell::get) {
        Some(me) => die(me),
        None => {
            let _facts = SYSTEM.facts.lock().unwrap();
            SYSTEM.sleepers.notify_one();
        }
    }
}

/// Kills the calling thread's process `me`; the thread does nothing more.
pub(super) fn die(me: Identity) {
    SYSTEM.facts.lock().unwrap().dead.push(me);
    let_time_flow();
}

/// Has the calling thread's process `me` killed when it has released a lock, before it wakes another.
pub(super) fn be_killed_before_waking(me: Identity) {
    KILLED_BEFORE_WAKING.with(|killed| killed.set(Some(me)));
}

/// Lets sleeps end after their time.
pub(super) fn let_time_flow() {
    SYSTEM.facts.lock().unwrap().time_flows = true;
    SYSTEM.sleepers.notify_all();
}
