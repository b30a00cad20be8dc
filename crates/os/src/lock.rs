//! A lock that never allocates: one word, a short spin, then a futex.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::errno::errno_kept;
use crate::threads::is_single_threaded;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep until it is free.
const AWAITED: u32 = 2;

/// Number of spins before a thread sleeps: about as long as an allocation takes.
const SPINS: u32 = 100;

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
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to the value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Returns the address of the lock's word, which is 0 while the lock is free: for a debugger or a watcher in
    /// another process.
    #[must_use]
    pub fn word(&self) -> *const u32 {
        self.word.as_ptr()
    }

    /// Waits until the lock is free and takes it.
    #[inline(always)]
    pub fn lock(&self) -> Locked<'_, T> {
        self.hold();
        Locked { lock: self, _here: PhantomData }
    }

    /// Takes the lock for longer than a scope; undone by [`Lock::let_go`].
    #[inline(always)]
    pub fn hold(&self) {
        if is_single_threaded() && self.word.load(Ordering::Relaxed) == FREE {
            self.word.store(HELD, Ordering::Relaxed);
        } else if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
    }

    /// Frees the lock and wakes a thread that waits for it.
    ///
    /// # Safety
    /// The calling thread took the lock by [`Lock::hold`].
    #[inline(always)]
    pub unsafe fn let_go(&self) {
        if is_single_threaded() {
            self.word.store(FREE, Ordering::Relaxed);
        } else if self.word.swap(FREE, Ordering::Release) == AWAITED {
            self.wake();
        }
    }

    /// The value of a lock that is held.
    ///
    /// # Safety
    /// The calling thread, or the one that it is a copy of after a `fork`, took the lock by [`Lock::hold`] and uses the
    /// value in no other way meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the lock is held")]
    pub(crate) unsafe fn held(&self) -> &mut T {
        // SAFETY: the lock is held, and nothing else uses the value, as this function requires.
        unsafe { &mut *self.value.get() }
    }

    /// Frees the lock in the child of a `fork`, where the threads that waited for it do not exist.
    ///
    /// # Safety
    /// The thread that forked held the lock.
    pub unsafe fn let_go_in_child(&self) {
        self.word.store(FREE, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        for _ in 0..SPINS {
            spin_loop();
            if self.word.load(Ordering::Relaxed) == FREE
                && self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
        while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
            sleep_while(&self.word, AWAITED);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        wake_one(&self.word);
    }
}

/// Sleeps until a thread of this process calls [`wake_one`], unless the word differs from `value`. Wakes may be
/// spurious. For locks with protocols of their own.
pub fn sleep_while(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed for the call, and null stands for no timeout.
    errno_kept(|| unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, null::<libc::timespec>());
    });
}

/// Wakes a thread that sleeps on the word by [`sleep_while`], if there is one.
pub fn wake_one(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking only uses the word's address.
    errno_kept(|| unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1);
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
