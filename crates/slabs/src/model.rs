//! `platform.rs` for loom: at every atomic operation another thread may continue, and uses of memory that is not atomic
//! are observed.

use core::cell::Cell;
use core::ffi::c_void;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;

pub use heapwright_os::{ForkHandlers, thread_number};
use heapwright_os::{ForkPass, Refused};
use loom::cell::UnsafeCell;
use loom::lazy_static::Lazy;
use loom::sync::{Condvar, Mutex};
use loom::thread_local;

pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, fence};

/// 63 slabs.
pub const CAPACITY: usize = 4 << 20;

only_one! {
    static BATCH: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
}

/// Returns the number of blocks in a full remote-free buffer: one, unless [`set_batch_blocks`] was called.
pub fn batch_blocks() -> u32 {
    BATCH.load(Ordering::Relaxed)
}

/// Sets the number of blocks in a full remote-free buffer, in this run of the model.
pub fn set_batch_blocks(blocks: u32) {
    BATCH.store(blocks, Ordering::Relaxed);
}

/// Two of the longest blocks.
pub const BATCH_WEIGHT: usize = 64 << 10;

/// Less than two of the longest blocks.
pub const BUDGET: usize = 32 << 10;
pub const LEAST_BUDGET: usize = BUDGET;

/// An owner that waits for its lock sleeps at once.
pub const SPINS: u32 = 0;

pub fn is_single_threaded() -> bool {
    false
}

pub fn spin_loop() {
    loom::thread::yield_now();
}

/// Sleeps until the word differs from `value`.
pub fn sleep_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Relaxed) == value {
        stop_if_left_behind();
        loom::thread::yield_now();
    }
}

/// A thread in [`sleep_while`] looks by itself.
pub fn wake_one(_: &AtomicU32) {}

/// A static of each run of a model.
pub struct OnlyOne<T: 'static>(pub(crate) Lazy<T>);

impl<T> Deref for OnlyOne<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: all of these are statics.
        unsafe { &*(&raw const self.0) }.get()
    }
}

macro_rules! only_one {
    ($(#[$about:meta])* $visible:vis static $name:ident: $type:ty = $initial:expr;) => {
        $(#[$about])*
        $visible static $name: crate::platform::OnlyOne<$type> = crate::platform::OnlyOne(loom::lazy_static::Lazy {
            init: || $initial,
            _p: core::marker::PhantomData,
        });
    };
}
pub(crate) use only_one;

only_one! {
    static WATCHED: std::sync::Mutex<HashMap<usize, Arc<UnsafeCell<()>>>> = std::sync::Mutex::new(HashMap::new());
}

/// Reports to loom a use of the address: two uses of which neither happens before the other are an error.
#[track_caller]
pub fn touch<T>(place: *const T) {
    stop_if_left_behind();
    let cell = WATCHED.lock().unwrap().entry(place.addr()).or_insert_with(|| Arc::new(UnsafeCell::new(()))).clone();
    cell.with_mut(|_| ());
}

/// # Safety
/// The place is long enough and not used.
pub(crate) unsafe fn make_atomic(place: *mut AtomicU32, count: usize) {
    for number in 0..count {
        // SAFETY: the caller's promise.
        unsafe { place.add(number).write(AtomicU32::new(0)) };
    }
}

/// A lock of loom's that can be held for longer than a scope.
pub struct Lock<T> {
    is_held: Mutex<bool>,
    freed: Condvar,
    value: core::cell::UnsafeCell<T>,
}

// SAFETY: as the lock that it stands for.
unsafe impl<T> Sync for Lock<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Lock<T> {}

pub struct Locked<'l, T>(&'l Lock<T>);

impl<T> Lock<T> {
    pub fn new(value: T) -> Lock<T> {
        Lock { is_held: Mutex::new(false), freed: Condvar::new(), value: core::cell::UnsafeCell::new(value) }
    }

    pub fn is_held(&self) -> bool {
        *self.is_held.lock().unwrap()
    }

    pub fn lock(&self) -> Locked<'_, T> {
        self.hold();
        Locked(self)
    }

    pub fn hold(&self) {
        stop_if_left_behind();
        let mut is_held = self.is_held.lock().unwrap();
        while *is_held {
            is_held = self.freed.wait(is_held).unwrap();
        }
        if is_left_behind() {
            drop(is_held);
            // The wake was for another.
            self.freed.notify_one();
            stop_if_left_behind();
        } else {
            *is_held = true;
        }
    }

    pub unsafe fn let_go(&self) {
        // A thread that stays behind in the parent while it holds the lock holds it for ever.
        if !is_left_behind() {
            *self.is_held.lock().unwrap() = false;
            self.freed.notify_one();
        }
    }

    pub fn hold_for_fork(&self, _: ForkPass<'_>) {
        self.hold();
    }

    pub unsafe fn let_go_after_fork(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.let_go() };
        // The threads that wait here stay behind, which they notice when they wake.
        self.freed.notify_all();
    }

    /// The lock is held for the fork, and freed with the guard.
    pub fn lock_in_child(&self) -> Option<Locked<'_, T>> {
        Some(Locked(self))
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held by this thread.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held by this thread.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this value exists, hence this thread took the lock.
        unsafe { self.0.let_go() };
    }
}

/// Does nothing: the threads of models call the exit handler themselves.
pub struct ThreadEnd;

impl ThreadEnd {
    pub const fn new(_: unsafe extern "C" fn(*mut c_void)) -> ThreadEnd {
        ThreadEnd
    }

    pub fn tell(&self) -> bool {
        true
    }
}

/// Does nothing: models fork by [`fork`].
pub fn at_fork(_: ForkHandlers) -> Result<(), Refused> {
    Ok(())
}

thread_local! {
    static STAYS_IN_PARENT: Cell<bool> = Cell::new(false);
}

only_one! {
    /// Whether the process of the model is the child of a fork by now.
    static IS_CHILD: AtomicBool = AtomicBool::new(false);
}

/// Forks; the calling thread is in the child from now on, and so are those it will start. Each of the others goes no
/// further than it is, as far as it stays in the parent.
pub fn fork() {
    IS_CHILD.swap(true, Ordering::SeqCst);
}

/// The calling thread will not be in the child of a fork.
pub fn stay_in_parent() {
    STAYS_IN_PARENT.with(|stays| stays.set(true));
}

/// What ends a thread that a fork's child does not have.
pub struct LeftBehind;

/// Returns whether the calling thread does not exist in the fork's child, which the process is by now.
pub fn is_left_behind() -> bool {
    // By an update that changes nothing, because it reads the latest value.
    STAYS_IN_PARENT.with(|stays| stays.get()) && IS_CHILD.fetch_or(false, Ordering::SeqCst)
}

/// Ends a thread that a fork's child does not have, which has just taken the lock of `word` but not used its value.
pub fn stay_behind(word: &AtomicU32, free: u32) {
    if is_left_behind() {
        word.store(free, Ordering::Release);
        stop_if_left_behind();
    }
}

fn stop_if_left_behind() {
    if is_left_behind() && !std::thread::panicking() {
        resume_unwind(std::boxed::Box::new(LeftBehind));
    }
}

/// Runs `body` under every interleaving in which threads are interrupted at most `interruptions` times when they need
/// not be.
pub fn interleave(interruptions: usize, body: impl Fn() + Sync + Send + 'static) {
    static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 50_000;
    builder.preemption_bound = Some(interruptions);
    builder.check(move || {
        RUNS.fetch_add(1, Ordering::Relaxed);
        body();
    });
    std::println!("{} runs so far", RUNS.load(Ordering::Relaxed));
}
