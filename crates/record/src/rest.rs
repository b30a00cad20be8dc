//! Whether the calling thread is at rest, or writes to its buffer: so that the handler of a signal leaves a buffer
//! alone that is being written to.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::{Ordering, compiler_fence};

use heapwright_os::{second_thread_word, set_thread_word, thread_word};
use heapwright_stream::Buffer;

use crate::detail::{Detail, Kind};

/// Value of the thread's word when the thread is not writing to its buffer. The word is 0 when the thread has no
/// buffer, and when a signal has interrupted the thread while it was writing.
///
/// The buffer's address is in the thread's second word. A call stores 0 in the first word, and then loads the second: a
/// handler that runs before the store may change the buffer, and one that runs after it does not.
pub(crate) const AT_REST: usize = 1;

/// Replaces [`AT_REST`] when calls are recorded with times or stacks, which do not fit in 16 bytes: such threads take a
/// slower code path.
pub(crate) const AT_REST_DETAILED: usize = 2;

/// Replaces [`AT_REST`] when nothing but stacks is recorded besides: calls that release blocks fit in 16 bytes.
pub(crate) const AT_REST_WITH_STACKS: usize = 8;

/// Replaces the others when the thread's next call is to be timed.
pub(crate) const AT_REST_TIMED: usize = 4;

/// Returns the buffer of the calling thread, if it has one.
#[inline(always)]
pub(crate) fn own_buffer() -> *const Buffer {
    with_exposed_provenance(second_thread_word())
}

/// Marks the calling thread as writing, so that handlers of signals leave its buffer alone from now on, and returns the
/// buffer; null when the thread has none. Called when the thread was at rest.
#[inline(always)]
pub(crate) fn begin_to_write() -> *const Buffer {
    set_thread_word(0);
    compiler_fence(Ordering::SeqCst);
    own_buffer()
}

/// Ends that; `rest` is the thread's word from now on.
#[inline(always)]
pub(crate) fn end_writing(rest: usize) {
    compiler_fence(Ordering::SeqCst);
    set_thread_word(rest);
}

/// Whether the next call of this thread is to be timed.
#[inline(always)]
pub(crate) fn is_to_be_timed() -> bool {
    thread_word() & AT_REST_TIMED != 0
}

/// Ends that: the next call is one as any other.
pub(crate) fn take_mark() {
    if is_to_be_timed() {
        set_thread_word(at_rest());
    }
}

pub(crate) fn at_rest() -> usize {
    match Detail::kind() {
        Kind::None => AT_REST,
        Kind::Stacks => AT_REST_WITH_STACKS,
        Kind::Any => AT_REST_DETAILED,
    }
}

/// Has the next call of this thread recorded behind those that other threads have recorded until now.
pub(crate) fn end_turn() {
    let buffer = own_buffer();
    if thread_word() != 0 && !buffer.is_null() {
        // SAFETY: the buffer is this thread's and mapped as long as the recording lives, and the thread is not writing
        // to it.
        unsafe { (*buffer).end_turn() };
    }
}
