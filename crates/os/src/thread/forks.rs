//! Forks: the locks that are held across them, their order, and the count of forks.
//!
//! One set of handlers is registered with the C library, and runs all those that were registered here. It should be
//! registered early, best when the library is loaded: handlers that are registered first prepare last and are called
//! first afterwards, so that those of other libraries run outside.
//!
//! - **A process with a single thread needs no lock.** A signal handler may fork wherever it has interrupted the
//!   thread.
//! - **The C library's list of streams is locked first.** Its `fork` takes that lock after all handlers have run. A
//!   thread in `fflush(NULL)` holds it and waits for a stream, and a thread in `getline` holds the stream and
//!   allocates.
//! - **The thread that forks can allocate** in the handlers of other libraries that run while the locks are held: a
//!   [`Lock`] names its owner.
//! - **Signals are blocked while all locks are held,** but not while they are being taken: another thread that holds
//!   one may have to wait for this thread's answer to a signal (as garbage collectors do). A signal handler that forks
//!   meanwhile takes the remaining locks and leaves them to the interrupted fork.
//! - **A signal handler that forks may have interrupted its thread while that held a lock.** Then the fork does not
//!   wait long for other locks, whose owners may wait for this one, and the child may not be able to allocate.
//!
//! `_Fork` and the bare system call run no handlers. [`fork_count`] counts their children nevertheless.

use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::call::errno::errno_kept;
use crate::call::page_size::page_size;
use crate::call::refused::{Refused, refuse_call_if_told};
use crate::memory::huge_pages;
use crate::memory::pages::map;
use crate::thread::lock::{ForkPass, Lock, PATIENCE};
use crate::thread::streams::StreamList;
use crate::thread::threads::is_single_threaded;

/// What a part of the process does around forks.
#[derive(Clone, Copy)]
pub struct ForkHandlers {
    /// Calls [`Lock::hold_for_fork`] for each lock, in the order in which the process takes them. Called for several
    /// passes, and maybe when some are held already.
    pub hold: fn(ForkPass<'_>),
    /// Frees them by [`Lock::let_go_after_fork`], in the parent or in the child. May be called when some were not
    /// taken.
    pub let_go: fn(),
    /// Makes the state that of the child. Takes locks by [`Lock::lock_in_child`].
    pub begin_child: fn(),
}

/// Has the handlers called at every `fork` from now on. Of several entries, the last registered takes its locks first.
///
/// To be called once for each part, and where `malloc` can be called: registering may allocate.
///
/// From the handlers' `hold` to their `let_go`, code of the thread that forks that takes one of their locks has one
/// guard of it at a time. That is so for the locks of an allocator, which no other code knows.
///
/// # Errors
/// [`Refused`] when there is no memory for one more entry.
pub fn at_fork(handlers: ForkHandlers) -> Result<(), Refused> {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) && register(prepare, parent, child).is_err() {
        REGISTERED.store(false, Ordering::Relaxed);
        return Err(Refused);
    }
    FORKS.lock().add(handlers)
}

/// Registers functions with the C library.
fn register(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> Result<(), Refused> {
    refuse_call_if_told()?;
    if cfg!(miri) {
        return Ok(());
    }
    let register = pthread_atfork();
    // SAFETY: the functions exist as long as this code, and the handle is that of the library that contains it.
    let result = unsafe { register(Some(prepare), Some(parent), Some(child), this_library()) };
    if result == 0 { Ok(()) } else { Err(Refused) }
}

/// A handler of forks.
type Handler = Option<unsafe extern "C" fn()>;

/// A function that registers handlers, with the library that they belong to, which only glibc's takes.
type Register = unsafe extern "C" fn(Handler, Handler, Handler, *const c_void) -> c_int;

/// Returns the C library's function. That of glibc, which its `pthread_atfork` calls, is missing in others: a process
/// that is started with this library preloaded may have musl.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn pthread_atfork() -> Register {
    use crate::code::arch::weak_address;
    extern "C" fn nothing(_: Handler, _: Handler, _: Handler, _: *const c_void) -> c_int {
        -1
    }
    let found = [weak_address!("__register_atfork"), weak_address!("pthread_atfork")];
    // SAFETY: a C library's function of one of these names takes these arguments, or ignores the last.
    let function = |address| unsafe { core::mem::transmute::<*const (), Register>(address) };
    found.into_iter().find(|address| !address.is_null()).map_or(nothing, function)
}

/// Returns the handle by which the C library knows the library or program that contains this code: when it is unloaded,
/// its handlers go with it.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn this_library() -> *const c_void {
    unsafe extern "C" {
        /// Defined by the compiler's start files: the address of itself in a library, null in a program.
        static __dso_handle: *const c_void;
    }
    // SAFETY: the variable does not change.
    unsafe { __dso_handle }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn pthread_atfork() -> Register {
    unsafe extern "C" fn register(prepare: Handler, parent: Handler, child: Handler, _: *const c_void) -> c_int {
        // SAFETY: as the caller requires.
        unsafe { libc::pthread_atfork(prepare, parent, child) }
    }
    register
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn this_library() -> *const c_void {
    core::ptr::null()
}

/// The state of a process behind one lock, which [`hold_across_forks`] holds while the process forks. Without that, the
/// child of a fork during which another thread held the lock could never take it.
pub trait HeldAcrossForks: 'static {
    /// The type of the state.
    type State: 'static;

    /// Returns the lock.
    fn lock() -> &'static Lock<Self::State>;

    /// Takes further locks for a fork, as [`ForkHandlers::hold`] does. The state is not available if another thread has
    /// the lock, which may be in a pass that only looks or that gives up soon.
    fn before_fork(_state: Option<&Self::State>, _pass: ForkPass<'_>) {}

    /// Frees these locks, as [`ForkHandlers::let_go`] does. The state is available as before the fork.
    ///
    /// # Safety
    /// The calling thread, or in the child the one that it is a copy of, has called [`HeldAcrossForks::before_fork`].
    unsafe fn after_fork(_state: Option<&Self::State>) {}

    /// Makes the state that of the child. The lock is held. Not called if the thread that forked was interrupted by a
    /// signal while it held the lock.
    ///
    /// # Safety
    /// The calling thread is the only one of a child.
    unsafe fn after_fork_in_child(_state: &mut Self::State) {}
}

/// Has every `fork` from now on hold the lock; see [`at_fork`].
///
/// # Errors
/// [`Refused`] when there is no memory for one more entry.
pub fn hold_across_forks<H: HeldAcrossForks>() -> Result<(), Refused> {
    fn hold<H: HeldAcrossForks>(pass: ForkPass<'_>) {
        match pass {
            ForkPass::Look(_) => {
                H::lock().hold_for_fork(pass);
                H::before_fork(H::lock().try_lock().as_deref(), pass);
            }
            ForkPass::Take | ForkPass::TakeSoon => {
                // SAFETY: this thread holds the lock then.
                let state = H::lock().hold_for_fork(pass).then(|| unsafe { H::lock().held() });
                H::before_fork(state, pass);
            }
        }
    }
    fn let_go<H: HeldAcrossForks>() {
        let is_available = H::lock().is_held_for_fork() || is_single_threaded();
        // SAFETY: called after the fork of a thread that has called `hold`, by that thread or its copy, which holds the
        // lock, or is the only thread.
        unsafe {
            H::after_fork(is_available.then(|| H::lock().held()));
            H::lock().let_go_after_fork();
        }
    }
    fn begin_child<H: HeldAcrossForks>() {
        if let Some(mut state) = H::lock().lock_in_child() {
            // SAFETY: called in a child, before it can have started another thread.
            unsafe { H::after_fork_in_child(&mut state) };
        }
    }
    at_fork(ForkHandlers { hold: hold::<H>, let_go: let_go::<H>, begin_child: begin_child::<H> })
}

/// The state of the handlers. Held as a whole by the thread that forks; others only read entries that are complete.
struct Forks {
    handlers: [Cell<Option<ForkHandlers>>; Forks::MOST],
    /// Number of complete entries.
    count: AtomicUsize,
    /// Number of forks that this thread has begun while it was about to fork: in signal handlers, or in the handlers of
    /// other libraries.
    nested: AtomicU32,
    /// Number of times that this process has become another, as the child of a fork.
    children: AtomicU32,
    /// Whether the thread that forks has all locks, and signals are blocked.
    is_complete: AtomicBool,
    /// The signals that the thread had blocked.
    signals: UnsafeCell<MaybeUninit<libc::sigset_t>>,
}

static FORKS: Lock<Forks> = Lock::new(Forks {
    handlers: [const { Cell::new(None) }; Forks::MOST],
    count: AtomicUsize::new(0),
    nested: AtomicU32::new(0),
    children: AtomicU32::new(0),
    is_complete: AtomicBool::new(false),
    signals: UnsafeCell::new(MaybeUninit::uninit()),
});

impl Forks {
    /// The most entries: a process has few kinds of heaps.
    const MOST: usize = 8;

    fn add(&self, handlers: ForkHandlers) -> Result<(), Refused> {
        let count = self.count.load(Ordering::Relaxed);
        self.handlers.get(count).ok_or(Refused)?.set(Some(handlers));
        self.count.store(count + 1, Ordering::Release);
        Ok(())
    }

    /// The handlers, the first registered first.
    fn handlers(&self) -> impl DoubleEndedIterator<Item = ForkHandlers> + '_ {
        self.handlers[..self.count.load(Ordering::Acquire)].iter().filter_map(Cell::get)
    }

    fn go_through(&self, pass: ForkPass<'_>) {
        self.handlers().rev().for_each(|handlers| (handlers.hold)(pass));
    }

    /// Whether the calling thread was interrupted while it held a lock, by the signal handler that forks.
    fn has_interrupted(&self) -> bool {
        let is_interrupted = Cell::new(false);
        self.go_through(ForkPass::Look(&is_interrupted));
        is_interrupted.get()
    }

    fn let_go_all(&self) {
        self.handlers().for_each(|handlers| (handlers.let_go)());
    }

    fn begin_child(&self) {
        self.children.fetch_add(1, Ordering::Relaxed);
        self.handlers().for_each(|handlers| (handlers.begin_child)());
    }

    /// Blocks all signals of this thread.
    fn block_signals(&self) {
        // SAFETY: the set is filled by the first call, and the old one is written to memory of the thread that forks,
        // which this is.
        unsafe {
            let mut all = MaybeUninit::uninit();
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), (*self.signals.get()).as_mut_ptr());
        }
    }

    /// The signals that were blocked before [`Forks::block_signals`].
    ///
    /// # Safety
    /// It was called.
    unsafe fn signals_before(&self) -> libc::sigset_t {
        // SAFETY: the set was stored, as this function requires, and belongs to the thread that forks, which this is.
        unsafe { (*self.signals.get()).assume_init() }
    }

    /// Takes all locks and blocks signals; returns `false` if this process is another one by now, which has to begin
    /// anew: the child of a signal handler that has forked meanwhile.
    fn hold_everything(&self, streams: &StreamList, pass: ForkPass<'_>) -> bool {
        let children = self.children.load(Ordering::Relaxed);
        streams.lock();
        self.go_through(pass);
        self.block_signals();
        let is_same = self.children.load(Ordering::Relaxed) == children;
        if !is_same {
            // It is not known whether this thread took the lock before or after the child began; no other thread has
            // it.
            streams.reset();
            // SAFETY: the signals are blocked.
            restore_signals(&unsafe { self.signals_before() });
        }
        is_same
    }

    /// Ends a fork that began inside another one of this thread, which keeps the locks; `false` if this is not one.
    fn end_nested(&self) -> bool {
        let nested = self.nested.load(Ordering::Relaxed);
        if nested != 0 {
            self.nested.store(nested - 1, Ordering::Relaxed);
        }
        nested != 0
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set is borrowed for the call, and null is allowed for the old one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
}

/// Takes all locks, or none if there is no other thread that could hold one.
extern "C" fn prepare() {
    huge_pages::record_fork();
    let streams = StreamList::of_c_library();
    // SAFETY: without the lock, entries are only read.
    let forks = unsafe { FORKS.held() };
    if FORKS.is_held_for_own_fork() {
        forks.nested.fetch_add(1, Ordering::Relaxed);
        streams.lock();
        forks.go_through(if forks.has_interrupted() { ForkPass::TakeSoon } else { ForkPass::Take });
    } else if !is_single_threaded() {
        let (pass, patience) =
            if forks.has_interrupted() { (ForkPass::TakeSoon, Some(PATIENCE)) } else { (ForkPass::Take, None) };
        // Otherwise another thread is about to fork, and may wait for a lock that this one holds.
        if FORKS.take_for_fork(patience) {
            while !forks.hold_everything(&streams, pass) {}
            forks.is_complete.store(true, Ordering::Relaxed);
        }
    }
}

extern "C" fn parent() {
    if FORKS.is_held_for_own_fork() {
        StreamList::of_c_library().unlock();
        // SAFETY: this thread holds the lock.
        let is_nested = unsafe { FORKS.held() }.end_nested();
        if !is_nested {
            end();
        }
    }
}

extern "C" fn child() {
    // SAFETY: this is the only thread.
    let forks = unsafe { FORKS.held() };
    if !FORKS.is_held_for_own_fork() {
        return begin_without_locks(forks);
    }
    let streams = StreamList::of_c_library();
    streams.reset();
    forks.begin_child();
    if !forks.end_nested() {
        end();
    } else if forks.is_complete.load(Ordering::Relaxed) {
        // For the outer fork.
        streams.lock();
    }
}

/// Begins a child whose parent took no lock. If another of its threads was about to fork, the locks that it held for
/// that are freed: nothing was changed under them.
fn begin_without_locks(forks: &Forks) {
    forks.let_go_all();
    forks.nested.store(0, Ordering::Relaxed);
    forks.is_complete.store(false, Ordering::Relaxed);
    // SAFETY: this is the only thread, and it does not hold the lock.
    unsafe { FORKS.let_go_after_fork() };
    forks.begin_child();
}

/// Frees all locks, in the parent or in the child, and restores the signals.
fn end() {
    // SAFETY: this thread, or the one that it is a copy of, holds the lock for a fork and has blocked the signals.
    unsafe {
        let forks = FORKS.held();
        forks.let_go_all();
        forks.is_complete.store(false, Ordering::Relaxed);
        let signals = forks.signals_before();
        FORKS.let_go_after_fork();
        restore_signals(&signals);
    }
}

/// Where the process's count lies; null before the first call of [`fork_count`]. 0 in a child that has not counted yet.
static COUNT: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// The highest count that this process or one that it is a copy of has had.
static HIGHEST: AtomicU64 = AtomicU64::new(0);

/// Returns a number that differs between the parent and the child of a `fork`, never 0: data that belongs to a process
/// is stale when the count has changed.
///
/// Costs two loads after the first call. The system itself clears the count in children, so that those of the bare
/// system call are counted, too; but not children that share the memory of their parent (`vfork`). On systems that do
/// not clear memory (before Linux 4.14), children made by `_Fork` or by the bare system call are not counted.
#[inline(always)]
#[must_use]
pub fn fork_count() -> u64 {
    let count = COUNT.load(Ordering::Acquire);
    // SAFETY: not null, it points to a word that is never unmapped.
    match unsafe { count.as_ref() }.map(|count| count.load(Ordering::Acquire)) {
        None | Some(0) => count_anew(),
        Some(count) => count,
    }
}

/// Returns the word in which [`fork_count`] counts, the same one throughout. It is 0 in a child that has not called
/// that function: a caller that keeps the word compares it with its last count by one load.
#[must_use]
pub fn fork_counter() -> &'static AtomicU64 {
    // SAFETY: not null, it points to a word that is never unmapped.
    unsafe { COUNT.load(Ordering::Acquire).as_ref() }.unwrap_or_else(watch)
}

#[cold]
#[inline(never)]
fn count_anew() -> u64 {
    let count = fork_counter();
    // Before the count itself, so that a child which is forked in between does not get the same one.
    let next = HIGHEST.fetch_add(1, Ordering::AcqRel) + 1;
    count.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire).map_or_else(|other| other, |_| next)
}

/// Has the count cleared in every child, by the system and, where that does not, by a handler.
fn watch() -> &'static AtomicU64 {
    static WITHOUT_MEMORY: AtomicU64 = AtomicU64::new(0);
    extern "C" fn nothing() {}
    extern "C" fn clear() {
        // SAFETY: as in `fork_count`.
        if let Some(count) = unsafe { COUNT.load(Ordering::Acquire).as_ref() } {
            count.store(0, Ordering::Release);
        }
    }
    let made = cleared_in_children().unwrap_or(&WITHOUT_MEMORY);
    match COUNT.compare_exchange(null_mut(), ptr::from_ref(made).cast_mut(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // Refused, there is still the system.
            let _ = register(nothing, nothing, clear);
            made
        }
        // SAFETY: as in `fork_count`. What another thread has made in the meantime is used, and a page is lost.
        Err(others) => unsafe { others.as_ref() }.unwrap_or(made),
    }
}

/// A word of memory that the system clears in children.
fn cleared_in_children() -> Option<&'static AtomicU64> {
    let page = map(page_size()).ok()?;
    if cfg!(not(miri)) {
        // SAFETY: the page was mapped above. Where this is refused, only the handler clears the word.
        errno_kept(|| unsafe { libc::madvise(page.as_ptr().cast(), page_size(), libc::MADV_WIPEONFORK) });
    }
    // SAFETY: zero is a value of the word, and the page is never unmapped.
    Some(unsafe { page.cast().as_ref() })
}
