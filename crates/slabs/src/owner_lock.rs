//! A lock for which one thread waits, its owner, and which all others only try.
//!
//! Lock order: a heap's lock (its owner waits for it), then the arena's lock. A thread that holds the arena's lock, or
//! another heap's lock, only tries a heap's lock. Thus an owner waits for a visitor, a visitor for the arena, and no
//! thread for an owner. A visitor checks [`OwnerLock::is_wanted`] between blocks and between slabs and unlocks when the
//! owner waits, so that the owner waits for the work on one run of blocks or one slab at most.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use crate::platform::{
    AtomicU32, SPINS, is_left_behind, is_single_threaded, sleep_while, spin_loop, stay_behind, thread_number, touch,
    wake_one,
};

/// The holders, in the lowest bits of the word.
const HOLDER: u32 = 7;
const FREE: u32 = 0;
const OWNER: u32 = 1;
/// ArenaGuard by the owner from before a fork until after it; the owner may take the lock again meanwhile.
const OWNER_FORKS: u32 = 2;
const VISITOR: u32 = 3;
/// ArenaGuard by a thread that forks, for another owner.
const OTHER_FORKS: u32 = 4;

/// The owner waits; [`AWAITED`]: it sleeps.
const WANTED: u32 = 8;
const AWAITED: u32 = 16;

/// The lowest bit of a visiting thread's number.
const NUMBER: u32 = 5;

/// Returns the word of a lock that the calling thread holds as a visitor. A child of a fork is the same thread.
fn this_visitor() -> u32 {
    VISITOR | thread_number() << NUMBER
}

/// A value that is used by one thread at a time: its owner, or a visitor.
pub(crate) struct OwnerLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to the value to one thread at a time.
unsafe impl<T: Send> Sync for OwnerLock<T> {}

impl<T> OwnerLock<T> {
    /// Returns a free lock around `value`.
    #[cfg(not(loom))]
    pub(crate) const fn new(value: T) -> OwnerLock<T> {
        OwnerLock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: T) -> OwnerLock<T> {
        OwnerLock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until no visitor holds the lock and takes it. To be called by the owner only: a thread that waits for an
    /// owner is not woken.
    #[inline]
    pub(crate) fn lock(&self) -> OwnerGuard<'_, T> {
        let mut before = FREE;
        if is_single_threaded() && self.word.load(Ordering::Relaxed) == FREE {
            self.word.store(OWNER, Ordering::Relaxed);
        } else if let Err(word) = self.word.compare_exchange(FREE, OWNER, Ordering::Acquire, Ordering::Relaxed) {
            if word == OWNER_FORKS {
                before = OWNER_FORKS;
            } else {
                self.wait();
            }
        }
        stay_behind(&self.word, FREE);
        OwnerGuard { lock: self, before, _here: PhantomData }
    }

    /// Takes the lock as a visitor if it is free.
    pub(crate) fn try_lock(&self) -> Option<Visitor<'_, T>> {
        self.word.compare_exchange(FREE, this_visitor(), Ordering::SeqCst, Ordering::Relaxed).ok()?;
        stay_behind(&self.word, FREE);
        Some(Visitor { lock: self, _here: PhantomData })
    }

    /// Returns whether the owner waits for the visitor.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WANTED != 0
    }

    /// Returns whether the lock's owner holds it.
    pub(crate) fn is_held_by_owner(&self) -> bool {
        self.word.load(Ordering::Relaxed) & HOLDER == OWNER
    }

    /// Holds the lock from before a fork until after it, by its owner, which may have been interrupted while it held
    /// the lock: then it still does.
    pub(crate) fn hold_by_owner(&self) {
        if !self.is_held_by_owner() {
            let held = self.lock();
            core::mem::forget(held);
            self.word.store(OWNER_FORKS, Ordering::Relaxed);
        }
    }

    /// As [`OwnerLock::hold_by_owner`], but gives up when a visitor does not unlock soon.
    pub(crate) fn try_hold_by_owner(&self) {
        for _ in 0..100 * SPINS {
            let word = self.word.load(Ordering::Relaxed);
            if matches!(word & HOLDER, OWNER | OWNER_FORKS)
                || self.word.compare_exchange(FREE, OWNER_FORKS, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            spin_loop();
        }
    }

    /// Returns whether the calling thread holds the lock as a visitor: it does when a signal handler has interrupted it
    /// there.
    pub(crate) fn is_held_by_this_visitor(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !(WANTED | AWAITED) == this_visitor()
    }

    /// Returns whether a visitor holds the lock.
    pub(crate) fn is_held_by_visitor(&self) -> bool {
        self.word.load(Ordering::Relaxed) & HOLDER == VISITOR
    }

    /// Holds the lock from before a fork until after it if it is free, by another thread than its owner.
    pub(crate) fn try_hold(&self) {
        let _ = self.word.compare_exchange(FREE, OTHER_FORKS, Ordering::Acquire, Ordering::Relaxed);
    }

    /// Undoes [`OwnerLock::hold_by_owner`] and [`OwnerLock::try_hold`], to be called by the thread that called these.
    pub(crate) fn let_go(&self) {
        if self.is_held_for_fork() {
            self.free();
        }
    }

    /// The same in a fork's child. Returns whether the value is usable. It is not if the lock was held by a thread
    /// that the child does not have; then it stays held for ever.
    pub(crate) fn let_go_in_child(&self) -> bool {
        let is_usable = self.is_held_for_fork();
        self.word.store(if is_usable { FREE } else { OWNER }, Ordering::Release);
        is_usable
    }

    fn is_held_for_fork(&self) -> bool {
        matches!(self.word.load(Ordering::Relaxed) & HOLDER, OWNER_FORKS | OTHER_FORKS)
    }

    fn free(&self) {
        if self.word.swap(FREE, Ordering::SeqCst) & AWAITED != 0 {
            wake_one(&self.word);
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut spins = 0;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word == FREE {
                if self.word.compare_exchange(FREE, OWNER, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return;
                }
                continue;
            }
            let wait = if spins < SPINS { WANTED } else { WANTED | AWAITED };
            let is_noted = word & wait == wait
                || self.word.compare_exchange(word, word | wait, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else if is_noted {
                sleep_while(&self.word, word | wait);
            }
        }
    }
}

/// The value, held by the lock's owner.
pub(crate) struct OwnerGuard<'l, T> {
    lock: &'l OwnerLock<T>,
    before: u32,
    /// Keeps the guard on the thread that took the lock.
    _here: PhantomData<*mut ()>,
}

/// The value, held by a visitor.
pub(crate) struct Visitor<'l, T> {
    lock: &'l OwnerLock<T>,
    /// As in [`OwnerGuard`].
    _here: PhantomData<*mut ()>,
}

impl<T> Deref for OwnerGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        touch(self.lock.value.get());
        // SAFETY: the guard exists, hence this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for OwnerGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        touch(self.lock.value.get());
        // SAFETY: the guard exists, hence this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for OwnerGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // No thread waits for an owner.
        if !is_left_behind() {
            self.lock.word.store(self.before, Ordering::Release);
        }
    }
}

impl<T> Deref for Visitor<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        touch(self.lock.value.get());
        // SAFETY: the guard exists, hence this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Visitor<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        touch(self.lock.value.get());
        // SAFETY: the guard exists, hence this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Visitor<'_, T> {
    fn drop(&mut self) {
        if !is_left_behind() {
            self.lock.free();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A fork in a signal handler has to recognise that an owner may wait for the thread that it has interrupted.
    #[test]
    fn a_visitor_is_recognised_by_its_own_thread_only() {
        let lock = OwnerLock::new(());
        let visits = || lock.is_held_by_this_visitor();
        assert!(!visits());
        let visitor = lock.try_lock().unwrap();
        assert!(visits() && lock.is_held_by_visitor() && lock.try_lock().is_none());
        assert!(!std::thread::scope(|scope| scope.spawn(visits).join().unwrap()));
        lock.word.fetch_or(WANTED | AWAITED, Ordering::Relaxed);
        assert!(visits() && lock.is_wanted());
        drop(visitor);
        assert!(!visits() && !lock.is_held_by_visitor());
        let owner = lock.lock();
        assert!(!visits());
        drop(owner);
    }
}
