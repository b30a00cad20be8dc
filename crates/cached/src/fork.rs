//! Locks that are held across forks, and the state of the heap in the child.

use heapwright_os::ForkPass;

use crate::harden;
use heapwright_slabs::arena::{ARENA, Registry};
use heapwright_slabs::platform::ForkHandlers;
use heapwright_slabs::{purging, thread};

/// The handlers that are called when the process forks.
pub(crate) const HANDLERS: ForkHandlers = ForkHandlers {
    hold: before_fork,
    // SAFETY: called after `hold`, by the thread that called that or by its copy.
    let_go: || unsafe { after_fork() },
    // SAFETY: called in a child, before it can have started another thread.
    begin_child: || unsafe { after_fork_in_child() },
};

/// Takes all locks for a fork, as `pass` says, so that no other thread changes the shared state meanwhile. May be
/// called when they are held.
pub fn before_fork(pass: ForkPass<'_>) {
    harden::hold(pass);
    hold_heap(pass);
    ARENA.hold(pass);
    if !matches!(pass, ForkPass::Look(_)) {
        Registry::hold_for_fork();
    }
}

/// Locks the calling thread's heap, as `pass` says.
fn hold_heap(pass: ForkPass<'_>) {
    let own = thread::heap_if_any();
    match (pass, own) {
        (ForkPass::Look(is_interrupted), _) => {
            // An owner may wait for a visitor, and other threads for that owner.
            if own.is_some_and(|own| own.heap().is_held_by_owner()) || Registry::is_visiting() {
                is_interrupted.set(true);
            }
        }
        (ForkPass::Take { .. }, Some(own)) => own.heap().hold_for_fork(),
        (ForkPass::TakeSoon { .. }, Some(own)) => own.heap().hold_for_fork_soon(),
        (_, None) => {}
    }
}

/// Frees these locks, in the parent or in the child.
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`before_fork`].
pub unsafe fn after_fork() {
    // SAFETY: this thread, or the one that it is a copy of, called `before_fork`, as this function requires.
    unsafe {
        Registry::let_go();
        ARENA.let_go();
        harden::let_go();
    }
}

/// Makes the heap usable in the child of a fork, before [`after_fork`].
///
/// The thread caches of the parent's other threads stay as they are and are not used in the child; their blocks can be
/// used and freed. The slabs of these threads' heaps are used unless a thread had locked them; in that case, and for
/// blocks in inboxes, memory is lost in the child. If a signal handler that forks has interrupted this thread while it
/// held the arena's lock, no orphans are found in the child.
///
/// # Safety
/// This thread is the only one of a child.
pub unsafe fn after_fork_in_child() {
    if thread::heap_if_any().is_some_and(|own| own.heap().is_visited()) {
        thread::unset_heap();
    }
    purging::begin_child();
    if let Some(mut arena) = ARENA.lock_in_child() {
        arena.begin_child();
    }
}
