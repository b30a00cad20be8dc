//! The heap of this process, from its first allocation to its exit.

use heapwright_cached as cached;
use heapwright_os::{Lock, Output, abort, at_fork, has_variable_with};

use crate::beacon;
use crate::front;
use crate::heap::Heap;
use crate::settings::{OnBadFree, Settings};
use crate::statistics;

/// The heap and what was asked for.
pub(crate) struct State {
    pub(crate) heap: Heap,
    pub(crate) settings: Settings,
    /// Pointers freed that were not blocks, when those are ignored.
    pub(crate) bad_frees: u64,
}

static STATE: Lock<Option<State>> = Lock::new(None);

/// Runs `act` on the state, which is made if this is the first call.
#[inline(always)]
pub(crate) fn with<R>(act: impl FnOnce(&mut State) -> R) -> R {
    let mut state = STATE.lock();
    if let Some(state) = &mut *state {
        return act(state);
    }
    drop(state);
    begin();
    match &mut *STATE.lock() {
        Some(state) => act(state),
        None => abort(),
    }
}

/// Makes the state. Whoever allocates first does so, be it the dynamic linker, another library's constructor or this
/// library's own; the entry for `fork` is made as early, so that it is the last to lock and the first to unlock.
#[cold]
#[inline(never)]
pub(crate) fn begin() {
    let mut state = STATE.lock();
    if state.is_some() {
        return;
    }
    let settings = Settings::read();
    match Heap::new(&settings) {
        Ok(heap) => {
            let state = state.insert(State { heap, settings, bad_frees: 0 });
            beacon::light(state, STATE.word());
            front::open(&state.heap);
        }
        Err(_) => {
            Output::standard_error()
                .write(b"heapwright: there is no address space for a heap: raise the limit on it (ulimit -v)\n");
            abort();
        }
    }
    drop(state);
    // Without an entry a fork while other threads allocate would leave the child without a usable heap.
    if at_fork(before_fork, after_fork_in_parent, after_fork_in_child).is_err() {
        Output::standard_error().write(b"heapwright: fork handlers could not be registered: there is no memory\n");
        abort();
    }
}

/// Called when the library is loaded: if the environment asks for anything, it is looked at even if nothing is ever allocated.
/// Else a program that allocates nothing has no heap.
pub fn start() {
    if has_variable_with(b"HEAPWRIGHT_") {
        begin();
    }
}

/// Called when the process exits.
pub fn finish() {
    if let Some(state) = &mut *STATE.lock() {
        statistics::report(state);
        beacon::leave_last_state(state);
    }
}

extern "C" fn before_fork() {
    STATE.hold();
    cached::before_fork();
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: this thread took the locks before it forked.
    unsafe {
        cached::after_fork_in_parent();
        STATE.let_go();
    }
}

extern "C" fn after_fork_in_child() {
    // SAFETY: this thread's likeness in the parent took the locks before it forked.
    unsafe {
        cached::after_fork_in_child();
        STATE.let_go_in_child();
    }
}

impl State {
    pub(crate) fn ignores_bad_frees(&self) -> bool {
        self.settings.on_bad_free == OnBadFree::Ignore
    }
}
