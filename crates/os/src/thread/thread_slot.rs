//! Thread-local pointers that start at the address of a static, and callbacks at a thread's end.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::call::errno::errno_kept;
use crate::call::refused::{Refused, refuse_call_if_told};

/// Defines a module with `get` and `set` for a thread-local pointer. It starts at the address of a static, so that its
/// users need not test whether the thread has set it. `$name` is the name of a hidden symbol, which must be unique in a
/// program.
///
/// The pointer lies in the static block of thread-local storage and is read by two instructions. `thread_local!` calls
/// `__tls_get_addr` in a library, which may allocate. Where the platform has no such slot, `get` returns the static and
/// `set` does nothing.
#[macro_export]
macro_rules! thread_slot {
    ($(#[$about:meta])* mod $module:ident, $name:literal: *const $type:ty = $initial:path) => {
        $(#[$about])*
        mod $module {
            #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
            mod slot {
                core::arch::global_asm!(
                    ".pushsection .tdata.heapwright_slot, \"awT\", %progbits",
                    concat!(".globl ", $name),
                    concat!(".hidden ", $name),
                    concat!(".type ", $name, ", %object"),
                    concat!(".size ", $name, ", 8"),
                    ".p2align 3",
                    concat!($name, ":"),
                    ".quad {initial}",
                    ".popsection",
                    initial = sym $initial,
                );

                #[inline(always)]
                pub(super) fn get() -> *const $type {
                    let distance = $crate::thread_word_distance!($name);
                    // SAFETY: the distance is that of the word defined above.
                    unsafe { $crate::arch::load_thread_word(distance).cast() }
                }

                pub(super) fn set(value: *const $type) {
                    let distance = $crate::thread_word_distance!($name);
                    // SAFETY: the distance is that of the word defined above.
                    unsafe { $crate::arch::store_thread_word(distance, value.cast()) };
                }
            }

            #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
            mod slot {
                pub(super) fn get() -> *const $type {
                    &raw const $initial
                }

                pub(super) fn set(_value: *const $type) {}
            }

            /// The calling thread's pointer.
            #[inline(always)]
            pub(crate) fn get() -> *const $type {
                slot::get()
            }

            /// Sets the calling thread's pointer.
            #[inline(always)]
            pub(crate) fn set(value: *const $type) {
                slot::set(value);
            }
        }
    };
}

/// A handler that runs when a thread ends.
///
/// It does not run for the main thread, whose end is that of the process. Destructors of the thread's other values may
/// run afterwards, and may allocate; a thread that calls [`ThreadEnd::tell`] again meanwhile has the handler run again.
pub struct ThreadEnd {
    /// The system's number of the key, plus one; 0 while there is none.
    key: AtomicU32,
    handler: unsafe extern "C" fn(*mut c_void),
}

impl ThreadEnd {
    /// `handler` runs at the end of every thread that has called [`ThreadEnd::tell`]; its argument has no meaning.
    #[must_use]
    pub const fn new(handler: unsafe extern "C" fn(*mut c_void)) -> Self {
        ThreadEnd { key: AtomicU32::new(0), handler }
    }

    /// Has the handler run when the calling thread ends; returns whether it will: not when the process has used all its
    /// keys. May call `calloc` when the process has many keys.
    pub fn tell(&self) -> bool {
        // The system calls the handler for any value but null.
        let value = core::ptr::from_ref(self).cast();
        self.key().is_ok_and(|key| {
            // SAFETY: the key exists and is never deleted; the value is never dereferenced.
            refuse_call_if_told().is_ok() && errno_kept(|| unsafe { libc::pthread_setspecific(key, value) }) == 0
        })
    }

    /// Returns the key, which the first call creates: best before there are others, for early keys need no memory of
    /// their own.
    fn key(&self) -> Result<libc::pthread_key_t, Refused> {
        let known = self.key.load(Ordering::Acquire);
        if known != 0 {
            return Ok(known - 1);
        }
        refuse_call_if_told()?;
        let mut key = 0;
        // SAFETY: the key is written to a local variable, and the handler is a function, which exists as long as this
        // code.
        if errno_kept(|| unsafe { libc::pthread_key_create(&mut key, Some(self.handler)) }) != 0 {
            return Err(Refused);
        }
        match self.key.compare_exchange(0, key + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(key),
            Err(other) => {
                // SAFETY: another thread has been quicker, and no thread uses this key.
                unsafe { libc::pthread_key_delete(key) };
                Ok(other - 1)
            }
        }
    }
}
