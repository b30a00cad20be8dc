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
/// Held, and some thread may sleep until it is free.
const AWAITED: u32 = 2;

/// How often a thread looks again before it sleeps: about as long as an allocation takes.
const SPINS: u32 = 100;

/// A value that one thread at a time may use.
///
/// While the process has one thread only, taking and freeing the lock are plain stores. It is not reentrant. Across
/// `fork`, take it with [`Lock::hold`] before and [`Lock::let_go`] after in the parent; in the child, [`Lock::let_go_in_child`].
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

// SAFETY: the lock hands the value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Where the word is that is 0 while the lock is free: for a debugger, or whoever else looks at the process from outside.
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
            self.sleep();
        }
    }

    /// Sleeps until woken, unless the word has changed; may also wake for no reason.
    fn sleep(&self) {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word outlives the call, and no timeout is given.
        errno_kept(|| unsafe {
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), operation, AWAITED, null::<libc::timespec>());
        });
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: waking takes nothing but the word's address.
        errno_kept(|| unsafe {
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), operation, 1);
        });
    }
}

/// A [`Lock`] that is held; frees it when dropped.
pub struct Locked<'l, T> {
    lock: &'l Lock<T>,
    /// Stays with the thread that took the lock.
    _here: PhantomData<*mut ()>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held by this thread.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held by this thread.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this guard was made by the thread that took the lock and cannot leave it.
        unsafe { self.lock.let_go() }
    }
}
