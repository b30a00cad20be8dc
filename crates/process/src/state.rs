//! The heap of this process, from its first allocation on, behind one lock.

use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_cached as cached;
use heapwright_os::{ForkPass, HeldAcrossForks, Lock, Locked, Output, Refused, abort, hold_across_forks};

use crate::beacon;
use crate::heap::Heap;
use crate::route;
use crate::settings::{OnBadFree, Settings};

/// The heap and its settings.
pub(crate) struct State {
    pub(crate) heap: Heap,
    pub(crate) settings: Settings,
    /// Frees of addresses that were not live blocks, if those are ignored.
    pub(crate) bad_frees: u64,
}

static STATE: Lock<Option<State>> = Lock::new(None);

/// The settings, from the first attempt to create the state on: they are read once, as that may map memory. Locked only
/// by a thread that holds the state's lock.
static SETTINGS: Lock<Option<Settings>> = Lock::new(None);

/// Runs `act` on the state, which the first call creates. Returns `None` when there is no memory for it.
#[inline(always)]
pub(crate) fn with<R>(act: impl FnOnce(&mut State) -> R) -> Option<R> {
    let mut state = STATE.lock();
    if state.is_none() {
        drop(state);
        begin();
        state = STATE.lock();
    }
    state.as_mut().map(act)
}

/// As [`with`], where that is rare: taking the lock is a call.
pub(crate) fn with_rarely<R>(act: impl FnOnce(&mut State) -> R) -> Option<R> {
    lock_begun().as_mut().map(act)
}

/// Runs `act` on the state, if it has been created.
pub(crate) fn with_existing<R>(act: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.lock().as_mut().map(act)
}

#[cold]
#[inline(never)]
fn lock_begun() -> Locked<'static, Option<State>> {
    begin();
    STATE.lock()
}

/// Creates the state with the first allocation, made by the dynamic linker, another library's constructor, this
/// library's own or the program. When there is no memory for it, a later call tries again.
#[cold]
#[inline(never)]
pub(crate) fn begin() {
    register_fork_handlers();
    let mut state = STATE.lock();
    if state.is_some() {
        return;
    }
    let Ok(settings) = settings() else { return };
    let heap = Heap::new(&settings).inspect_err(|&error| settings.refuse_rules_that_fail(error));
    if let Ok(heap) = heap {
        let state = state.insert(State { heap, settings, bad_frees: 0 });
        beacon::light(&mut state.heap, state.settings.placement, STATE.word());
        route::open(&state.heap);
    }
}

/// Returns the settings, which the first successful call reads from the environment.
fn settings() -> Result<Settings, Refused> {
    let mut known = SETTINGS.lock();
    if let Some(settings) = *known {
        return Ok(settings);
    }
    let settings = Settings::read()?;
    *known = Some(settings);
    Ok(settings)
}

/// Registers the handlers of forks when the library is loaded, or with the first allocation if that comes earlier, so
/// that they are the last to take locks and the first to free them. Called without the lock: when many handlers are
/// registered, this allocates.
pub(crate) fn register_fork_handlers() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // Without fork handlers, a fork while another thread allocates would leave the child with a locked heap.
    if hold_across_forks::<Forks>().is_err() {
        end(b"heapwright: fork handlers could not be registered: there is no memory\n");
    }
}

/// Prints a line and ends the process by `SIGABRT`. Called without the lock: a handler of that signal may allocate and
/// fork.
pub(crate) fn end(line: &[u8]) -> ! {
    Output::standard_error().write(line);
    abort()
}

/// The locks that are held across a fork: the heap's lock, and those of the cached heap.
struct Forks;

impl HeldAcrossForks for Forks {
    type State = Option<State>;

    fn lock() -> &'static Lock<Option<State>> {
        &STATE
    }

    fn before_fork(_: Option<&Self::State>, pass: ForkPass<'_>) {
        cached::before_fork(pass);
    }

    unsafe fn after_fork(_: Option<&Self::State>) {
        // SAFETY: this thread, or the one that it is a copy of, called `before_fork`, as `after_fork` requires.
        unsafe { cached::after_fork() };
    }

    unsafe fn after_fork_in_child(_: &mut Option<State>) {
        // SAFETY: this thread is the only one of a child, as `after_fork_in_child` requires.
        unsafe { cached::after_fork_in_child() };
    }
}

impl State {
    pub(crate) fn ignores_bad_frees(&self) -> bool {
        self.settings.on_bad_free == OnBadFree::Ignore
    }
}
