//! The C library's list of open streams, and its lock.

use core::mem::transmute;

use crate::code::arch::weak_address;

/// The functions of glibc that lock its list of streams: `_IO_list_lock` and its like. A thread can take the lock
/// again while it has it. Other C libraries have no such functions; then nothing is locked.
#[derive(Clone, Copy)]
pub(crate) struct StreamList {
    lock: Option<extern "C" fn()>,
    unlock: Option<extern "C" fn()>,
    reset: Option<extern "C" fn()>,
}

impl StreamList {
    pub(crate) fn of_c_library() -> StreamList {
        let functions =
            [weak_address!("_IO_list_lock"), weak_address!("_IO_list_unlock"), weak_address!("_IO_list_resetlock")];
        // SAFETY: each is null, which stands for `None`, or a function without arguments and result.
        let [lock, unlock, reset] =
            functions.map(|address| unsafe { transmute::<*const (), Option<extern "C" fn()>>(address) });
        StreamList { lock, unlock, reset }
    }

    pub(crate) fn lock(&self) {
        call(self.lock);
    }

    pub(crate) fn unlock(&self) {
        call(self.unlock);
    }

    /// Frees the lock in the child of a fork, whichever thread had it.
    pub(crate) fn reset(&self) {
        call(self.reset);
    }
}

fn call(function: Option<extern "C" fn()>) {
    if let Some(function) = function {
        function();
    }
}
