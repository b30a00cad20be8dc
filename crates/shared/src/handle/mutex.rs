//! A mutex for the data of users, in the segment, that survives the death of its holder.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heapwright_os::{Identity, SharedLock, Taken, fork_count};

use crate::handle::heap::SharedHeap;
use crate::terms::error::Error;
use crate::terms::offset::{Offset, Relocatable};

/// A mutex without its data: 16 bytes at a multiple of 8, all zeros when it is free and its data is in order. It may be
/// part of a larger value in a block of a [`SharedHeap`].
#[derive(Debug, Default)]
#[repr(C)]
pub struct RawMutex {
    lock: SharedLock,
    /// Not 0 from the moment at which a holder was found dead until a later holder declares the data consistent.
    /// Written by the holder only.
    doubtful: AtomicU64,
}

/// A value in a [`SharedHeap`] that one thread of all processes uses at a time.
///
/// A process may be killed while it holds the mutex. The next thread that locks it gets it, and
/// [`MutexGuard::previous_holder_died`] returns true, for this holder and later ones, until one of them has restored
/// what it needs of the value and calls [`MutexGuard::mark_consistent`]. A thread that ends while it holds the mutex,
/// in a process that lives on, keeps it. The mutex is not reentrant.
///
/// ```
/// use heapwright_shared::{Place, Settings, SharedHeap};
/// # let place = Place::new(format!("heapwright-doc-mutex-{}", std::process::id()))?;
/// let heap = SharedHeap::create(&place, &Settings::default())?;
/// let counter = heap.allocate_mutex(0_u64)?;
/// // SAFETY: the offset is that of a mutex around a `u64`.
/// let mut guard = unsafe { heap.lock(counter) }?;
/// if guard.previous_holder_died() {
///     guard.mark_consistent(); // A counter is never half changed.
/// }
/// *guard += 1;
/// drop(guard);
/// # SharedHeap::unlink(&place)?;
/// # Ok::<(), heapwright_shared::Error>(())
/// ```
#[repr(C)]
pub struct Mutex<T: Relocatable> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

/// The right to use the value of a [`Mutex`]. The mutex is unlocked when the guard is dropped.
pub struct MutexGuard<'h, T: Relocatable> {
    mutex: &'h Mutex<T>,
    /// The count of forks when the mutex was locked: the child of a fork does not unlock it.
    forks: u64,
}

impl SharedHeap {
    /// Allocates a mutex around `value`.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate_aligned`].
    pub fn allocate_mutex<T: Relocatable>(&self, value: T) -> Result<Offset<Mutex<T>>, Error> {
        let offset = self.allocate_aligned(size_of::<Mutex<T>>(), align_of::<Mutex<T>>())?.cast();
        let mutex = Mutex { raw: RawMutex::default(), value: UnsafeCell::new(value) };
        // SAFETY: the block is new, as long and as aligned as the mutex.
        unsafe { self.pointer(offset).write(mutex) };
        Ok(offset)
    }

    /// Locks a mutex. Waits as long as operations of the heap wait for its lock: until one holder, which lives, has not
    /// unlocked it within the heap's patience.
    ///
    /// # Errors
    /// [`Error::MutexHeld`], [`Error::HolderUnknown`]; in the child of a fork, those of attaching.
    ///
    /// # Safety
    /// A `Mutex<T>` lies at `mutex` in a block of this heap, and stays while the guard lives. A child that is forked
    /// meanwhile does not hold the mutex: it may drop the guard, but not use the value.
    pub unsafe fn lock<T: Relocatable>(&self, mutex: Offset<Mutex<T>>) -> Result<MutexGuard<'_, T>, Error> {
        // SAFETY: a mutex lies there while the guard lives, as this function requires; all of it but the value, which
        // the lock guards, is atomic.
        let mutex = unsafe { self.pointer(mutex).as_ref() };
        self.lock_raw(&mutex.raw)?;
        Ok(MutexGuard { mutex, forks: fork_count() })
    }

    /// As [`SharedHeap::lock`], for a mutex whose data lies elsewhere. Returns whether a previous holder died and none
    /// has called [`SharedHeap::mark_consistent`] since.
    ///
    /// # Errors
    /// As [`SharedHeap::lock`].
    pub fn lock_raw(&self, mutex: &RawMutex) -> Result<bool, Error> {
        let me = self.attached()?;
        let taken = if mutex.lock.try_acquire(me) {
            Taken::Clean
        } else {
            self.mapping.wait_for(&mutex.lock, me, self.patience).map_err(|error| held_by(error, me))?
        };
        if taken != Taken::Clean {
            mutex.doubtful.store(1, Relaxed);
        }
        Ok(mutex.is_doubtful())
    }

    /// Declares the data of a mutex consistent after a holder died. This process holds the mutex.
    ///
    /// # Errors
    /// [`Error::NotTheHolder`].
    pub fn mark_consistent(&self, mutex: &RawMutex) -> Result<(), Error> {
        self.require_held(mutex)?;
        mutex.doubtful.store(0, Relaxed);
        Ok(())
    }

    /// Unlocks a mutex that [`SharedHeap::lock_raw`] locked, in this process.
    ///
    /// # Errors
    /// [`Error::NotTheHolder`].
    ///
    /// # Safety
    /// No other thread of this process holds the mutex: threads of one process cannot be told apart.
    pub unsafe fn unlock_raw(&self, mutex: &RawMutex) -> Result<(), Error> {
        self.require_held(mutex)?;
        // SAFETY: this process holds the lock, and no other thread of it does, as this function requires.
        unsafe { mutex.lock.release() };
        Ok(())
    }

    /// Refuses a mutex that this process does not hold.
    fn require_held(&self, mutex: &RawMutex) -> Result<(), Error> {
        let me = self.attached()?;
        if mutex.lock.holder() == Some(me) { Ok(()) } else { Err(Error::NotTheHolder) }
    }
}

/// Returns the error of a lock, as one of a mutex: its holder holds no lock of the segment.
fn held_by(error: Error, me: Identity) -> Error {
    match error {
        Error::TimedOut { holder } => Error::MutexHeld { holder: (holder != me.pid).then_some(holder) },
        Error::HolderUnknown { holder, why, .. } => Error::HolderUnknown { place: None, holder, why },
        other => other,
    }
}

impl RawMutex {
    fn is_doubtful(&self) -> bool {
        self.doubtful.load(Relaxed) != 0
    }
}

impl<T: Relocatable> MutexGuard<'_, T> {
    /// Returns whether a process died while it held the mutex and no holder has declared the value consistent since:
    /// the value may be half changed.
    #[must_use]
    pub fn previous_holder_died(&self) -> bool {
        self.mutex.raw.is_doubtful()
    }

    /// Declares the value consistent: later holders are not told of the death any more.
    pub fn mark_consistent(&mut self) {
        self.mutex.raw.doubtful.store(0, Relaxed);
    }
}

impl<T: Relocatable> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the mutex, which excludes all others; the value is valid whenever the lock is taken,
        // because stores of a `Relocatable` type leave no other state that is unsafe to read than a half changed one.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: Relocatable> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; the borrow of the guard excludes other references.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: Relocatable> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.forks == fork_count() {
            // SAFETY: the guard holds the mutex, in this process, and ends here.
            unsafe { self.mutex.raw.lock.release() };
        }
    }
}

impl<T: Relocatable + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
