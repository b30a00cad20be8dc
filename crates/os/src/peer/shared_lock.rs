//! A lock among processes that survives the death of its holder.

use core::fmt;
use core::time::Duration;

use crate::call::errno::errno_kept;
use crate::peer::deaths::Deaths;
use crate::peer::identity::{Identity, Life};

#[cfg(all(loom, test))]
#[path = "shared_lock/model.rs"]
mod world;
#[cfg(not(all(loom, test)))]
mod world;

#[cfg(all(loom, test))]
mod interleavings;

use world::{AtomicU64, Ordering, SPINS, Slept, life, now, sleep, spin_loop, wake};

const FREE: u64 = 0;
/// Set in the holder's word: a thread may sleep until the lock is free.
const WAITERS: u64 = 1 << 31;

/// The time after which a waiting thread checks for the first time whether the holder lives. Short, as it delays
/// recovery after a crash, but longer than operations take, so that `/proc` is not read during contention.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// The longest sleep before the next check, in case a wake was lost.
const SLICE: Duration = Duration::from_millis(10);

/// Mutual exclusion among threads of any processes that map the memory it lies in. Zero is a free lock. When the holder
/// was killed, the next process takes the lock over; [`SharedLock::acquire`] reports that, so that the process repairs
/// what the dead one left half changed. A wait ends when one hold outlasts the caller's patience. The lock is not
/// reentrant. The child of a `fork` does not hold its parent's locks. The lock's word is the holder's [`Identity`]: one
/// compare-and-swap both takes the lock and records the holder, so that the holder is known at every instant. A word
/// that no process writes holds nothing. A process that replaces its program (`exec`) while one of its threads holds
/// the lock still counts as its holder; others time out.
///
/// ```
/// use core::time::Duration;
/// use heapwright_os::{Deaths, Identity, SharedLock, Taken};
///
/// let (lock, me) = (SharedLock::new(), Identity::mine());
/// assert_eq!(lock.acquire(me, Duration::from_secs(10), Deaths::Known), Ok(Taken::Clean));
/// assert_eq!(lock.acquire(me, Duration::ZERO, Deaths::Known).unwrap_err().holder, me);
/// // SAFETY: the lock was taken above.
/// unsafe { lock.release() };
/// assert_eq!(lock.holder(), None);
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct SharedLock {
    /// [`FREE`], or the holder's [`Identity::word`] and [`WAITERS`].
    word: AtomicU64,
}

/// How a [`SharedLock`] was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// The last holder had released it.
    Clean,
    /// The last holder died while it held the lock; the data that the lock guards may be half changed.
    FromTheDead(Identity),
}

/// A [`SharedLock`] was not free in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// The holder: it is stopped, very slow, or waits itself. Where deaths are unknown, it may be dead.
    pub holder: Identity,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} holds the lock and does not release it; continue or end that process", self.holder.pid)
    }
}

impl core::error::Error for TimedOut {}

impl SharedLock {
    /// A free lock.
    #[cfg(not(all(loom, test)))]
    #[must_use]
    pub const fn new() -> Self {
        SharedLock { word: AtomicU64::new(FREE) }
    }

    /// Takes the lock for `me`, which is [`Identity::mine`]. Waits for about `patience` at most during which nothing
    /// shows that the lock changed hands, not counting time during which the caller itself was stopped. The lock is
    /// taken from a dead holder only where deaths are known.
    ///
    /// # Errors
    /// [`TimedOut`], naming the holder.
    #[inline(always)]
    pub fn acquire(&self, me: Identity, patience: Duration, deaths: Deaths) -> Result<Taken, TimedOut> {
        if self.try_acquire(me) { Ok(Taken::Clean) } else { self.wait(me, patience, deaths) }
    }

    /// Takes the lock for `me`, which is [`Identity::mine`], if it is free.
    #[inline(always)]
    #[must_use]
    pub fn try_acquire(&self, me: Identity) -> bool {
        self.word.compare_exchange(FREE, me.word(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock for `me` from its holder, whatever became of that. Returns the holder, if there was one.
    ///
    /// # Safety
    /// No thread that lives holds the lock.
    pub unsafe fn seize(&self, me: Identity) -> Option<Identity> {
        match self.word.swap(me.word() | WAITERS, Ordering::Acquire) {
            FREE => None,
            word => Some(Identity::from_word(word)),
        }
    }

    /// Frees the lock and wakes a thread that waits for it.
    ///
    /// # Safety
    /// The caller took the lock and has not released it since.
    #[inline(always)]
    pub unsafe fn release(&self) {
        if self.word.swap(FREE, Ordering::Release) & WAITERS != 0 {
            self.wake_one();
        }
    }

    /// Returns the lock to the dead process that it was taken from, as if it had not been taken: the next caller takes
    /// it over.
    ///
    /// # Safety
    /// The caller took the lock from `dead`, has not released it since, and has not changed the data that it guards.
    pub unsafe fn return_to(&self, dead: Identity) {
        if self.word.swap(dead.word(), Ordering::Release) & WAITERS != 0 {
            self.wake_one();
        }
    }

    /// Returns the present holder, dead or alive.
    #[must_use]
    pub fn holder(&self) -> Option<Identity> {
        match self.word.load(Ordering::Relaxed) {
            FREE => None,
            word => Some(Identity::from_word(word)),
        }
    }

    /// Returns a copy of a lock whose word was `word`, to ask for its holder. It excludes no thread.
    #[must_use]
    pub fn copy_of(word: u64) -> SharedLock {
        SharedLock { word: AtomicU64::new(word) }
    }

    /// Returns whether a thread may be asleep until the holder releases the lock.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITERS != 0
    }

    /// As [`SharedLock::acquire`], for a lock that was not free a moment ago.
    ///
    /// # Errors
    /// As [`SharedLock::acquire`].
    #[cold]
    #[inline(never)]
    pub fn wait(&self, me: Identity, patience: Duration, deaths: Deaths) -> Result<Taken, TimedOut> {
        if self.take_while_spinning(me.word()) {
            return Ok(Taken::Clean);
        }
        errno_kept(|| self.take_while_sleeping(me, patience, deaths))
    }

    fn take_while_spinning(&self, word: u64) -> bool {
        (0..SPINS).any(|_| {
            spin_loop();
            self.take(FREE, word)
        })
    }

    /// Several threads may sleep, and a release wakes one of them. A thread that has slept takes the lock with
    /// [`WAITERS`] set, so that its own release wakes the next.
    ///
    /// Only one hold is waited for: the watch starts again when the lock was released meanwhile. That shows in the
    /// word, which has another holder or has lost its bit, or by a wake.
    fn take_while_sleeping(&self, me: Identity, patience: Duration, deaths: Deaths) -> Result<Taken, TimedOut> {
        let mine = me.word() | WAITERS;
        let first_look = FIRST_LOOK.min(patience);
        let (mut watch, mut next_look, mut last_seen) = (Watch::start(), first_look, FREE);
        loop {
            if self.take_while_spinning(mine) {
                return Ok(Taken::Clean);
            }
            let Some(found) = self.announce() else {
                last_seen = FREE;
                continue;
            };
            let held = found | WAITERS;
            if found != last_seen {
                (watch, next_look, last_seen) = (Watch::start(), first_look, held);
            }
            let waited = watch.read();
            if waited < next_look {
                if sleep(&self.word, held, next_look - waited) == Slept::UntilWoken {
                    (watch, next_look) = (Watch::start(), first_look);
                }
                continue;
            }
            let holder = Identity::from_word(held);
            if life(holder, deaths) == Life::Alive {
                if waited >= patience {
                    return Err(TimedOut { holder });
                }
                next_look = (waited + SLICE).min(patience);
            } else if self.take(held, mine) {
                return Ok(Taken::FromTheDead(holder));
            }
        }
    }

    /// Sets [`WAITERS`] in the holder's word and returns what it was before; `None` when the lock is free or has
    /// another holder meanwhile.
    fn announce(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Relaxed);
        let announced = word | WAITERS;
        let stands = word == announced
            || word != FREE
                && self.word.compare_exchange(word, announced, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        stands.then_some(word)
    }

    /// Makes the word `mine` if it is `expected`. Loads it first, as it is another holder's most of the time.
    fn take(&self, expected: u64, mine: u64) -> bool {
        self.word.load(Ordering::Relaxed) == expected
            && self.word.compare_exchange(expected, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wake_one(&self) {
        errno_kept(|| wake(&self.word));
    }
}

#[cfg(not(all(loom, test)))]
impl Default for SharedLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Measures how long a thread has waited. Each interval counts at most as long as one sleep: the time during which the
/// thread was stopped must not count against the holder.
struct Watch {
    read_at: Duration,
    waited: Duration,
}

impl Watch {
    fn start() -> Self {
        Watch { read_at: now(), waited: Duration::ZERO }
    }

    fn read(&mut self) -> Duration {
        let now = now();
        self.waited += now.saturating_sub(self.read_at).min(SLICE);
        self.read_at = now;
        self.waited
    }
}
