//! Forks: handlers around them, locks held across them, and their count.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::lock::Lock;
use crate::pages::{Refused, refuse_call_if_told};
use crate::process::process_id;

/// Has `prepare` run before every `fork`, then `parent` or `child` after it. Of several entries, the last registered
/// prepares first and is called last afterwards.
///
/// # Errors
/// [`Refused`] when there is no memory for one more entry.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the functions exist as long as this code.
    let result = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if result == 0 { Ok(()) } else { Err(Refused) }
}

/// The state of a process behind one lock, which [`hold_across_forks`] holds while the process forks. Without that, the
/// child of a fork during which another thread held the lock could never take it.
pub trait HeldAcrossForks: 'static {
    /// The type of the state.
    type State: 'static;

    /// Returns the lock.
    fn lock() -> &'static Lock<Self::State>;

    /// Takes further locks before a fork. The lock is held.
    fn before_fork() {}

    /// Frees these locks in the parent.
    ///
    /// # Safety
    /// The calling thread has called [`HeldAcrossForks::before_fork`] and forked.
    unsafe fn after_fork_in_parent() {}

    /// Frees these locks in the child, and makes the state that of the child. The lock is held.
    ///
    /// # Safety
    /// The thread that forked has called [`HeldAcrossForks::before_fork`], and the calling one is its copy in the
    /// child.
    unsafe fn after_fork_in_child(_state: &mut Self::State) {}
}

/// Has every `fork` from now on hold the lock. To be called once, and where `malloc` can be called: registering may
/// allocate.
///
/// # Errors
/// [`Refused`] when there is no memory for one more entry.
pub fn hold_across_forks<H: HeldAcrossForks>() -> Result<(), Refused> {
    extern "C" fn prepare<H: HeldAcrossForks>() {
        H::lock().hold();
        H::before_fork();
    }
    extern "C" fn parent<H: HeldAcrossForks>() {
        // SAFETY: this thread ran `prepare` before it forked, which took the lock and called `before_fork`.
        unsafe {
            H::after_fork_in_parent();
            H::lock().let_go();
        }
    }
    extern "C" fn child<H: HeldAcrossForks>() {
        // SAFETY: the thread that forked ran `prepare`, which took the lock and called `before_fork`; this is its copy,
        // and the only thread of the child.
        unsafe {
            H::after_fork_in_child(H::lock().held());
            H::lock().let_go_in_child();
        }
    }
    at_fork(prepare::<H>, parent::<H>, child::<H>)
}

/// 0 before the first call of [`fork_count`].
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Set in the counts of a process without a handler for forks; the other bits are the process's number then.
const UNWATCHED: u64 = 1 << 63;

/// Returns a number that differs between the parent and the child of a `fork`, never 0: data that belongs to a process
/// is stale when the count has changed.
///
/// Costs one load after the first call. Children made by `_Fork` or by the bare system call are not counted.
#[inline(always)]
#[must_use]
pub fn fork_count() -> u64 {
    match COUNT.load(Ordering::Acquire) {
        0 => watch(),
        count => count,
    }
}

/// Starts counting. When threads start it at the same time, each fork may be counted twice, which does no harm.
#[cold]
#[inline(never)]
fn watch() -> u64 {
    extern "C" fn nothing() {}
    extern "C" fn count_one() {
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
    if at_fork(nothing, nothing, count_one).is_err() {
        return UNWATCHED | u64::from(process_id());
    }
    match COUNT.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => 1,
        Err(count) => count,
    }
}
