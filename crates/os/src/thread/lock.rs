//! A lock that never allocates: one word, a spin, then a futex. The word names the owner, so that a thread that forks
//! recognises the locks that it holds.
//!
//! A lock that moves to another processor costs more than a short section under it, because the data behind the lock
//! moves too. Threads that wait therefore look at the word less and less often, so that the owner can take the lock
//! many times in a row. A thread that has waited long for one owner asks for the lock, and the owner pauses after its
//! next release. ARCHITECTURE.md ("Threads under a policy") has the figures.

use core::cell::{Cell, UnsafeCell};
use core::hint::spin_loop;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::call::errno::{errno, errno_kept};
use crate::thread::thread_number::thread_number;
use crate::thread::threads::is_single_threaded;
use crate::time::ticks::now_nanoseconds;

// The word of a lock: 0 while it is free, otherwise the owner and the two flags.
const FREE: u32 = 0;
/// The owner of a lock that was taken while the process had a single thread.
const ALONE: u32 = 1;
/// The bits of the owner: the number of its thread, from 2 on. Numbers repeat after 2^27 threads.
const OWNER: u32 = (1 << 28) - 1;
/// Held for a fork: the owner can take the lock again.
const FOR_FORK: u32 = 1 << 30;
/// A thread may sleep until the lock is free.
const AWAITED: u32 = 1 << 31;

/// A waiting thread has run out of patience: the owner pauses after the release.
const WANTED: u32 = 1 << 29;

/// Number of spins before a thread sleeps, some 50 µs: waking a thread costs its owner and itself several.
const SPINS: u32 = 2000;

/// Number of spins for the same owner before a thread asks for the lock: 20 to 30 µs, in which the owner allocates some
/// 200 blocks.
const PATIENCE_SPINS: u32 = SPINS / 2;

/// The most spins between two looks at the word.
const MOST_SPINS_BETWEEN: u32 = 256;

/// The lock is taken when it is free at two looks with this many spins in between. A program that frees a block and
/// allocates the next one at once has the lock back by then.
const SPINS_TO_BE_FREE: u32 = 8;

/// The most spins for which the owner pauses: the word reaches another processor several times in between.
const PAUSE_SPINS: u32 = 16;

/// How long a fork waits for a lock that may never be free, in nanoseconds.
pub(crate) const PATIENCE: u64 = 20_000_000;

/// How long a thread sleeps before it looks at the word again, in nanoseconds. The wake that a lock sends to one thread
/// is lost if a signal handler interrupts that thread before it takes the lock, and waits for another sleeper.
const SLEEP: i64 = 20_000_000;

/// The longest such time. It doubles each time: thousands of threads that look every 20 ms take all the processors.
const LONGEST_SLEEP: i64 = 32 * SLEEP;

/// What a pass over the locks of a process, before a fork, does with each of them. [`at_fork`](crate::at_fork) makes
/// passes that take locks; nothing else does without a promise, since a lock that is held for a fork can be taken again
/// by its thread.
#[derive(Clone, Copy)]
pub enum ForkPass<'p> {
    /// Nothing; notes whether the calling thread holds it, as it does when a signal handler that forks has interrupted
    /// that thread.
    Look(&'p Cell<bool>),
    /// Waits until it is free and takes it.
    #[non_exhaustive]
    Take,
    /// The same, but gives up soon: the calling thread was interrupted while it held a lock, for which the owner of
    /// this one may wait.
    #[non_exhaustive]
    TakeSoon,
}

impl ForkPass<'_> {
    /// Returns a pass without a fork, which takes locks.
    ///
    /// # Safety
    /// Until the locks are let go, the thread that takes them by this pass has at most one guard of each at a time.
    pub unsafe fn to_take() -> Self {
        ForkPass::Take
    }

    /// As [`ForkPass::to_take`], for a pass that gives up soon.
    ///
    /// # Safety
    /// As [`ForkPass::to_take`].
    pub unsafe fn to_take_soon() -> Self {
        ForkPass::TakeSoon
    }
}

/// Returns the calling thread as the owner of a lock. A child of a fork is the same owner.
#[inline(always)]
fn this_thread() -> u32 {
    (thread_number() & (OWNER >> 1)) + 2
}

/// A value that one thread at a time may use.
///
/// While the process has a single thread, taking and freeing the lock are plain stores. It is not reentrant. A static
/// lock that must stay usable in the children of forks is held across them by
/// [`hold_across_forks`](crate::hold_across_forks).
///
/// ```
/// static COUNT: heapwright_os::Lock<u32> = heapwright_os::Lock::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub struct Lock<T> {
    word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to the value to one thread at a time, and to that by one guard: a lock that is held for
// a fork can be taken again by its thread, which has one guard at a time, as those promise that make a `ForkPass`.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Lock { word: Word(AtomicU32::new(FREE)), value: UnsafeCell::new(value) }
    }

    /// Returns the address of the lock's word, which is 0 while the lock is free: for a debugger or a watcher in
    /// another process.
    #[must_use]
    pub fn word(&self) -> *const u32 {
        self.word.0.as_ptr()
    }

    /// Returns whether a thread holds the lock at this moment, without waiting for it.
    ///
    /// ```
    /// let lock = heapwright_os::Lock::new(());
    /// let held = lock.lock();
    /// assert!(lock.is_held());
    /// drop(held);
    /// assert!(!lock.is_held());
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.word.0.load(Ordering::Relaxed) != FREE
    }

    /// Waits until the lock is free and takes it.
    ///
    /// A thread that holds the lock for a fork gets it at once, and keeps it for the fork when the guard is dropped:
    /// the handlers of other libraries may need it.
    #[inline(always)]
    pub fn lock(&self) -> Locked<'_, T> {
        self.hold();
        Locked { lock: self, _here: PhantomData }
    }

    /// Takes the lock for longer than a scope; undone by [`Lock::let_go`].
    #[inline(always)]
    pub fn hold(&self) {
        if is_single_threaded() && self.word.0.load(Ordering::Relaxed) == FREE {
            self.word.0.store(ALONE, Ordering::Relaxed);
        } else if !self.word.try_take(this_thread()) {
            self.word.wait();
        }
    }

    /// Frees the lock and wakes a thread that waits for it.
    ///
    /// # Safety
    /// The calling thread took the lock by [`Lock::hold`].
    #[inline(always)]
    pub unsafe fn let_go(&self) {
        if is_single_threaded() {
            self.word.0.store(FREE, Ordering::Relaxed);
        } else {
            let freed = self.word.0.compare_exchange(this_thread(), FREE, Ordering::Release, Ordering::Relaxed);
            if freed.is_err() {
                self.word.let_go_otherwise();
            }
        }
    }

    /// Takes the lock for a fork, as `pass` says. Does nothing if the calling thread holds it already: for an outer
    /// fork, or because a signal handler that forks has interrupted the thread while it held the lock. Returns whether
    /// the calling thread holds it now.
    #[inline(never)]
    pub fn hold_for_fork(&self, pass: ForkPass<'_>) -> bool {
        self.word.hold_for_fork(pass)
    }

    /// Takes the lock if it is free, or held for a fork by the calling thread.
    pub fn try_lock(&self) -> Option<Locked<'_, T>> {
        let is_taken = self.is_held_for_own_fork() || self.word.try_take(this_thread());
        is_taken.then(|| Locked { lock: self, _here: PhantomData })
    }

    /// Takes the lock for a fork, if it is free soon enough; returns whether the calling thread holds it.
    pub(crate) fn take_for_fork(&self, patience: Option<u64>) -> bool {
        self.word.take_for_fork(patience)
    }

    /// Frees the lock after a fork, in the parent or in the child. Does nothing if it was not taken for the fork.
    ///
    /// # Safety
    /// The calling thread, or in the child the one that it is a copy of, is the one that forks, and uses the value in
    /// no other way any more.
    pub unsafe fn let_go_after_fork(&self) {
        self.word.let_go_after_fork();
    }

    /// Takes the lock in the child of a fork, which has a single thread. `None` if that thread itself held the lock
    /// when it was interrupted by the signal handler that forked: it continues when the handler returns.
    pub fn lock_in_child(&self) -> Option<Locked<'_, T>> {
        if self.is_held_for_own_fork() {
            return Some(Locked { lock: self, _here: PhantomData });
        }
        (self.word.0.load(Ordering::Relaxed) == FREE).then(|| self.lock())
    }

    /// Whether a thread holds the lock for a fork.
    pub(crate) fn is_held_for_fork(&self) -> bool {
        self.word.is_held_for_fork()
    }

    /// Whether the calling thread holds the lock for a fork.
    pub(crate) fn is_held_for_own_fork(&self) -> bool {
        self.word.is_held_for_own_fork()
    }

    /// The value of a lock that is held.
    ///
    /// # Safety
    /// The calling thread, or the one that it is a copy of after a `fork`, holds the lock; or the value is only used in
    /// ways that need no lock.
    pub(crate) unsafe fn held(&self) -> &T {
        // SAFETY: the lock is held, as this function requires.
        unsafe { &*self.value.get() }
    }
}

/// The word of a lock, without the value: the code of slow paths exists once.
struct Word(AtomicU32);

impl Word {
    #[inline(always)]
    fn try_take(&self, taken: u32) -> bool {
        self.0.compare_exchange(FREE, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn hold_for_fork(&self, pass: ForkPass<'_>) -> bool {
        match pass {
            ForkPass::Look(is_interrupted) => {
                let owner = self.0.load(Ordering::Relaxed) & (OWNER | FOR_FORK);
                if owner == this_thread() {
                    is_interrupted.set(true);
                }
                owner & OWNER == this_thread()
            }
            ForkPass::Take => self.take_for_fork(None),
            ForkPass::TakeSoon => self.take_for_fork(Some(PATIENCE)),
        }
    }

    fn take_for_fork(&self, patience: Option<u64>) -> bool {
        let me = this_thread();
        let end = patience.map(|patience| now_nanoseconds() + patience);
        let mut taken = me | FOR_FORK;
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & OWNER == me || word == FREE && self.try_take(taken) {
                return true;
            }
            if word != FREE {
                if end.is_some_and(|end| now_nanoseconds() > end) {
                    return false;
                }
                self.sleep_while(word, SLEEP);
                taken |= AWAITED;
            }
        }
    }

    /// Frees a lock that is held for a fork; does nothing to others.
    fn let_go_after_fork(&self) {
        if self.is_held_for_fork() && self.0.swap(FREE, Ordering::Release) & AWAITED != 0 {
            wake(&self.0, i32::MAX);
        }
    }

    /// Whether a thread holds the lock for a fork.
    fn is_held_for_fork(&self) -> bool {
        self.0.load(Ordering::Relaxed) & FOR_FORK != 0
    }

    /// Whether the calling thread holds the lock for a fork.
    fn is_held_for_own_fork(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (FOR_FORK | OWNER) == FOR_FORK | this_thread()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut taken = this_thread();
        while !self.spin(taken) {
            // Other threads may still sleep.
            taken |= AWAITED;
            if self.sleep(taken) {
                return;
            }
        }
    }

    /// Sleeps until the lock is freed; returns whether the calling thread holds it. May return early.
    fn sleep(&self, taken: u32) -> bool {
        let mut time = SLEEP;
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word == FREE {
                return self.try_take(taken);
            }
            if self.sleep_while(word, time) == Slept::UntilWoken {
                return false;
            }
            time = (2 * time).min(LONGEST_SLEEP);
        }
    }

    /// Waits for a bounded time; returns whether the calling thread holds the lock.
    fn spin(&self, taken: u32) -> bool {
        let (mut spent, mut between) = (0, 1);
        let (mut owner, mut owner_since) = (FREE, 0);
        let mut was_free = false;
        while spent < SPINS {
            let spins = if was_free { SPINS_TO_BE_FREE } else { between };
            (0..spins).for_each(|_| spin_loop());
            spent += spins;
            let word = self.0.load(Ordering::Relaxed);
            let is_patient = spent - owner_since < PATIENCE_SPINS;
            if word == FREE {
                if (was_free || !is_patient) && self.try_take(taken) {
                    return true;
                }
                was_free = true;
                continue;
            }
            if self.is_held_for_own_fork() {
                return true;
            }
            was_free = false;
            if word & OWNER != owner {
                // Patience begins again: among many threads, too, the lock stays with one for a while.
                (owner, owner_since) = (word & OWNER, spent);
            } else if is_patient {
                between = (2 * between).min(MOST_SPINS_BETWEEN);
            } else {
                between = 1;
                if word & WANTED == 0 {
                    // Where this fails, the word has changed, and is looked at again.
                    let _ = self.0.compare_exchange(word, word | WANTED, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
        false
    }

    /// Marks the lock, which has this word, as awaited, and sleeps until it is freed, at most for a time in
    /// nanoseconds. May return early.
    fn sleep_while(&self, word: u32, time: i64) -> Slept {
        let awaited = word | AWAITED;
        let marked = self.0.compare_exchange(word, awaited, Ordering::Relaxed, Ordering::Relaxed);
        if marked.is_ok() { sleep_at_most(time, &self.0, awaited) } else { Slept::UntilWoken }
    }

    /// Frees a lock whose word is not its owner alone.
    #[cold]
    #[inline(never)]
    fn let_go_otherwise(&self) {
        // The thread that holds it for a fork has taken it again, and still needs it.
        if self.is_held_for_fork() {
            return;
        }
        let word = self.0.swap(FREE, Ordering::Release);
        if word & AWAITED != 0 {
            wake(&self.0, 1);
        } else if word & WANTED != 0 {
            let mut spins = 0..PAUSE_SPINS;
            while self.0.load(Ordering::Relaxed) == FREE && spins.next().is_some() {
                spin_loop();
            }
        }
    }
}

/// Why a thread that slept goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slept {
    /// It was woken, maybe without a reason, or did not sleep.
    UntilWoken,
    /// The time was over.
    TheWholeTime,
}

/// Sleeps until a thread of this process calls [`wake_one`], at most 20 ms, unless the word differs from `value`.
/// Wakes may be spurious. For locks with protocols of their own.
#[cold]
#[inline(never)]
pub fn sleep_while(word: &AtomicU32, value: u32) {
    sleep_at_most(SLEEP, word, value);
}

fn sleep_at_most(nanoseconds: i64, word: &AtomicU32, value: u32) -> Slept {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds as _ };
    errno_kept(|| {
        // SAFETY: the word and the time are borrowed for the call.
        let slept = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &raw const time) };
        if slept != 0 && errno() == libc::ETIMEDOUT { Slept::TheWholeTime } else { Slept::UntilWoken }
    })
}

/// Wakes a thread that sleeps on the word by [`sleep_while`], if there is one.
pub fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

#[cold]
#[inline(never)]
fn wake(word: &AtomicU32, threads: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking only uses the word's address.
    errno_kept(|| unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, threads);
    });
}

/// A [`Lock`] that is held; frees it when dropped.
pub struct Locked<'l, T> {
    lock: &'l Lock<T>,
    /// Keeps the guard on the thread that took the lock.
    _here: PhantomData<*mut ()>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, hence this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists, hence this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the thread that made this guard took the lock, and the guard cannot be sent to another thread.
        unsafe { self.lock.let_go() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wake may have gone to a thread that a signal handler keeps from taking the lock.
    #[test]
    fn a_sleeper_that_is_not_woken_takes_the_lock_all_the_same() {
        static LOCK: Lock<()> = Lock::new(());
        LOCK.word.0.store(ALONE, Ordering::Relaxed);
        let sleeper = std::thread::spawn(|| drop(LOCK.lock()));
        while LOCK.word.0.load(Ordering::Relaxed) & AWAITED == 0 {
            std::thread::yield_now();
        }
        // By now it sleeps, on most machines.
        std::thread::sleep(std::time::Duration::from_millis(10));
        LOCK.word.0.store(FREE, Ordering::Release);
        sleeper.join().unwrap();
    }

    #[test]
    fn a_thread_that_waits_for_long_asks_for_the_lock_and_gets_it_after_the_release() {
        static LOCK: Lock<u32> = Lock::new(0);
        LOCK.hold();
        let waiter = std::thread::spawn(|| *LOCK.lock() += 1);
        while LOCK.word.0.load(Ordering::Relaxed) & WANTED == 0 {
            std::thread::yield_now();
        }
        // SAFETY: this thread took the lock above.
        unsafe { LOCK.let_go() };
        waiter.join().unwrap();
        assert_eq!(*LOCK.lock(), 1);
    }

    #[test]
    fn threads_that_take_the_lock_in_turns_lose_no_change() {
        static LOCK: Lock<u64> = Lock::new(0);
        let times = if cfg!(miri) { 50 } else { 50_000 };
        let threads = [(); 6].map(|()| std::thread::spawn(move || (0..times).for_each(|_| *LOCK.lock() += 1)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*LOCK.lock(), 6 * times);
        assert_eq!(LOCK.word.0.load(Ordering::Relaxed), FREE);
    }
}
